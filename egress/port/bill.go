package port

import (
	"encoding/json"
	"fmt"
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
	// interval is the beginning of the one that runs, with the bits and seconds so far.
	interval time.Time
	bits     float64
	seconds  float64
	// billed is the rate that is billed anyway. Of the allowed intervals above it some are
	// free still.
	billed        float64
	allowed, free int
	spare         int
}

// savedBill is what survives a restart.
type savedBill struct {
	// Month begins at this time.
	Month time.Time `json:"month"`
	// Rates are the means of its intervals, in bit/s.
	Rates []uint64 `json:"rates"`
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
		b.saved.Rates = append(b.saved.Rates, uint64(b.bits/b.seconds))
	}
	b.interval, b.bits, b.seconds = next, 0, 0
	if month := monthOf(next, b.day); !month.Equal(b.saved.Month) {
		if len(b.saved.Rates) > 0 {
			b.saved.Before = percentile(b.saved.Rates)
		}
		b.saved.Month, b.saved.Rates = month, nil
	}
	b.count()
}

// count finds the rate that is billed anyway, if the month goes on like this.
func (b *Bill) count() {
	rates := slices.Clone(b.saved.Rates)
	slices.Sort(rates)
	b.allowed = int(free * float64(min(len(rates)+borrowed, b.intervals())))
	rate := 0.0
	if len(rates) > b.allowed {
		rate = float64(rates[len(rates)-1-b.allowed])
	}
	if len(rates) < firstDay {
		rate = max(rate, b.saved.Before)
	}
	b.billed = max(b.commit, rate)
	above, _ := slices.BinarySearch(rates, uint64(overBilled*b.billed))
	b.free = max(b.allowed-(len(rates)-above), 0)
	b.spareLevel()
}

// spareLevel takes a new level of free intervals. It falls at once, and rises with a clear difference
// alone: clients move with it.
func (b *Bill) spareLevel() {
	level := (b.free*MaxSpare + b.allowed - 1) / max(b.allowed, 1)
	if level < b.spare || level > b.spare+1 || (b.spare == 0 && b.free >= minBurst) {
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
	// borrowed is how many intervals to come are taken to be lower than those so far. Of five
	// days: the first evening must not set the rate of the month.
	borrowed = 5 * firstDay
	// overBilled times the billed rate is clearly above it.
	overBilled = 1.03
	// minBurst is how many free intervals must be left to begin with them again.
	minBurst = 12
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
func (b *Bill) Target() float64 {
	unused := 0.0
	if b.allowed > 0 {
		unused = float64(b.free) / float64(b.allowed)
	}
	return max(b.commit, b.billed*(1-descent*unused))
}

// MarshalJSON gives what survives a restart of the border.
func (b *Bill) MarshalJSON() ([]byte, error) { return json.Marshal(b.saved) }

// UnmarshalJSON takes it back. The rates of another month are only those of the month before.
func (b *Bill) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &b.saved); err != nil {
		return fmt.Errorf("reading the bill of a port: %w", err)
	}
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

// percentile is the 95th one of rates: the highest without the highest 5 %, rounded down.
func percentile(rates []uint64) float64 {
	if len(rates) == 0 {
		return 0
	}
	sorted := slices.Clone(rates)
	slices.Sort(sorted)
	return float64(sorted[len(sorted)-1-int(free*float64(len(sorted)))])
}
