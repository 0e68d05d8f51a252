package port

import "slices"

// ordered are rates in order.
type ordered []uint64

// orderedOf returns rates in order, and leaves the list as it is.
func orderedOf(rates []uint64) ordered {
	list := slices.Clone(rates)
	slices.Sort(list)
	return list
}

func (o *ordered) add(rate uint64) {
	place, _ := slices.BinarySearch(*o, rate)
	*o = slices.Insert(*o, place, rate)
}

// remove takes out a rate that is in the list.
func (o *ordered) remove(rate uint64) {
	place, _ := slices.BinarySearch(*o, rate)
	*o = slices.Delete(*o, place, place+1)
}

// above is how many rates are higher than one.
func (o ordered) above(rate float64) float64 {
	place, _ := slices.BinarySearch(o, uint64(rate)+1)
	return float64(len(o) - place)
}

// highest is the highest rate, 0 of none.
func (o ordered) highest() float64 {
	if len(o) == 0 {
		return 0
	}
	return float64(o[len(o)-1])
}

// percentile is the 95th one: the highest rate without the highest 5 %, rounded down.
func (o ordered) percentile() float64 {
	if len(o) == 0 {
		return 0
	}
	return float64(o[len(o)-1-int(free*float64(len(o)))])
}
