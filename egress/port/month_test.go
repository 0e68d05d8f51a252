package port_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hikyaku/egress/port"
)

// month is a case of the simulated months: a peering port, and two transits.
type month struct {
	name           string
	peering, a, b  float64 // capacities in Gbit/s
	commitA        float64
	commitB        float64
	priceA, priceB uint32
	peak           float64
	growth         float64 // over the month
	matches        int     // evenings with 40 % more
	weekend        float64 // more on its days, as a part
	holiday        int     // days from the 11th on with a quarter more
	flash          float64 // more in the evening of the 14th, as a part
	bound          float64 // share of clients to whom another route is not as good
	within         float64 // the bill by the optimum
}

var months = []month{
	{name: "equal transits", peering: 4, a: 10, b: 10, priceA: 1000, priceB: 1000, peak: 13, within: 1.09},
	{name: "a cheap and a dear transit", peering: 4, a: 10, b: 10, priceA: 600, priceB: 1000, peak: 15, within: 1.11},
	{name: "commitments", peering: 4, a: 10, b: 10, commitA: 4, commitB: 4, priceA: 1000, priceB: 800, peak: 13, within: 1.07},
	{name: "matches", peering: 4, a: 10, b: 10, commitA: 3, commitB: 3, priceA: 1000, priceB: 1100, peak: 11, matches: 9, within: 1.11},
	{name: "growth by a twentieth", peering: 4, a: 10, b: 10, commitA: 3, commitB: 3, priceA: 1000, priceB: 1100, peak: 11, growth: 0.05, within: 1.09},
	{name: "growth by half", peering: 4, a: 10, b: 10, commitA: 3, commitB: 3, priceA: 1000, priceB: 1100, peak: 9, growth: 0.5, within: 1.15},
	{name: "a third of the clients need one route", peering: 6, a: 10, b: 10, commitA: 2, commitB: 2, priceA: 1000, priceB: 1100, peak: 13, bound: 0.33, within: 1.1},
	{name: "weekends lower by a quarter", peering: 4, a: 10, b: 10, commitA: 2, commitB: 2, priceA: 1000, priceB: 1100, peak: 13, weekend: -0.25, within: 1.1},
	{name: "weekends higher by a quarter", peering: 4, a: 10, b: 10, commitA: 2, commitB: 2, priceA: 1000, priceB: 1100, peak: 11, weekend: 0.25, within: 1.21},
	{name: "holiday", peering: 4, a: 10, b: 10, commitA: 2, commitB: 2, priceA: 1000, priceB: 1100, peak: 11, holiday: 4, within: 1.22},
	{name: "flash event", peering: 4, a: 10, b: 10, commitA: 2, commitB: 2, priceA: 1000, priceB: 1100, peak: 11, flash: 0.6, within: 1.08},
	{name: "a low and a high commitment", peering: 4, a: 10, b: 10, commitA: 1, commitB: 6, priceA: 800, priceB: 1000, peak: 14, within: 1.07},
}

// diurnal is the shape of an eyeball network's traffic over a day and a week, whose peak is 1.
// The smallest of the night is a third of the evening's. An hour before and after the peak are
// nearly as high. Weekends begin earlier.
func diurnal(at time.Time) float64 {
	hour := float64(at.Hour()) + float64(at.Minute())/60 + float64(at.Second())/3600
	angle := func(hours, per float64) float64 { return 2 * math.Pi * (hour - hours) / per }
	shape := 0.66 + 0.29*math.Cos(angle(20.2, 24)) + 0.09*math.Cos(angle(21.5, 12))
	if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
		shape += 0.05 * math.Cos(angle(15, 24))
	}
	return shape / 1.04
}

// The bill is at most 1.11 times the offline optimum, which knows the month beforehand. Months are worse whose
// first days say too little of the others: with growth by half, higher weekends or a holiday. The goodput is at
// least 98 % of that by quality alone, and no port is full while another has room. TestMonth has one of the
// months with one seed. The constants were chosen by the first five seeds alone.
func TestNightlyMonths(t *testing.T) {
	for i, m := range months {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range []uint64{7, 11, 23, 57, 101, 3, 42, 88, 200, 1234} {
				m.check(t, seed, uint64(i))
			}
		})
	}
}

// See TestNightlyMonths.
func TestMonth(t *testing.T) { months[2].check(t, 7, 2) }

// check runs a month.
func (m month) check(t *testing.T, seed, stream uint64) {
	t.Helper()
	got := m.run(t, rand.New(rand.NewPCG(seed, stream)))
	t.Logf("bill %.2f, optimum %.2f (%.1f %% more); quality alone %.2f; goodput %.2f %%; %.1f moves a client",
		got.bill, got.optimum, 100*(got.bill/got.optimum-1), got.alone, 100*got.goodput, got.moves)
	if got.bill > m.within*got.optimum {
		t.Errorf("the bill is %.2f, of the optimum %.2f", got.bill, got.optimum)
	}
	if got.goodput < 0.98 {
		t.Errorf("the goodput is %.1f %% of what quality alone gives", 100*got.goodput)
	}
	if got.moves > 140 {
		t.Errorf("a client moves %.0f times in the month", got.moves)
	}
	if got.full > 0.001 {
		t.Errorf("a port was above 95 %% while another had room for %.2f %% of the time", 100*got.full)
	}
}

type monthResult struct{ bill, optimum, alone, goodput, full, moves float64 }

const (
	monthDays = 30
	simStep   = 15 * time.Second
)

func (m month) configs() []port.Config {
	return []port.Config{
		{Number: 1, Kind: port.Peering, Capacity: m.peering * gbps, Fill: 0.9},
		{Number: 2, Kind: port.Transit, Price: m.priceA, Capacity: m.a * gbps, Fill: 0.9, Percentile: true, Commit: m.commitA * gbps, Day: 1},
		{Number: 3, Kind: port.Transit, Price: m.priceB, Capacity: m.b * gbps, Fill: 0.9, Percentile: true, Commit: m.commitB * gbps, Day: 1},
	}
}

func (m month) run(t *testing.T, rng *rand.Rand) (got monthResult) {
	clients := simClients(rng, 600, 3, m.bound, 1)
	s := newSimulation(m.configs(), clients, []time.Duration{time.Second, 3 * time.Second, 10 * time.Second})
	s.deliver(time.Time{})
	quality := s.byQuality()
	evenings := map[int]bool{}
	for len(evenings) < m.matches {
		evenings[rng.IntN(monthDays)] = true
	}
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var rates [3][]float64 // of intervals
	var total, fixed [][3]float64
	var sum [3]float64
	var demandSum, better, alone, full float64
	var drift float64
	steps := int(monthDays * 24 * time.Hour / simStep)
	perInterval := int(port.Interval / simStep)
	boundShare := m.boundShares(clients)
	for n := range steps {
		now := begin.Add(time.Duration(n+1) * simStep)
		drift = 0.999*drift + 0.002*rng.NormFloat64()
		demand := m.peak * diurnal(now) * (1 + m.growth*float64(n)/float64(steps)) * math.Exp(drift+0.02*rng.NormFloat64())
		if evenings[now.Day()-1] && now.Hour() >= 19 && now.Hour() < 21 {
			demand *= 1.4
		}
		demand *= m.event(now)
		offered := s.step(now, simStep, demand*gbps)
		wasFull, room := false, false
		for i, rate := range offered {
			capacity := s.configs[i].Capacity
			sum[i] += min(rate, capacity) / gbps
			wasFull = wasFull || rate > 0.95*capacity
			room = room || rate < 0.85*capacity
		}
		if wasFull && room {
			full++
		}
		better, alone = better+s.goodput(demand), alone+quality.goodput(demand)
		demandSum += demand
		if (n+1)%perInterval == 0 {
			for i := range rates {
				rates[i] = append(rates[i], sum[i]/float64(perInterval))
			}
			mean := demandSum / float64(perInterval)
			total = append(total, [3]float64{mean})
			fixed = append(fixed, [3]float64{boundShare[0] * mean, boundShare[1] * mean, boundShare[2] * mean})
			sum, demandSum = [3]float64{}, 0
		}
	}
	prices := [3]float64{0, float64(m.priceA), float64(m.priceB)}
	commits := [3]float64{0, m.commitA, m.commitB}
	for i := 1; i < 3; i++ {
		got.bill += prices[i] * max(percentile95(rates[i]), commits[i]) / 1000
	}
	got.optimum = m.optimum(total, fixed)
	got.alone = m.qualityBill(total, boundShare)
	got.goodput = better / alone
	got.full = full / float64(steps)
	got.moves = float64(s.moves) / float64(len(clients))
	return got
}

// event is the factor by which demand differs from its daily shape.
func (m month) event(now time.Time) float64 {
	factor := 1.0
	if day := now.Weekday(); day == time.Saturday || day == time.Sunday {
		factor += m.weekend
	}
	if day := now.Day() - 11; day >= 0 && day < m.holiday {
		factor *= 1.25
	}
	if now.Day() == 14 && now.Hour() >= 18 && now.Hour() < 21 {
		factor *= 1 + m.flash
	}
	return factor
}

// boundShares are the shares of traffic that need each port.
func (m month) boundShares(clients []simClient) (share [3]float64) {
	for _, c := range clients {
		best, needs := slices.Max(c.by), slices.Min(c.by) < 0.98*slices.Max(c.by)
		if needs {
			share[slices.Index(c.by, best)] += c.weight
		}
	}
	return share
}

// goodput is that of all clients now. Traffic beyond a port's capacity is lost.
func (s *simulation) goodput(demand float64) (now float64) {
	for p, config := range s.configs {
		now += s.served[p] * demand * min(1, config.Capacity/gbps/max(s.load[p]*demand, 1e-9))
	}
	return now
}

// byQuality puts every client on the best port, and among equals on the usual one.
func (s *simulation) byQuality() *simulation {
	alone := &simulation{configs: s.configs, ports: s.ports, clients: s.clients}
	for _, c := range s.clients {
		best := c.usual
		for q := range c.by {
			if c.by[q] > c.by[best] {
				best = q
			}
		}
		alone.on = append(alone.on, best)
	}
	alone.sum()
	return alone
}

// qualityBill is what the month costs where quality alone decides.
func (m month) qualityBill(total [][3]float64, bound [3]float64) (bill float64) {
	rest := 1 - bound[0] - bound[1] - bound[2]
	prices := [3]float64{0, float64(m.priceA), float64(m.priceB)}
	commits := [3]float64{0, m.commitA, m.commitB}
	for i, capacity := range []float64{0, m.a, m.b} {
		if i == 0 {
			continue
		}
		share := bound[i]
		if i == 1 {
			share += rest
		}
		var rates []float64
		for _, d := range total {
			rates = append(rates, min(share*d[0], capacity))
		}
		bill += prices[i] * max(percentile95(rates), commits[i]) / 1000
	}
	return bill
}

// optimum is the least bill for the month's demands, which it knows. It tries all pairs of
// billed rates: each transit may be above its own in 5 % of the intervals.
func (m month) optimum(total, fixed [][3]float64) float64 {
	best := math.Inf(1)
	const grid = 0.1
	free := int(0.05 * float64(len(total)))
	for a := m.commitA; a <= 0.9*m.a; a += grid {
		for b := m.commitB; b <= 0.9*m.b; b += grid {
			bill := (float64(m.priceA)*a + float64(m.priceB)*b) / 1000
			if bill < best && m.carries(total, fixed, a, b, free) {
				best = bill
			}
		}
	}
	return best
}

// carries reports whether the transits carry all that peering does not, within their billed
// rates but for the free intervals.
func (m month) carries(total, fixed [][3]float64, a, b float64, free int) bool {
	const fill = 0.9
	var onlyA, onlyB, either, both int
	for i, d := range total {
		f := fixed[i]
		needA, needB := f[1], f[2]
		flexible := d[0] - f[0] - f[1] - f[2]
		flexible -= min(flexible, max(fill*m.peering-f[0], 0))
		fits := func(toA, toB float64) bool {
			return needA <= toA && needB <= toB && flexible <= toA-needA+toB-needB
		}
		byA, byB := fits(fill*m.a, b), fits(a, fill*m.b)
		switch {
		case fits(a, b):
		case byA && byB:
			either++
		case byA:
			onlyA++
		case byB:
			onlyB++
		default:
			both++
		}
	}
	return both+onlyA <= free && both+onlyB <= free && onlyA+onlyB+either+2*both <= 2*free
}

func percentile95(rates []float64) float64 {
	sorted := slices.Sorted(slices.Values(rates))
	return sorted[len(sorted)-1-int(0.05*float64(len(sorted)))]
}

// A bill goes on after a restart, and the next month begins with what this one has shown.
func TestBillSurvivesARestart(t *testing.T) {
	config := port.Config{Number: 1, Kind: port.Transit, Price: 1, Capacity: 10 * gbps, Fill: 0.9, Percentile: true, Day: 15}
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	run := func(p *port.Port, d time.Duration, rate float64) {
		for range int(d / time.Minute) {
			p.Observe(now, time.Minute, rate)
			now = now.Add(time.Minute)
		}
	}
	first := port.New(config)
	run(first, 95*time.Hour, 2*gbps)
	run(first, 5*time.Hour, 8*gbps)
	text, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	second := port.New(config)
	if err := json.Unmarshal(text, second); err != nil {
		t.Fatal(err)
	}
	run(second, 10*time.Minute, 2*gbps)
	if billed, _ := second.Billed(); billed != 2*gbps {
		t.Errorf("after a restart the bill is by %.1f Gbit/s instead of 2: the highest 5 %% are free", billed/gbps)
	}
	run(second, 10*time.Hour, 8*gbps)
	if billed, _ := second.Billed(); billed != 8*gbps {
		t.Errorf("with more than 5 %% above it the bill is by %.1f Gbit/s instead of 8", billed/gbps)
	}
	now = time.Date(2026, 12, 15, 0, 0, 0, 0, time.UTC)
	run(second, time.Hour, gbps)
	if billed, _ := second.Billed(); billed != 8*gbps {
		t.Errorf("in the first hours of a month the one before counts, but the bill is by %.1f Gbit/s", billed/gbps)
	}
	run(second, 25*time.Hour, gbps)
	if billed, _ := second.Billed(); billed != gbps {
		t.Errorf("after a day of the month it counts alone, but the bill is by %.1f Gbit/s", billed/gbps)
	}
}
