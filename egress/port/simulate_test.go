package port_test

import (
	"math/rand/v2"
	"time"

	"hikyaku/egress/port"
)

// simClient is a client of the simulations.
type simClient struct {
	weight float64
	class  port.Class
	// by is the goodput that it has by each port, of 1. Others than the best are equal to
	// it for the client if they have at least 98 % of it.
	by []float64
	// place is its place in each port's shares, 0 to 1.
	place []float64
	usual int
}

// simulation has ports whose states reach the clients' servers after a delay.
type simulation struct {
	configs []port.Config
	ports   []*port.Port
	clients []simClient
	// delay of each server; a client belongs to one.
	delay  []time.Duration
	server []int
	// sent has the changes of states that are under way.
	sent  []sentState
	known [][]port.State // by server and port
	on    []int
	// load is the part of the demand on each port, and served that part by its quality there.
	load, served []float64
	moves        int
	changes      int // of states
}

type sentState struct {
	at     time.Time
	server int
	port   int
	state  port.State
}

func newSimulation(configs []port.Config, clients []simClient, delays []time.Duration) *simulation {
	s := &simulation{configs: configs, clients: clients, delay: delays}
	for _, c := range configs {
		s.ports = append(s.ports, port.New(c))
	}
	for range delays {
		known := make([]port.State, len(configs))
		for i, p := range s.ports {
			known[i] = p.State()
		}
		s.known = append(s.known, known)
	}
	for i := range clients {
		s.server = append(s.server, i%len(delays))
		s.on = append(s.on, s.choose(i))
	}
	s.sum()
	return s
}

// choose is the edge server's rule (crates/core/src/egress/room.rs). It takes no port that is
// full, unless all are. Of those that are as good as the best it takes the cheapest.
func (s *simulation) choose(i int) int {
	c, known := &s.clients[i], s.known[s.server[i]]
	excess := func(p int) float64 { return c.place[p] - float64(known[p].Admitted[c.class])/port.Whole }
	var open []int
	least := 0
	for p := range known {
		if excess(p) < 0 {
			open = append(open, p)
		}
		if excess(p) < excess(least) {
			least = p
		}
	}
	if len(open) == 0 {
		open = []int{least}
	}
	best := open[0]
	for _, p := range open {
		if c.by[p] > c.by[best] || (c.by[p] == c.by[best] && p == c.usual) {
			best = p
		}
	}
	cost := func(p int) (mayRaise bool, cost uint32) {
		if c.place[p] < float64(known[p].Billed[c.class])/port.Whole {
			return false, known[p].Price
		}
		// By the part of free intervals that is used, of which half a step is rounded off.
		return true, known[p].Price * (2*port.MaxSpare + 1 - 2*uint32(known[p].Spare))
	}
	chosen := best
	for _, p := range open {
		if c.by[p] < 0.98*c.by[best] {
			continue
		}
		raises, price := cost(p)
		if r, least := cost(chosen); (r && !raises) || (r == raises && price < least) {
			chosen = p
		}
	}
	return chosen
}

// step lets time pass. demand is in bit/s for a weight of one. It returns the rate that each
// port was offered.
func (s *simulation) step(now time.Time, lasted time.Duration, demand float64) []float64 {
	s.deliver(now)
	offered := make([]float64, len(s.ports))
	for p, load := range s.load {
		offered[p] = demand * load
	}
	for i, p := range s.ports {
		before := p.State()
		p.Observe(now, lasted, min(offered[i], s.configs[i].Capacity))
		if after := p.State(); after != before {
			s.changes++
			for server, delay := range s.delay {
				s.sent = append(s.sent, sentState{now.Add(delay), server, i, after})
			}
		}
	}
	return offered
}

func (s *simulation) deliver(now time.Time) {
	told := make(map[int]bool)
	rest := s.sent[:0]
	for _, m := range s.sent {
		if m.at.After(now) {
			rest = append(rest, m)
			continue
		}
		s.known[m.server][m.port] = m.state
		told[m.server] = true
	}
	s.sent = rest
	if len(told) == 0 {
		return
	}
	for i := range s.clients {
		if !told[s.server[i]] {
			continue
		}
		if to := s.choose(i); to != s.on[i] {
			s.on[i] = to
			s.moves++
		}
	}
	s.sum()
}

// sum adds up what the clients put on each port.
func (s *simulation) sum() {
	s.load, s.served = make([]float64, len(s.ports)), make([]float64, len(s.ports))
	for i, p := range s.on {
		s.load[p] += s.clients[i].weight
		s.served[p] += s.clients[i].weight * s.clients[i].by[p]
	}
}

// simClients are n clients of heavy-tailed weights, whose sum is 1. bound is the share whose
// best port is a quarter better than the others. All have the same usual port.
func simClients(rng *rand.Rand, n, ports int, bound float64, usual int) []simClient {
	clients := make([]simClient, n)
	sum := 0.0
	for i := range clients {
		c := &clients[i]
		c.weight = min(1/rng.Float64(), 20)
		sum += c.weight
		c.usual = usual
		switch draw := rng.Float64(); {
		case draw < 0.6:
			c.class = port.Goodput
		case draw < 0.85:
			c.class = port.Stall
		default:
			c.class = port.RTT
		}
		best := -1
		if rng.Float64() < bound {
			best = rng.IntN(ports)
		}
		for p := range ports {
			quality := 1.0
			if best >= 0 && p != best {
				quality = 0.8
			}
			c.by = append(c.by, quality)
			c.place = append(c.place, rng.Float64())
		}
	}
	for i := range clients {
		clients[i].weight /= sum
	}
	return clients
}
