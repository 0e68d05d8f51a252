package port

import (
	"encoding/json"
	"time"
)

// Config of a port.
type Config struct {
	Number uint8
	Kind   Kind
	// Price of a Mbit/s for a month, in thousandths.
	Price uint32
	// Capacity in bit/s, and the share of it that may be used.
	Capacity float64
	Fill     float64
	// Percentile: the port is billed by the 95th percentile. Else its bill is the same for
	// any traffic.
	Percentile bool
	// Commit is the rate that is billed anyway, in bit/s. A month begins on Day, 1 to 28.
	Commit float64
	Day    int
}

// Port is the plan of one port. It is not safe for concurrent use.
type Port struct {
	config Config
	full   *Controller
	// dear and bill are nil where the bill does not depend on traffic.
	dear  *Controller
	bill  *Bill
	begin time.Time
	rate  float64
}

// New returns a port that all clients may use, and whose traffic is not billed yet.
func New(c Config) *Port {
	p := &Port{config: c, full: NewController(CapacityLimits(c.Fill), maxLevel)}
	if c.Percentile {
		p.dear = NewController(billLimits, maxLevel)
		p.bill = NewBill(c.Commit, c.Day)
	}
	return p
}

// Configure takes another configuration. The clients that the port admits and the month's
// rates stay; a bill begins where the port had none.
func (p *Port) Configure(c Config) {
	p.full.Limit(CapacityLimits(c.Fill), c.Capacity/p.config.Capacity)
	switch {
	case !c.Percentile:
		p.dear, p.bill = nil, nil
	case p.bill == nil:
		fresh := New(c)
		p.dear, p.bill = fresh.dear, fresh.bill
	default:
		p.bill.setTerms(c.Commit, c.Day)
		p.dear.Limit(billLimits, 1)
	}
	p.config = c
}

// Observe takes the rate at which packets have left over the last `lasted`, in bit/s. It
// returns whether an interval of the bill has ended, which is to be saved.
func (p *Port) Observe(now time.Time, lasted time.Duration, rate float64) (ended bool) {
	if p.begin.IsZero() {
		p.begin = now.Add(-lasted)
	}
	p.rate = rate
	since := now.Sub(p.begin)
	p.full.Observe(since, lasted, rate/p.config.Capacity)
	if p.bill == nil {
		return false
	}
	ended = p.bill.Observe(now, lasted, rate)
	if target := p.bill.Target(); target > 0 {
		p.dear.Observe(since, lasted, rate/target)
	}
	return ended
}

// State is what servers shall know now.
func (p *Port) State() State {
	s := State{Number: p.config.Number, Kind: p.config.Kind, Price: p.config.Price, Admitted: p.full.Shares(), Billed: All}
	if p.bill == nil {
		return s
	}
	s.Billed = Shares{}
	if p.bill.Target() > 0 {
		s.Billed = p.dear.Shares()
	}
	s.Spare = p.bill.Spare()
	return s
}

// Rate is the one observed last, in bit/s.
func (p *Port) Rate() float64 { return p.rate }

// Billed is the rate that the month is billed by, in bit/s, as far as it has shown. depends is
// whether the bill depends on traffic.
func (p *Port) Billed() (rate float64, depends bool) {
	if p.bill == nil {
		return 0, false
	}
	return p.bill.Billed(), true
}

// MarshalJSON gives what survives a restart: the month's bill.
func (p *Port) MarshalJSON() ([]byte, error) { return json.Marshal(p.bill) }

// UnmarshalJSON takes it back, where the port is still billed by it.
func (p *Port) UnmarshalJSON(text []byte) error {
	if p.bill == nil || string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, p.bill)
}
