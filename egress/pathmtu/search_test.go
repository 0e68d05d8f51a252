package pathmtu

import (
	"testing"
	"time"
)

// way is a path under a virtual clock.
type way struct {
	search *Search
	now    time.Time
	// mtu is what it carries. says: it answers larger packets with Packet Too Big.
	mtu   uint32
	says  bool
	down  bool
	lost  func(n int) bool
	count int
	bytes uint64
}

const step = 50 * time.Millisecond

func newWay(ceiling, mtu uint32) *way {
	return &way{search: New(1344, ceiling), now: time.Unix(1000, 0), mtu: mtu}
}

func (w *way) run(length time.Duration) {
	for end := w.now.Add(length); w.now.Before(end); w.now = w.now.Add(step) {
		for _, size := range w.search.Tick(w.now, !w.down, time.Millisecond) {
			w.count++
			w.bytes += uint64(size)
			switch {
			case w.down || w.lost != nil && w.lost(w.count):
			case size <= w.mtu:
				w.search.Answered(size)
			case w.says:
				w.search.TooBig(w.mtu)
			}
		}
	}
}

func TestFindsThePathMTU(t *testing.T) {
	for _, ceiling := range []uint32{1344, 1500, 1600, 9000, 65535} {
		for _, mtu := range []uint32{1300, 1344, 1345, 1400, 1431, 1499, 1500, 1504, 1564, 1600, 4352, 8999, 9000, 70000} {
			want := max(1344, min(mtu, ceiling))
			w := newWay(ceiling, mtu)
			w.run(4 * time.Second)
			if got := w.search.MTU(); got != want || w.search.Searching() {
				t.Errorf("ceiling %d, path %d: the MTU is %d, want %d; searching %t", ceiling, mtu, got, want, w.search.Searching())
			}
		}
	}
}

func TestChanges(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*way)
		want uint32
	}{
		{"a hop becomes smaller without a word", func(w *way) { w.mtu = 1500; w.run(4 * time.Second) }, 1500},
		{"a hop becomes smaller and says so", func(w *way) { w.mtu, w.says = 1500, true; w.run(3 * time.Second) }, 1500},
		{"Packet Too Big counts at once", func(w *way) { w.search.TooBig(1500) }, 1500},
		{"a forged one is found out", func(w *way) { w.search.TooBig(1350); w.run(time.Second) }, 9000},
		{"one below the least MTU", func(w *way) { w.search.TooBig(68) }, 1344},
		{"the first link becomes smaller", func(w *way) { w.search.SetCeiling(1500) }, 1500},
		{"and larger again", func(w *way) {
			w.search.SetCeiling(1500)
			w.run(time.Second)
			w.search.SetCeiling(9000)
			w.run(time.Second)
		}, 9000},
		{"a hop becomes larger again", func(w *way) {
			w.mtu = 1500
			w.run(4 * time.Second)
			w.mtu = 9000
			w.run(raise + 4*time.Second)
		}, 9000},
		{"the border dies for a minute", func(w *way) { w.down = true; w.run(time.Minute); w.down = false; w.run(time.Second) }, 9000},
		{"a tenth of the probes is lost", func(w *way) {
			w.lost = func(n int) bool { return n%10 == 0 }
			w.run(time.Minute)
		}, 9000},
	} {
		w := newWay(9000, 9000)
		w.run(4 * time.Second)
		test.do(w)
		if got := w.search.MTU(); got != test.want {
			t.Errorf("%s: the MTU is %d, want %d", test.name, got, test.want)
		}
	}
}

// TestBlackHoleIsShort counts how long the size in use is larger than what the path carries.
func TestBlackHoleIsShort(t *testing.T) {
	w := newWay(9000, 9000)
	w.run(10 * time.Second)
	w.mtu = 1500
	began := w.now
	for w.search.MTU() > w.mtu {
		w.run(step)
	}
	if took := w.now.Sub(began); took > 2*time.Second {
		t.Errorf("larger packets were lost for %s", took)
	}
}

func TestCostWhenAllIsWell(t *testing.T) {
	w := newWay(9000, 9000)
	w.run(10 * time.Second)
	w.count = 0
	w.run(time.Minute)
	if w.count > 60 {
		t.Errorf("%d probes in a minute", w.count)
	}
}
