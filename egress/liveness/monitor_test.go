package liveness

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

const interval = 50 * time.Millisecond

// network is one of borders under a virtual clock, with a monitor.
type network struct {
	t       *testing.T
	monitor *Monitor
	now     time.Time
	rtt     time.Duration
	starved bool
	// silent are the SIDs whose probes are lost, flying the answers that are under way.
	silent map[netip.Addr]bool
	flying []answer
	asked  int
	loss   func(n int) bool
}

type answer struct {
	sid netip.Addr
	at  time.Time
}

func sidOf(border, peer int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:b%x:%x::", border, peer))
}

func newNetwork(t *testing.T, borders, peers int) *network {
	w := &network{
		t: t, now: time.Unix(1000, 0), rtt: time.Millisecond, silent: make(map[netip.Addr]bool),
		monitor: New(Config{Interval: interval, Lost: 5, Hold: time.Second}),
	}
	var targets []Target
	for b := range borders {
		for p := range peers {
			targets = append(targets, Target{Border: netip.AddrFrom4([4]byte{192, 0, 2, byte(b)}), SID: sidOf(b, p)})
		}
	}
	w.monitor.Watch(targets)
	return w
}

// tick lets time pass, and then the monitor act.
func (w *network) tick(passed time.Duration) {
	w.now = w.now.Add(passed)
	w.flying = slices.DeleteFunc(w.flying, func(a answer) bool {
		if a.at.After(w.now) {
			return false
		}
		w.monitor.Answered(a.sid, w.rtt)
		return true
	})
	for _, sid := range w.monitor.Tick(w.now, w.starved) {
		w.asked++
		if !w.silent[sid] && (w.loss == nil || !w.loss(w.asked)) {
			w.flying = append(w.flying, answer{sid, w.now.Add(w.rtt)})
		}
	}
}

// until ticks until a SID has a state, and returns how long that took.
func (w *network) until(sid netip.Addr, want State, limit time.Duration) time.Duration {
	w.t.Helper()
	for began := w.now; ; w.tick(interval) {
		passed := w.now.Sub(began)
		if w.monitor.View(sid).State == want {
			return passed
		}
		if passed > limit {
			w.t.Fatalf("SID %s is %s after %s, want %s", sid, w.monitor.View(sid).State, limit, want)
		}
	}
}

func (w *network) run(length time.Duration) {
	for end := w.now.Add(length); w.now.Before(end); {
		w.tick(interval)
	}
}

func (w *network) silence(border, peers int, silent bool) {
	for p := range peers {
		w.silent[sidOf(border, p)] = silent
	}
}

func TestDeathIsFoundWithinTheSilence(t *testing.T) {
	for _, test := range []struct {
		name           string
		borders, peers int
		rtt            time.Duration
		limit          time.Duration
	}{
		{"one SID", 1, 1, time.Millisecond, 6 * interval},
		{"50 peers", 8, 50, time.Millisecond, 6 * interval},
		{"a border far away", 1, 2, 280 * time.Millisecond, 12 * interval},
	} {
		w := newNetwork(t, test.borders, test.peers)
		w.rtt = test.rtt
		w.run(10 * time.Second)
		w.silence(0, test.peers, true)
		for p := range test.peers {
			if passed := w.until(sidOf(0, p), Dead, time.Minute); passed > test.limit {
				t.Errorf("%s: death is found after %s, want at most %s", test.name, passed, test.limit)
			}
		}
		if test.borders > 1 && w.monitor.View(sidOf(1, 0)).State != Alive {
			t.Errorf("%s: another border is %s", test.name, w.monitor.View(sidOf(1, 0)).State)
		}
	}
}

func TestDeathIsFoundOnAMachineThatIsAlwaysLate(t *testing.T) {
	w := newNetwork(t, 1, 1)
	w.starved = true
	w.run(10 * time.Second)
	w.silent[sidOf(0, 0)] = true
	if passed := w.until(sidOf(0, 0), Dead, time.Minute); passed > 5*5*interval {
		t.Errorf("found after %s", passed)
	}
}

func TestOneSIDOfManyDies(t *testing.T) {
	w := newNetwork(t, 1, 50)
	w.run(10 * time.Second)
	w.silent[sidOf(0, 7)] = true
	if passed := w.until(sidOf(0, 7), Dead, 10*time.Second); passed > 2*time.Second {
		t.Errorf("found after %s", passed)
	}
	for p := range 50 {
		if s := w.monitor.View(sidOf(0, p)).State; p != 7 && s != Alive {
			t.Errorf("SID %d is %s", p, s)
		}
	}
}

// TestCost counts probes: a border with 50 peers costs no more than one with two.
func TestCost(t *testing.T) {
	w := newNetwork(t, 8, 50)
	w.run(10 * time.Second)
	w.asked = 0
	w.run(10 * time.Second)
	if want := 8 * probesEach * int(10*time.Second/interval); w.asked != want {
		t.Errorf("%d probes in 10s, want %d", w.asked, want)
	}
}

func TestNoFalseAlarms(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*network)
	}{
		{"the process does not run for 5s", func(w *network) { w.tick(5 * time.Second) }},
		{"it runs once in a second", func(w *network) {
			for range 60 {
				w.tick(time.Second)
			}
		}},
		{"the machine is late with its packets", func(w *network) {
			w.starved, w.silent[sidOf(0, 0)] = true, true
			w.run(600 * time.Millisecond)
			w.starved, w.silent[sidOf(0, 0)] = false, false
		}},
		{"every fifth probe is lost", func(w *network) {
			w.loss = func(n int) bool { return n%5 == 0 }
			w.run(time.Minute)
		}},
		{"three in a row are lost", func(w *network) {
			w.loss = func(n int) bool { return n%10 < 3 }
			w.run(time.Minute)
		}},
		{"the RTT is longer than the silence, and grows", func(w *network) {
			for range 100 {
				w.rtt += 5 * time.Millisecond
				w.run(time.Second)
			}
		}},
	} {
		w := newNetwork(t, 1, 1)
		w.run(10 * time.Second)
		test.do(w)
		w.run(time.Second)
		if s, deaths := w.monitor.View(sidOf(0, 0)).State, w.monitor.Deaths(netip.MustParseAddr("192.0.2.0")); s != Alive || deaths != 0 {
			t.Errorf("%s: the SID is %s after %d deaths", test.name, s, deaths)
		}
	}
}

func TestNeverAnsweredIsNotJudged(t *testing.T) {
	w := newNetwork(t, 1, 2)
	w.silence(0, 2, true)
	w.run(time.Minute)
	v := w.monitor.View(sidOf(0, 0))
	if v.State != Unknown || v.Unanswered < 59*time.Second {
		t.Errorf("it is %s, unanswered for %s", v.State, v.Unanswered)
	}
	w.silence(0, 2, false)
	w.until(sidOf(0, 0), Alive, time.Second)
}

// TestDamping has a SID fail again and again: its return takes longer each time, and as long
// as at first when it has behaved well.
func TestDamping(t *testing.T) {
	w := newNetwork(t, 1, 3)
	w.run(10 * time.Second)
	var took []time.Duration
	fail := func() {
		w.silence(0, 3, true)
		w.until(sidOf(0, 1), Dead, time.Second)
		w.silence(0, 3, false)
		took = append(took, w.until(sidOf(0, 1), Alive, 2*maxHold).Truncate(time.Second))
	}
	for range 8 {
		fail()
		w.run(2 * time.Second)
	}
	w.run(forget)
	fail()
	s := time.Second
	if want := []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, s}; !slices.Equal(took, want) {
		t.Errorf("returns took %v, want %v", took, want)
	}
}

func TestAGapBeginsTheHoldAnew(t *testing.T) {
	w := newNetwork(t, 1, 1)
	w.run(10 * time.Second)
	w.silence(0, 1, true)
	w.until(sidOf(0, 0), Dead, time.Second)
	for range 20 {
		w.silence(0, 1, false)
		w.run(800 * time.Millisecond)
		w.silence(0, 1, true)
		w.run(400 * time.Millisecond)
		if s := w.monitor.View(sidOf(0, 0)).State; s != Dead {
			t.Fatalf("it is %s though it was never there for the hold", s)
		}
	}
}

func TestForgottenTargets(t *testing.T) {
	w := newNetwork(t, 1, 2)
	w.run(time.Second)
	w.monitor.Watch([]Target{{Border: netip.MustParseAddr("192.0.2.0"), SID: sidOf(0, 1)}})
	w.asked = 0
	w.run(time.Second)
	if w.monitor.View(sidOf(0, 0)).State != Unknown || w.asked != 20 {
		t.Errorf("a forgotten SID is %s, and %d probes were sent", w.monitor.View(sidOf(0, 0)).State, w.asked)
	}
	w.monitor.Watch(nil)
	w.run(time.Second)
	w.monitor.Watch([]Target{{Border: netip.MustParseAddr("192.0.2.0"), SID: sidOf(0, 0)}})
	w.run(time.Second)
	if w.monitor.View(sidOf(0, 0)).State != Alive {
		t.Error("a SID that is back is not alive")
	}
}

// Silence counts from the beginning for SIDs that a former monitor knew.
func TestMemory(t *testing.T) {
	border := netip.AddrFrom4([4]byte{192, 0, 2, 0})
	sid, other := sidOf(0, 0), sidOf(0, 1)
	both := []Target{{border, sid}, {border, other}}
	for _, test := range []struct {
		name   string
		memory Memory
		silent bool
		want   [3]State // at once, after the first 300 ms, and after two seconds more in which it answers
	}{
		{"nothing is known of a silent SID", Memory{}, true, [3]State{Unknown, Unknown, Alive}},
		{"it answered", Memory{Answering: both}, true, [3]State{Unknown, Dead, Alive}},
		{"it answered, and does still", Memory{Answering: both}, false, [3]State{Unknown, Alive, Alive}},
		{"another SID of its border answered", Memory{Answering: both[1:]}, true, [3]State{Unknown, Unknown, Alive}},
		{"it was dead", Memory{Dead: []netip.Addr{sid, other}}, true, [3]State{Dead, Dead, Alive}},
		{"it was dead, and answers", Memory{Dead: []netip.Addr{sid, other}}, false, [3]State{Dead, Dead, Alive}},
	} {
		w := newNetwork(t, 0, 0)
		w.monitor.Remember(test.memory)
		for _, s := range test.memory.Dead {
			if w.monitor.View(s).State != Dead {
				t.Errorf("%s: a SID that is not watched yet is %s", test.name, w.monitor.View(s).State)
			}
		}
		w.monitor.Watch(both)
		w.silent[sid], w.silent[other] = test.silent, test.silent
		var got [3]State
		got[0] = w.monitor.View(sid).State
		for range 6 {
			w.tick(interval)
		}
		got[1] = w.monitor.View(sid).State
		w.silent = map[netip.Addr]bool{}
		for range 40 {
			w.tick(interval)
		}
		got[2] = w.monitor.View(sid).State
		if got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		if m := w.monitor.Memory(); !slices.Equal(m.Answering, both) || len(m.Dead) != 0 {
			t.Errorf("%s: the next one would know %+v", test.name, m)
		}
	}
}
