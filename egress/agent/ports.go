package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/port"
	"hikyaku/egress/speaker"
)

// ports are the border's ports with their plans. The engine's lock guards them.
type ports struct {
	list []*portState
	// idle are the bills of ports that are not configured now, by their names.
	idle map[string]json.RawMessage
}

type portState struct {
	config *config.Port
	plan   *port.Port
	// shown is the state that servers have.
	shown port.State
	// sent is the counter of the interface at the last reading, in bytes.
	sent uint64
	at   time.Time
	// fault is why the counter cannot be read, nil when it can.
	fault error
}

const (
	// portInterval is how often counters are read.
	portInterval = time.Second
	// billsFile has, in the state directory, the rates of the month by the ports' names.
	billsFile = "bills.json"
)

// newPorts goes on with the bills of a former run, which dir has.
func newPorts(list []config.Port, dir string) (p ports, err error) {
	path := filepath.Join(dir, billsFile)
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &p.idle)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ports{}, fmt.Errorf("reading the month's bills of ports from %s (remove it to begin anew): %w", path, err)
	}
	if p.idle == nil {
		p.idle = make(map[string]json.RawMessage)
	}
	for i := range list {
		s, err := p.add(&list[i])
		if err != nil {
			return ports{}, fmt.Errorf("port %s in %s: %w", list[i].Name, path, err)
		}
		p.list = append(p.list, s)
		delete(p.idle, list[i].Name)
	}
	return p, nil
}

// add returns a further port, which goes on with its bill.
func (p *ports) add(c *config.Port) (*portState, error) {
	plan := port.New(planOf(c))
	if bill, known := p.idle[c.Name]; known {
		if err := json.Unmarshal(bill, plan); err != nil {
			return nil, err
		}
	}
	return &portState{config: c, plan: plan, shown: plan.State()}, nil
}

func planOf(c *config.Port) port.Config {
	return port.Config{
		Number: c.Number, Kind: port.Kind(c.Kind), Price: uint32(c.Price), Capacity: float64(c.Capacity),
		Fill: float64(c.Fill) / 100, Percentile: c.Billing == config.BillingPercentile,
		Commit: float64(c.Commit), Day: int(c.BillingDay),
	}
}

// save writes the bills.
func (p *ports) save(dir string) error {
	bills := make(map[string]any)
	for name, bill := range p.idle {
		bills[name] = bill
	}
	for _, s := range p.list {
		bills[s.config.Name] = s.plan
	}
	text, err := json.Marshal(bills)
	if err == nil {
		err = api.ReplaceFile(filepath.Join(dir, billsFile), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing the month's bills of ports: %w", err)
	}
	return nil
}

// of returns the port that one of the devices is, or nil.
func (p *ports) of(devices []string) *portState {
	i := slices.IndexFunc(p.list, func(s *portState) bool { return slices.Contains(devices, s.config.Interface) })
	if i < 0 {
		return nil
	}
	return p.list[i]
}

func (p *ports) shownOf(devices []string) *api.Port {
	if s := p.of(devices); s != nil {
		return portShown(&s.shown)
	}
	return nil
}

// portShown is a port's state as the API has it.
func portShown(s *port.State) *api.Port {
	if s == nil {
		return nil
	}
	shares := func(s port.Shares) api.PortShares {
		of := func(class port.Class) float64 { return float64(s[class]) / port.Whole }
		return api.PortShares{Goodput: of(port.Goodput), Stall: of(port.Stall), RTT: of(port.RTT)}
	}
	return &api.Port{
		Number: s.Number, Kind: string(s.Kind), Price: float64(s.Price) / 1000,
		Admitted: shares(s.Admitted), Billed: shares(s.Billed), Spare: float64(s.Spare) / port.MaxSpare,
	}
}

// communities are those by which servers get the state.
func (s *portState) communities(asn uint32) (list []speaker.LargeCommunity) {
	for _, c := range s.shown.Communities(asn) {
		list = append(list, c)
	}
	return list
}

// reading is what the interface's counter has shown.
type reading struct {
	sent uint64
	err  error
}

// take takes a reading, and returns whether an interval of the bill has ended. A counter that
// falls is that of a new interface.
func (s *portState) take(r reading, now time.Time) (ended bool) {
	s.fault = r.err
	if r.err != nil {
		s.at = time.Time{}
		return false
	}
	before, at := s.sent, s.at
	s.sent, s.at = r.sent, now
	if lasted := now.Sub(at); !at.IsZero() && r.sent >= before && lasted > 0 {
		rate := float64(r.sent-before) * 8 / lasted.Seconds()
		return s.plan.Observe(now, lasted, rate)
	}
	return false
}

// watchPorts reads the counters of ports, until ctx ends.
func (b *Border) watchPorts(ctx context.Context) {
	if b.opts.DryRun != nil {
		return
	}
	d, err := openDevices()
	if err != nil {
		b.log.Error("watching ports", "error", err)
		return
	}
	defer d.close()
	read := func() {
		readings := make(map[string]reading)
		b.locked(func() {
			for _, p := range b.ports.list {
				readings[p.config.Interface] = reading{}
			}
		})
		for name := range readings {
			var r reading
			r.sent, r.err = d.sent(name)
			readings[name] = r
		}
		if now := time.Now(); len(readings) > 0 {
			b.post(ctx, func(context.Context) { b.observePorts(readings, now) })
		}
	}
	read()
	every(ctx, portInterval, read)
}

// observePorts gives the readings of interfaces to the plans, and changed states to the planner.
func (b *Border) observePorts(readings map[string]reading, now time.Time) {
	ended := false
	b.locked(func() {
		for _, p := range b.ports.list {
			if r, known := readings[p.config.Interface]; known {
				ended = p.take(r, now) || ended
			}
			if state := p.plan.State(); state != p.shown {
				p.shown = state
				b.log.Info("port has changed", "port", p.config.Name, "load", fmt.Sprintf("%.0f %%", 100*p.plan.Rate()/float64(p.config.Capacity)),
					"admitted", state.Admitted, "billed", state.Billed)
			}
		}
		b.showPorts()
	})
	if !ended {
		return
	}
	if err := b.ports.save(b.config.State.Dir); err != nil {
		b.log.Error("a restart would forget the bills of ports", "error", err)
	}
}

// showPorts has servers know the ports' states. It needs the mutex.
func (b *Border) showPorts() {
	for _, name := range b.planner.Names() {
		var list []speaker.LargeCommunity
		if p := b.ports.of(b.planner.Devices(name)); p != nil {
			list = p.communities(b.config.ASN)
		}
		b.planner.SetPort(name, list)
	}
}

// problems are sentences on ports that cannot be watched or have no room.
func (p *ports) problems() (list []string) {
	for _, s := range p.list {
		if s.fault != nil {
			list = append(list, fmt.Sprintf("port %s: its load is not known: %s", s.config.Name, s.fault))
		}
		if s.shown.Admitted == (port.Shares{}) {
			list = append(list, fmt.Sprintf("port %s: all clients are kept off it, since it is full or nearly so; other ports "+
				"have no room either, or something else than content servers fills it", s.config.Name))
		}
	}
	return list
}
