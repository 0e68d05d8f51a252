package agent

import (
	"fmt"
	"maps"
	"time"

	"hikyaku/egress/liveness"
)

// news returns the paths whose verdict is another one than in the last call.
func (p *prober) news() map[string]error {
	p.mu.Lock()
	defer p.mu.Unlock()
	news, gone := make(map[string]error), maps.Clone(p.passed)
	for _, t := range p.targets {
		delete(gone, t.path)
		verdict := p.verdict(t)
		if was, known := p.passed[t.path]; !known || !sameText(was, verdict) {
			p.passed[t.path] = verdict
			news[t.path] = verdict
		}
	}
	for path, was := range gone {
		delete(p.passed, path) // BGP has taken it out of use
		if was != nil {
			news[path] = nil
		}
	}
	return news
}

func sameText(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// unconfirmedTime is how long a path that only a former run knows may leave probes
// unanswered.
const unconfirmedTime = time.Second

// verdict is why packets to a path's SID are lost.
func (p *prober) verdict(t probeTarget) error {
	v := p.monitor.View(t.SID)
	switch {
	case p.unrouted[t.SID] >= noRouteTries && p.linkDown:
		return fmt.Errorf("the interface %s is down", p.config.SRv6.Interface)
	case p.unrouted[t.SID] >= noRouteTries:
		return fmt.Errorf("there is no route to its SID %s", t.SID)
	case v.State == liveness.Dead:
		return errSilent(t.SID)
	case p.conn != nil && v.State == liveness.Unknown && !t.confirmed && v.Unanswered >= unconfirmedTime:
		return fmt.Errorf("no reflector has announced it since the start, and its SID %s does not answer probes", t.SID)
	}
	return nil
}
