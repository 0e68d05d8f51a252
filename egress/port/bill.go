package port

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// Interval is how long a rate is averaged for the bill.
const Interval = 5 * time.Minute

// free is the part of a month's intervals that the bill leaves out: the highest.
const free = 0.05

// MaxSpare is the highest level of free intervals that are left.
const MaxSpare = 8

// Bill has the rates of a month, and those of the month before in short. The port is billed
// by the highest rate without the highest 5 % of intervals (95th percentile), and by the
// commitment if that is more.
type Bill struct {
	// commit is the rate that is billed anyway, in bit/s; day the one of the month on which
	// a new one begins.
	commit float64
	day    int
	saved  savedBill
	// elapsed are the month's rates in order, and latest those of the last days.
	elapsed, latest ordered
	// interval is the beginning of the one that runs, with the bits and seconds so far.
	interval time.Time
	bits     float64
	seconds  float64
	// billed is the rate that is billed anyway, target the one to stay below. free is how many of
	// the month's free intervals are left with it.
	billed, target float64
	free           float64
	spare          int
}

// savedBill is what survives a restart.
type savedBill struct {
	// Month begins at this time.
	Month time.Time `json:"month"`
	// Rates are the means of its intervals, in bit/s.
	Rates []uint64 `json:"rates"`
	// Past are the rates of the last days of the month before.
	Past []uint64 `json:"past"`
	// Before is the rate that the month before was billed by, in bit/s.
	Before float64 `json:"before"`
}

// NewBill returns one without rates. commit is in bit/s, day from 1 to 28, in UTC.
func NewBill(commit float64, day int) *Bill {
	b := &Bill{commit: commit, day: day}
	b.count()
	return b
}

// setTerms takes another commitment and another first day of the month.
func (b *Bill) setTerms(commit float64, day int) {
	b.commit, b.day = commit, day
	b.count()
}

// Observe takes the rate over the last `lasted`, in bit/s. It returns whether an interval has
// ended.
func (b *Bill) Observe(now time.Time, lasted time.Duration, rate float64) (ended bool) {
	interval := now.UTC().Truncate(Interval)
	if ended = !interval.Equal(b.interval); ended {
		b.end(interval)
	}
	b.bits += rate * lasted.Seconds()
	b.seconds += lasted.Seconds()
	return ended
}

// end takes the interval that ran, if it was seen for most of its time.
func (b *Bill) end(next time.Time) {
	if b.seconds >= Interval.Seconds()/2 {
		b.add(uint64(b.bits / b.seconds))
	}
	b.interval, b.bits, b.seconds = next, 0, 0
	if month := monthOf(next, b.day); !month.Equal(b.saved.Month) {
		if len(b.saved.Rates) > 0 {
			b.saved.Before = b.elapsed.percentile()
			b.saved.Past = b.recent()
		}
		b.saved.Month, b.saved.Rates, b.elapsed = month, nil, nil
	}
	b.count()
}

// add takes the rate of another interval.
func (b *Bill) add(rate uint64) {
	if len(b.latest) == window {
		b.latest.remove(b.oldest())
	}
	b.saved.Rates = append(b.saved.Rates, rate)
	b.elapsed.add(rate)
	b.latest.add(rate)
}

// count finds the rate that is billed anyway so far, and plans the rest of the month.
func (b *Bill) count() {
	rate := b.elapsed.percentile()
	if len(b.elapsed) < firstDay {
		rate = max(rate, b.saved.Before)
	}
	b.billed = max(b.commit, rate)
	b.plan()
}

// plan finds the target: the least rate that no more intervals of the month are above than the bill
// leaves out. Those are the ones so far, and as many in each day to come as in each recent one.
func (b *Bill) plan() {
	total := b.intervals()
	allowed := free * float64(total)
	left := float64(max(total-len(b.elapsed), 0))
	above := func(rate float64) float64 {
		return b.elapsed.above(rate) + left*b.latest.above(rate)/float64(len(b.latest)+doubt)
	}
	highest := max(b.elapsed.highest(), b.latest.highest())
	planned := lowest(highest, func(rate float64) bool { return above(overBilled*rate) <= allowed })
	planned = max(planned, b.commit)
	unused := 1 - min(above(overBilled*planned)/allowed, 1)
	b.target = max(b.commit, planned*(1-descent*unused))
	b.free = max(allowed-b.elapsed.above(overBilled*b.target), 0)
	b.spareLevel(allowed)
}

// recent are the rates of the last days, of the month before if need be.
func (b *Bill) recent() []uint64 {
	rates := slices.Concat(b.saved.Past, b.saved.Rates)
	return rates[max(len(rates)-window, 0):]
}

// oldest is the first of the recent rates.
func (b *Bill) oldest() uint64 {
	first := len(b.saved.Past) + len(b.saved.Rates) - window
	if past := len(b.saved.Past); first >= past {
		return b.saved.Rates[first-past]
	}
	return b.saved.Past[first]
}

// lowest is the least rate up to most that is enough, as all higher ones are.
func lowest(most float64, enough func(float64) bool) float64 {
	low, high := 0.0, most
	for high-low > most/1e4 {
		if mean := (low + high) / 2; enough(mean) {
			high = mean
		} else {
			low = mean
		}
	}
	return high
}

// spareLevel takes a new level of free intervals that are left of a month's. It falls at once, and
// rises with a clear difference alone: clients move with it.
func (b *Bill) spareLevel(allowed float64) {
	level := int(math.Ceil(b.free * MaxSpare / allowed))
	if level < b.spare || level > b.spare+1 {
		b.spare = level
	}
}

// intervals is how many the month has.
func (b *Bill) intervals() int {
	month := b.saved.Month
	return int(month.AddDate(0, 1, 0).Sub(month) / Interval)
}

const (
	// firstDay is how many intervals of a month say less than the month before.
	firstDay = 288
	// window is how many of the last intervals show those to come: of four weeks, which have each day of
	// the week equally often.
	window = 28 * firstDay
	// doubt is how many more are taken to be low: of half a week. A rate that is too low costs free
	// intervals and can rise. One that is too high is billed for the month, so the first evenings, which
	// may be a weekend's, must not set it.
	doubt = 7 * firstDay / 2
	// overBilled times the billed rate is clearly above it.
	overBilled = 1.02
	// descent is how far the target is below the billed rate while no free interval is used.
	descent = 0.3
)

// Billed is the rate that is billed anyway, in bit/s, as far as the month has shown.
func (b *Bill) Billed() float64 { return b.billed }

// Spare is how many of the intervals that the bill leaves out are left, 0 to [MaxSpare].
// Traffic above the billed rate is free in those.
func (b *Bill) Spare() uint8 { return uint8(b.spare) }

// Target is the rate that traffic is to stay below, in bit/s. Where free intervals are left
// over it is less than the billed rate. So that falls, day by day, until the highest rates of
// the month are the free ones.
func (b *Bill) Target() float64 { return b.target }

// MarshalJSON gives what survives a restart of the border.
func (b *Bill) MarshalJSON() ([]byte, error) { return json.Marshal(b.saved) }

// UnmarshalJSON takes it back. The rates of another month are only those of the month before.
func (b *Bill) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &b.saved); err != nil {
		return fmt.Errorf("reading the bill of a port: %w", err)
	}
	b.elapsed, b.latest = orderedOf(b.saved.Rates), orderedOf(b.recent())
	b.count()
	return nil
}

// monthOf is the beginning of the billing month that a time is in.
func monthOf(at time.Time, day int) time.Time {
	begin := time.Date(at.Year(), at.Month(), day, 0, 0, 0, 0, time.UTC)
	if at.Before(begin) {
		begin = begin.AddDate(0, -1, 0)
	}
	return begin
}
