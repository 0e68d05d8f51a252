package port_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hikyaku/egress/port"
)

const gbps = 1e9

func capacities(list ...float64) (configs []port.Config) {
	for i, capacity := range list {
		configs = append(configs, port.Config{
			Number: uint8(i + 1), Kind: port.Transit, Price: 1000, Capacity: capacity * gbps, Fill: 0.9,
		})
	}
	return configs
}

// A steady demand, which is noisy from second to second, settles after a few changes whatever
// the delays and however many servers there are.
func TestPortsBelowTheirCapacityWithoutSwings(t *testing.T) {
	cases := []struct {
		name    string
		ports   []float64
		demand  float64
		clients int
	}{
		{"one overflows into one", []float64{10, 10}, 12, 400},
		{"few clients", []float64{10, 10}, 12, 50},
		{"a small port", []float64{1, 20}, 12, 400},
		{"one overflows into two small ones", []float64{10, 3, 3}, 13, 400},
		{"nearly all is in use", []float64{10, 10, 10}, 25.5, 1000},
		{"far too much", []float64{10, 10}, 30, 400},
		{"no port is full", []float64{10, 10}, 5, 400},
	}
	for _, c := range cases {
		for _, servers := range []int{1, 7, 50} {
			for _, delay := range []time.Duration{time.Second, 4 * time.Second, 10 * time.Second} {
				t.Run(fmt.Sprintf("%s, %d servers, %s", c.name, servers, delay), func(t *testing.T) {
					settles(t, c.ports, c.demand, c.clients, servers, delay)
				})
			}
		}
	}
}

func settles(t *testing.T, ports []float64, demand float64, clients, servers int, delay time.Duration) {
	rng := rand.New(rand.NewPCG(1, uint64(servers)))
	delays := make([]time.Duration, servers)
	for i := range delays {
		// Reflectors reach some servers at once, and the last after the whole delay.
		delays[i] = time.Duration(float64(delay) * (1 + float64(i)) / float64(servers)).Truncate(time.Millisecond)
	}
	s := newSimulation(capacities(ports...), simClients(rng, clients, len(ports), 0, 0), delays)
	begin := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	var late int
	over := make([]float64, len(ports))
	const hours, settled = 6, 2 * time.Hour
	for second := range hours * 3600 {
		after := time.Duration(second+1) * time.Second
		noisy := demand * gbps * math.Exp(0.02*rng.NormFloat64())
		before := s.changes
		offered := s.step(begin.Add(after), time.Second, noisy)
		if after < settled {
			continue
		}
		late += s.changes - before
		for i := range over {
			over[i] += offered[i] / (ports[i] * gbps) / (hours*3600 - settled.Seconds())
		}
	}
	var sum float64
	for _, capacity := range ports {
		sum += capacity
	}
	for i, load := range over {
		if load > 0.95 && demand < 0.9*sum {
			t.Errorf("port %d has %.0f %% of its capacity", i+1, 100*load)
		}
	}
	// In four hours.
	if late > 4 {
		t.Errorf("%d changes after the ports have settled, %d in all", late, s.changes)
	}
	if demand < 0.9*ports[0] && s.moves > 0 {
		t.Errorf("%d moves without need", s.moves)
	}
	if most := 3 * clients; s.moves > most {
		t.Errorf("%d moves of %d clients", s.moves, clients)
	}
}

// After a peak, clients come back, and bulk leaves before the rest.
func TestBulkLeavesFirstAndClientsComeBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	s := newSimulation(capacities(10, 10), simClients(rng, 400, 2, 0, 0), []time.Duration{2 * time.Second})
	now := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	run := func(d time.Duration, demand float64) {
		for range int(d / time.Second) {
			now = now.Add(time.Second)
			s.step(now, time.Second, demand*gbps)
		}
	}
	run(time.Hour, 11)
	peak := s.ports[0].State().Admitted
	if peak[port.Goodput] == port.Whole || peak[port.Stall] != port.Whole || peak[port.RTT] != port.Whole {
		t.Errorf("bulk alone has to leave, but the shares are %v", peak)
	}
	run(3*time.Hour, 6)
	if back := s.ports[0].State().Admitted; back != port.All {
		t.Errorf("three hours after the peak the shares are %v", back)
	}
	if s.on[0] != 0 {
		t.Error("a client did not come back")
	}
}

// observe gives a controller a load that does not depend on its level.
func observe(c *port.Controller, from, until time.Duration, load float64) {
	for now := from + 5*time.Second; now <= until; now += 5 * time.Second {
		c.Observe(now, 5*time.Second, load)
	}
}

// Something else than clients fills a port, twice, and the second time just after a rise. Then the
// port is nearly idle.
func TestAnIdlePortTakesItsClientsBack(t *testing.T) {
	c := port.NewController(port.CapacityLimits(0.9), 2*port.Whole)
	observe(c, 0, 2*time.Minute, 0.99)
	now := 2 * time.Minute
	low := c.Shares()
	for c.Shares() == low {
		observe(c, now, now+5*time.Second, 0.1)
		now += 5 * time.Second
	}
	observe(c, now, now+3*time.Minute, 0.99)
	now += 3 * time.Minute
	observe(c, now, now+12*time.Hour, 0.2)
	if got := c.Shares(); got != port.All {
		t.Errorf("twelve hours later the shares of a port with a load of a fifth are %v", got)
	}
}

// A port is above its billed rate, and no other is cheaper for its clients.
func TestClientsWithoutACheaperPortKeepTheirShare(t *testing.T) {
	limits := port.Limits{High: 1.01, Target: 1, Low: 0.98, Urgent: 1.03, Full: math.Inf(1), Mean: time.Minute, Lenient: true, Patience: time.Hour}
	c := port.NewController(limits, 200)
	before := c.Shares()
	observe(c, 0, 6*time.Hour, 1.3)
	if got := c.Shares(); got != before {
		t.Errorf("after six hours above the billed rate its share is %v instead of %v, and all would leave at once for a cheaper port", got, before)
	}
}

// A rise proves wrong as demand grows. An hour later it is tried again at the same load, since demand may have
// changed where the port is only billed by it.
func TestARiseByTheBilledRateIsTriedAgain(t *testing.T) {
	limits := port.Limits{
		High: 1.01, Target: 1, Low: 0.98, Urgent: 1.03, Full: math.Inf(1), Mean: time.Minute,
		Patience: 15 * time.Minute, Memory: time.Hour,
	}
	c := port.NewController(limits, 200)
	now := time.Duration(0)
	for before := c.Shares(); c.Shares() == before; now += 5 * time.Second {
		observe(c, now, now+5*time.Second, 0.9)
	}
	wrong := c.Shares()
	observe(c, now, now+90*time.Second, 1.1)
	if c.Shares() == wrong {
		t.Fatal("the rise does not prove wrong")
	}
	observe(c, now+90*time.Second, now+4*time.Hour, 0.9)
	if got := c.Shares(); got != port.All {
		t.Errorf("four hours at nine tenths of the target later the shares are %v, of the rise %v", got, wrong)
	}
}
