// Package pathmtu finds the largest packets that a path carries, by probes of chosen sizes
// and by Packet Too Big (DPLPMTUD, RFC 8899). It does no I/O and has no clock.
//
// A search narrows the range between the largest size that came through and the smallest
// that did not, with some sizes at a time. When nothing changes, the present size is probed
// each second. If it comes through no more while small packets do, a hop has become
// smaller without saying so, and the search begins anew.
package pathmtu

import (
	"slices"
	"time"
)

const (
	// tries is how often a size is probed before it counts as lost (MAX_PROBES of RFC 8899
	// §5.1.2).
	tries = 3
	// spread is how many sizes a round has.
	spread = 6
	// validate is the time between probes of the present size.
	validate = time.Second
	// raise is the time after which larger sizes are tried again (PMTU_RAISE_TIMER of RFC
	// 8899 §5.1.1).
	raise = 10 * time.Minute
	// answerTime is how long answers are waited for at least.
	answerTime = 150 * time.Millisecond
)

// usual are MTUs of common links, which a search tries first.
var usual = []uint32{9000, 1600, 1564, 1500, 1492, 1480, 1400}

// Search follows the MTU of one path. It is not safe for concurrent use.
type Search struct {
	floor, ceiling uint32
	// mtu is the size in use. low came through, and high did not or is above the ceiling.
	mtu, low, high uint32
	// sizes are those of the round, with whether they came through; nil between rounds.
	sizes map[uint32]bool
	sent  int
	until time.Time // answers of the round are waited for
	first bool      // round of a search
	// checked is when the present size was last probed, found when a search has ended.
	checked, found time.Time
	missed         int
	waiting        bool
	begun          bool
}

// New returns a search between two sizes in bytes. Until a probe shows otherwise the larger
// one is taken.
func New(floor, ceiling uint32) *Search {
	s := &Search{floor: floor}
	s.SetCeiling(ceiling)
	return s
}

// MTU returns the size to use, in bytes.
func (s *Search) MTU() uint32 { return s.mtu }

// Ceiling returns the size that the first link allows.
func (s *Search) Ceiling() uint32 { return s.ceiling }

// SetCeiling sets the size that the first link allows.
func (s *Search) SetCeiling(ceiling uint32) {
	ceiling = max(ceiling, s.floor)
	if ceiling == s.ceiling {
		return
	}
	if s.mtu == 0 || ceiling < s.mtu {
		s.mtu = ceiling
	}
	s.ceiling = ceiling
	s.begin(s.floor)
}

// TooBig takes a Packet Too Big (RFC 8201 §4) that some router has sent. Anybody may have
// sent it, so that it lasts no longer than probes need to show that larger packets pass.
func (s *Search) TooBig(mtu uint32) {
	mtu = max(mtu, s.floor)
	if mtu >= s.mtu {
		return
	}
	former := s.mtu
	s.mtu = mtu
	s.begin(s.floor)
	s.sizes = map[uint32]bool{mtu: false, former: false}
}

// begin starts a search above a size that is taken to come through.
func (s *Search) begin(low uint32) {
	s.low, s.high = low, s.ceiling+1
	s.sizes, s.sent, s.first, s.begun = nil, 0, true, true
	s.waiting, s.missed = false, 0
}

// Tick returns the sizes to probe now. alive says that small packets come through, and rtt
// is their round-trip time.
func (s *Search) Tick(now time.Time, alive bool, rtt time.Duration) []uint32 {
	if !alive {
		// The loss of larger packets shows nothing now.
		if s.begun {
			s.sizes, s.sent = nil, 0
		}
		s.waiting, s.missed, s.checked = false, 0, now
		return nil
	}
	if s.begun {
		return s.round(now, rtt)
	}
	if s.mtu < s.ceiling && now.Sub(s.found) >= raise {
		s.begin(s.mtu)
		return s.round(now, rtt)
	}
	return s.validate(now, rtt)
}

// validate probes the size in use.
func (s *Search) validate(now time.Time, rtt time.Duration) []uint32 {
	switch since := now.Sub(s.checked); {
	case s.waiting && since < max(answerTime, 2*rtt):
		return nil
	case s.waiting:
		if s.missed++; s.missed >= tries {
			former := s.mtu
			s.mtu = s.floor
			s.begin(s.floor)
			s.high = former
			return s.round(now, rtt)
		}
	case since < validate:
		return nil
	}
	s.waiting, s.checked = true, now
	return []uint32{s.mtu}
}

// round sends the sizes of a round some times, and then draws the conclusion.
func (s *Search) round(now time.Time, rtt time.Duration) []uint32 {
	if s.sizes == nil {
		s.sizes, s.sent = s.choose(), 0
	}
	if s.sent < tries {
		s.sent++
		s.until = now.Add(max(answerTime, 2*rtt))
		return s.missing()
	}
	if len(s.missing()) > 0 && now.Before(s.until) {
		return nil
	}
	s.conclude(now)
	return nil
}

// choose returns sizes between those that came through and those that did not.
func (s *Search) choose() map[uint32]bool {
	sizes := map[uint32]bool{s.high - 1: false}
	if s.first {
		for _, size := range usual {
			if s.low < size && size < s.high {
				sizes[size] = false
			}
		}
		return sizes
	}
	step := max((s.high-s.low)/spread, 1)
	for size := s.low + step; size < s.high; size += step {
		sizes[size] = false
	}
	return sizes
}

func (s *Search) missing() []uint32 {
	var sizes []uint32
	for size, came := range s.sizes {
		if !came {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	return sizes
}

func (s *Search) conclude(now time.Time) {
	for size, came := range s.sizes {
		if came && size > s.low {
			s.low = size
		}
	}
	for size, came := range s.sizes {
		if !came && size > s.low && size < s.high {
			s.high = size
		}
	}
	s.mtu, s.sizes, s.first = s.low, nil, false
	if s.high-s.low <= 1 {
		s.begun, s.found, s.checked = false, now, now
	}
}

// Answered says that a probe of a size came through.
func (s *Search) Answered(size uint32) {
	if _, probed := s.sizes[size]; probed {
		s.sizes[size] = true
	}
	if size == s.mtu {
		s.waiting, s.missed = false, 0
	}
}

// Searching reports whether the size is not certain yet.
func (s *Search) Searching() bool { return s.begun }
