package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hikyaku/egress/config"
)

func portName(p *config.Port) string { return p.Name }

// portSteps are those for other ports. [Border.takePorts] does them all.
func (b *Border) portSteps(next []config.Port) (steps []step, err error) {
	removed, added, changed := entries(b.config.Ports, next, portName)
	for _, name := range removed {
		steps = append(steps, said("port "+name+" is removed"))
	}
	for _, name := range added {
		if _, err := b.ports.add(entry(next, name, portName)); err != nil {
			return nil, fmt.Errorf("port %s: %w (%s in state.dir has its bill)", name, err, billsFile)
		}
		steps = append(steps, said("port "+name+" is added"))
	}
	for _, name := range changed {
		steps = append(steps, said("port "+name+" has other settings"))
	}
	return steps, nil
}

// takePorts takes the ports of a configuration, in the loop and with the mutex.
func (b *Border) takePorts(next []config.Port) {
	b.ports.take(next)
	b.showPorts()
}

// take takes other ports. Those that stay go on from where they are.
func (p *ports) take(next []config.Port) {
	for _, s := range p.list {
		if entry(next, s.config.Name, portName) == nil {
			p.idle[s.config.Name], _ = json.Marshal(s.plan) // of plain numbers
		}
	}
	var list []*portState
	for i := range next {
		c := &next[i]
		s := p.named(c.Name)
		if s == nil {
			s, _ = p.add(c) // [Border.portSteps] has tried it
			delete(p.idle, c.Name)
		}
		s.configure(c)
		list = append(list, s)
	}
	p.list = list
}

func (p *ports) named(name string) *portState {
	i := slices.IndexFunc(p.list, func(s *portState) bool { return s.config.Name == name })
	if i < 0 {
		return nil
	}
	return p.list[i]
}

// configure takes another configuration of the port.
func (s *portState) configure(c *config.Port) {
	former := s.config
	s.config = c
	if former.Interface != c.Interface {
		s.sent, s.at, s.fault = 0, time.Time{}, nil
	}
	if *former != *c {
		s.plan.Configure(planOf(c))
		s.shown = s.plan.State()
	}
}
