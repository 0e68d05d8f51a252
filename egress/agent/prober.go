package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"hikyaku/egress/config"
	"hikyaku/egress/liveness"
	"hikyaku/egress/oam"
	"hikyaku/egress/pathmtu"
)

// prober watches the ways from a server to the borders of its paths. It finds out whether
// their SIDs answer and have a route, and how large packets may be.
//
// One goroutine sends, reads and judges. It passes changes on to the agent's loop.
type prober struct {
	config *config.Server // but for its [probe]
	log    *slog.Logger
	// calls are done by the goroutine between its looks.
	calls     chan func()
	conn      *oam.Conn // nil without probes
	devices   *devices
	cookie    uint64
	sequence  uint32
	sent      map[uint32]sentProbe
	order     []uint32 // of sent, the oldest first
	unrouted  map[netip.Addr]int
	linkMTU   uint32
	ticks     int
	canary    uint32 // probe to ourselves that is under way, 0 when it is back
	canaryHas bool   // one has come back
	passed    map[string]error

	// mu guards the parts that others read.
	mu      sync.Mutex
	probing config.Probe
	monitor *liveness.Monitor
	targets []probeTarget
	mtus    map[netip.Addr]*pathmtu.Search
	counts  map[netip.Addr]*probeCounts
	troubles
	// memory is what the state directory has of the monitor's, and kept what it shall have.
	memory liveness.Memory
	kept   chan liveness.Memory
}

// troubles are what the operator should know of.
type troubles struct {
	noProbes error
	linkDown bool
}

// probeTarget is a path with the SID that it has now.
type probeTarget struct {
	liveness.Target
	path      string
	confirmed bool
}

type sentProbe struct {
	sid, border netip.Addr // zero for a canary
	size        uint32     // 0 for the smallest
	at          time.Time
}

type probeCounts struct{ sent, answered uint64 }

const (
	// restTick is the time between looks at links and routes where there are no probes.
	restTick = time.Second
	// keepSent is how long a probe's answer is worth something.
	keepSent = 10 * time.Second
	// noRouteTries is how many probes in a row must find no route.
	noRouteTries = 2
	// floorMTU leaves IPv6's least MTU for inner packets.
	floorMTU = 1280 + config.EncapOverhead
)

// newProber returns a prober for the paths of a configuration. Where probes cannot be sent
// it follows links and routes alone.
func newProber(c *config.Server, linkMTU uint32, log *slog.Logger) (*prober, error) {
	d, err := openDevices()
	if err != nil {
		return nil, err
	}
	p := &prober{
		config: c, probing: c.Probe, log: log, devices: d, cookie: rand.Uint64(), linkMTU: linkMTU, calls: make(chan func()),
		sent: make(map[uint32]sentProbe), unrouted: make(map[netip.Addr]int), passed: make(map[string]error),
		monitor: liveness.New(livenessConfig(c.Probe)),
		mtus:    make(map[netip.Addr]*pathmtu.Search), counts: make(map[netip.Addr]*probeCounts),
	}
	for i := range c.Paths {
		p.know(c.Paths[i].Border)
	}
	p.remember()
	return p, nil
}

func livenessConfig(c config.Probe) liveness.Config {
	return liveness.Config{Interval: c.Interval, Lost: int(c.Lost), Hold: c.Hold}
}

// know begins with a border, unless it is known.
func (p *prober) know(border netip.Addr) {
	if p.mtus[border] == nil {
		p.mtus[border] = pathmtu.New(floorMTU, p.ceiling(p.linkMTU))
		p.counts[border] = &probeCounts{}
	}
}

// open opens the sockets, where probes are wanted.
func (p *prober) open() {
	if p.probing.Interval == 0 {
		return
	}
	if p.conn, p.noProbes = oam.Open(p.config.SRv6.TunnelSource); p.noProbes != nil {
		p.log.Warn("no border is probed", "error", p.noProbes)
	}
}

// ceiling is the MTU that the first link allows.
func (p *prober) ceiling(link uint32) uint32 {
	if own := uint32(p.config.SRv6.MTU); own != 0 {
		return min(own, link)
	}
	return link
}

// run probes until ctx ends. targets returns the paths with a SID, and changed takes new
// verdicts and path MTUs.
func (p *prober) run(ctx context.Context, targets func() []probeTarget, changed func(verdicts map[string]error, mtus map[netip.Addr]uint32)) {
	defer p.close()
	defer p.keepMemory()()
	mtus := p.currentMTUs()
	wait := p.wait()
	tick := time.NewTicker(wait)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case call := <-p.calls:
			call()
			wait = p.wait()
			tick.Reset(wait)
			continue
		case <-tick.C:
		}
		if p.ticks%max(1, int(targetTime/wait)) == 0 {
			p.look(targets())
		}
		p.ticks++
		p.tick(time.Now())
		p.noteMemory()
		if verdicts, sizes := p.news(), p.changedMTUs(mtus); len(verdicts)+len(sizes) > 0 {
			changed(verdicts, sizes)
		}
	}
}

// wait is the time between two ticks.
func (p *prober) wait() time.Duration {
	if p.conn == nil {
		return restTick
	}
	return p.probing.Interval
}

func (p *prober) close() {
	p.devices.close()
	if p.conn != nil {
		p.conn.Close()
	}
}

// targetTime is the time between looks at the paths and the link.
const targetTime = 200 * time.Millisecond

// look takes the paths that there are, and the state of the link.
func (p *prober) look(targets []probeTarget) {
	mtu, up, err := p.devices.state(p.config.SRv6.Interface)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = targets
	watched := make([]liveness.Target, len(targets))
	for i, t := range targets {
		watched[i] = t.Target
	}
	p.monitor.Watch(watched)
	p.linkDown = err != nil || !up
	if err != nil || mtu == p.linkMTU {
		return
	}
	p.linkMTU = mtu
	for _, search := range p.mtus {
		search.SetCeiling(p.ceiling(mtu))
	}
}

// tick reads the answers, judges, and sends the next probes.
func (p *prober) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		p.checkRoutes()
		return
	}
	p.receive()
	starved := p.canary != 0 && p.canaryHas
	ask := p.monitor.Tick(now, starved)
	borders := make(map[netip.Addr]netip.Addr, len(p.targets))
	for _, t := range p.targets {
		borders[t.SID] = t.Border
	}
	for _, sid := range ask {
		p.send(sid, borders[sid], 0, now)
	}
	if p.probing.MTU {
		p.probeSizes(now)
	}
	p.sendCanary(now)
	p.forget(now)
}

func (p *prober) probeSizes(now time.Time) {
	for border, search := range p.mtus {
		sid, alive := p.monitor.Answers(border)
		for _, size := range search.Tick(now, alive, p.monitor.View(sid).RTT) {
			p.send(sid, border, size, now)
		}
	}
}

// send sends a probe, of the smallest size for 0.
func (p *prober) send(sid, border netip.Addr, size uint32, now time.Time) {
	p.sequence++
	err := p.conn.Send(sid, oam.Token{Cookie: p.cookie, Sequence: p.sequence, Size: size})
	switch {
	case errors.Is(err, oam.ErrNoRoute):
		p.unrouted[sid]++
		return
	case err != nil: // such as a full queue, or a size that the link does not take any more
		p.log.Debug("sending a probe", "sid", sid, "size", size, "error", err)
		return
	}
	delete(p.unrouted, sid)
	p.note(sentProbe{sid: sid, border: border, size: size, at: now})
	if c := p.counts[border]; c != nil {
		c.sent++
	}
}

func (p *prober) note(s sentProbe) {
	p.sent[p.sequence] = s
	p.order = append(p.order, p.sequence)
}

// sendCanary sends an echo request to this machine. While it is not back the machine is late
// with its packets, and little follows from the silence of others.
func (p *prober) sendCanary(now time.Time) {
	p.sequence++
	if err := p.conn.SendToSelf(oam.Token{Cookie: p.cookie, Sequence: p.sequence}); err != nil {
		p.canary = 0
		return
	}
	p.canary = p.sequence
	p.note(sentProbe{at: now})
}

func (p *prober) receive() {
	for {
		m, ok := p.conn.Receive()
		if !ok {
			return
		}
		if m.TooBig != nil {
			p.tooBig(*m.TooBig)
		} else if m.Reply.Cookie == p.cookie {
			p.answered(*m.Reply, m.At)
		}
	}
}

func (p *prober) answered(t oam.Token, at time.Time) {
	probe, known := p.sent[t.Sequence]
	switch {
	case !known:
		return
	case !probe.sid.IsValid():
		if p.canaryHas = true; t.Sequence == p.canary {
			p.canary = 0
		}
	default:
		p.monitor.Answered(probe.sid, max(0, at.Sub(probe.at)))
		if search := p.mtus[probe.border]; search != nil && probe.size != 0 {
			search.Answered(probe.size)
		}
		if c := p.counts[probe.border]; c != nil {
			c.answered++
		}
	}
	delete(p.sent, t.Sequence)
}

// tooBig heeds a router that cannot pass a packet on to a SID of ours.
func (p *prober) tooBig(b oam.TooBig) {
	if !p.probing.MTU {
		return
	}
	for _, t := range p.targets {
		if search := p.mtus[t.Border]; t.SID == b.SID && search != nil {
			search.TooBig(b.MTU)
			return
		}
	}
}

// forget drops probes that are not answered any more.
func (p *prober) forget(now time.Time) {
	for len(p.order) > 0 {
		probe, waiting := p.sent[p.order[0]]
		if waiting && now.Sub(probe.at) < keepSent {
			return
		}
		delete(p.sent, p.order[0])
		p.order = p.order[1:]
	}
}

// checkRoutes finds SIDs without a route where no probe does.
func (p *prober) checkRoutes() {
	for _, t := range p.targets {
		if _, _, err := p.devices.route(net.IP(t.SID.AsSlice()), ""); err != nil {
			p.unrouted[t.SID]++
		} else {
			delete(p.unrouted, t.SID)
		}
	}
}

// changedMTUs returns the path MTUs that differ from those in known, and updates it.
func (p *prober) changedMTUs(known map[netip.Addr]uint32) map[netip.Addr]uint32 {
	changed := p.currentMTUs()
	for border, mtu := range changed {
		if known[border] == mtu {
			delete(changed, border)
		}
		known[border] = mtu
	}
	return changed
}

func (p *prober) currentMTUs() map[netip.Addr]uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	mtus := make(map[netip.Addr]uint32, len(p.mtus))
	for border, search := range p.mtus {
		mtus[border] = search.MTU()
	}
	return mtus
}
