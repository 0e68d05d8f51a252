package liveness

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Config of a [Monitor].
type Config struct {
	// Interval between probes of a border.
	Interval time.Duration
	// Lost is the number of probes without an answer after which a SID is dead.
	Lost int
	// Hold is how long a SID that was dead must answer, the first time.
	Hold time.Duration
}

const (
	// probesEach bounds the SIDs of one border that are probed at a time, besides those
	// that are in doubt.
	probesEach = 2
	// maxHold bounds the growth of the hold.
	maxHold = time.Minute
	// forget is after how long in use a death counts as the first one.
	forget = 10 * time.Minute
	// starvedShare is the divisor of time in which the machine is late with its packets. On
	// one that is always late a death must be found, too.
	starvedShare = 4
	// doubts bounds the further SIDs of a border that are probed at a time since they are
	// in doubt.
	doubts = 8
)

// Silence is how long nothing must come until a border is dead.
func (c Config) Silence() time.Duration { return c.Interval * time.Duration(c.Lost) }

// State of a SID.
type State uint8

// The states.
const (
	// Unknown: it has never answered, and is not judged. Not all SIDs can answer.
	Unknown State = iota
	// Alive: it answers.
	Alive
	// Dead: it answers no more, or not for long enough.
	Dead
)

// String returns the state as the API has it.
func (s State) String() string { return [...]string{"unknown", "up", "down"}[s] }

// Target is a SID to watch.
type Target struct {
	Border netip.Addr `json:"border"`
	SID    netip.Addr `json:"sid"`
}

// Monitor watches SIDs. It is not safe for concurrent use.
type Monitor struct {
	config  Config
	borders map[netip.Addr]*border
	sids    map[netip.Addr]*sid
	// answering has the borders of the SIDs that have ever answered.
	answering map[netip.Addr]netip.Addr
	// former are the SIDs that were dead in a former run, and are not watched yet.
	former map[netip.Addr]bool
	// awake is the time that has counted so far, and last that of the last tick.
	awake time.Duration
	last  time.Time
}

// border has the SIDs of one border router.
type border struct {
	addr netip.Addr
	sids []*sid
	next int // of the turn
	// answered is when one of them last did, and asked counts probes since.
	answered time.Duration
	asked    int
	deaths   uint64
	hold     time.Duration
	// restored is when one of its SIDs was last taken into use again, died out of use.
	restored, died time.Duration
}

type sid struct {
	addr   netip.Addr
	border *border
	state  State
	// asked counts probes without an answer, and first is when the oldest was sent.
	asked int
	first time.Duration
	// since is when it began to answer without a gap.
	since time.Duration
	rtt   time.Duration
}

// New returns a monitor of nothing.
func New(c Config) *Monitor {
	return &Monitor{
		config: c, borders: make(map[netip.Addr]*border), sids: make(map[netip.Addr]*sid),
		answering: make(map[netip.Addr]netip.Addr), former: make(map[netip.Addr]bool),
	}
}

// Memory is the part of a monitor's knowledge that outlives it.
type Memory struct {
	// Answering are those that have ever answered: their silence means that they are dead.
	Answering []Target `json:"answering"`
	// Dead are the SIDs that are dead now.
	Dead []netip.Addr `json:"dead"`
}

// Remember takes what a former monitor knew. Its dead SIDs must answer for the hold.
func (m *Monitor) Remember(k Memory) {
	for _, t := range k.Answering {
		m.answering[t.SID] = t.Border
	}
	for _, sid := range k.Dead {
		m.former[sid] = true
	}
}

// Memory returns what another monitor can take, sorted.
func (m *Monitor) Memory() Memory {
	dead := maps.Clone(m.former)
	for addr, s := range m.sids {
		if s.state == Dead {
			dead[addr] = true
		}
	}
	k := Memory{Dead: slices.SortedFunc(maps.Keys(dead), netip.Addr.Compare)}
	for _, sid := range slices.SortedFunc(maps.Keys(m.answering), netip.Addr.Compare) {
		k.Answering = append(k.Answering, Target{Border: m.answering[sid], SID: sid})
	}
	return k
}

// Configure takes another configuration. States stay.
func (m *Monitor) Configure(c Config) {
	for _, b := range m.borders {
		if b.hold == m.config.Hold {
			b.hold = c.Hold
		}
	}
	m.config = c
}

// Watch sets the SIDs to watch. Those that are left out are forgotten.
func (m *Monitor) Watch(targets []Target) {
	keep := make(map[netip.Addr]bool, len(targets))
	for _, t := range targets {
		keep[t.SID] = true
		if m.sids[t.SID] == nil {
			m.add(t)
		}
	}
	for addr, s := range m.sids {
		if !keep[addr] {
			delete(m.sids, addr)
			s.border.sids = slices.DeleteFunc(s.border.sids, func(other *sid) bool { return other == s })
		}
	}
}

func (m *Monitor) add(t Target) {
	b := m.borders[t.Border]
	if b == nil {
		b = &border{addr: t.Border, hold: m.config.Hold}
		m.borders[t.Border] = b
	}
	if len(b.sids) == 0 {
		b.answered, b.asked = m.awake, 0
	}
	s := &sid{addr: t.SID, border: b}
	if m.former[t.SID] {
		s.state, s.since = Dead, -1
		delete(m.former, t.SID)
	}
	m.sids[t.SID] = s
	b.sids = append(b.sids, s)
}

// Tick says that all answers which have come were passed to [Monitor.Answered], and returns
// the SIDs to probe now. starved says that the machine itself is late with its packets. Of
// the time since the last tick then a quarter counts. Never do more than two intervals count.
func (m *Monitor) Tick(now time.Time, starved bool) []netip.Addr {
	if passed := min(now.Sub(m.last), 2*m.config.Interval); !m.last.IsZero() && passed > 0 {
		if starved {
			passed /= starvedShare
		}
		m.awake += passed
	}
	m.last = now
	var ask []netip.Addr
	for _, b := range m.borders {
		m.judge(b)
		ask = append(ask, m.turn(b)...)
	}
	return ask
}

// judge finds the dead and the restored.
func (m *Monitor) judge(b *border) {
	silence := m.config.Silence() - m.config.Interval/4 // ticks come early and late
	silent := b.asked >= m.config.Lost && m.awake-b.answered >= silence
	died := false
	for _, s := range b.sids {
		alone := s.asked >= m.config.Lost && m.awake-s.first >= silence
		_, answered := m.answering[s.addr]
		due := s.state == Alive || s.state == Unknown && answered
		switch {
		case due && (silent || alone):
			s.state, s.since = Dead, -1
			died = true
		case s.state == Dead && (silent || alone):
			s.since = -1
		case s.state == Dead && s.since >= 0 && m.awake-s.since >= b.hold && s.asked < m.config.Lost:
			s.state = Alive
			b.restored = m.awake
		}
	}
	if died {
		m.died(b)
	}
}

// died makes the next recovery of a border's SIDs take longer. SIDs that die together are one
// death.
func (m *Monitor) died(b *border) {
	together := b.deaths > 0 && m.awake-b.died < 4*m.config.Silence()
	b.died = m.awake
	if together {
		return
	}
	b.deaths++
	if b.hold = min(2*b.hold, maxHold); b.deaths == 1 || m.awake-b.restored >= forget {
		b.hold = m.config.Hold
	}
}

// turn returns the SIDs of a border to probe now: some in turn, and those in doubt.
func (m *Monitor) turn(b *border) []netip.Addr {
	var ask []netip.Addr
	for range min(probesEach, len(b.sids)) {
		b.next = (b.next + 1) % len(b.sids)
		ask = append(ask, m.ask(b.sids[b.next]))
	}
	extra := 0
	for _, s := range b.sids {
		doubt := s.state == Alive && s.asked > 0 && m.awake-s.first >= 2*m.config.Interval+2*s.rtt
		if doubt && extra < doubts && !slices.Contains(ask, s.addr) {
			ask = append(ask, m.ask(s))
			extra++
		}
	}
	if len(ask) > 0 {
		b.asked++
	}
	return ask
}

func (m *Monitor) ask(s *sid) netip.Addr {
	if s.asked == 0 {
		s.first = m.awake
	}
	s.asked++
	return s.addr
}

// Answered says that a probe of a SID was answered after this time.
func (m *Monitor) Answered(addr netip.Addr, rtt time.Duration) {
	s := m.sids[addr]
	if s == nil {
		return
	}
	m.answering[addr] = s.border.addr
	s.border.answered, s.border.asked = m.awake, 0
	s.asked = 0
	if s.rtt = (7*s.rtt + rtt) / 8; s.state == Unknown || s.rtt == 0 {
		s.rtt = rtt
	}
	switch {
	case s.state == Unknown:
		s.state, s.since = Alive, m.awake
	case s.state == Dead && s.since < 0:
		s.since = m.awake
	}
}

// View is the liveness of a SID.
type View struct {
	State State
	// RTT of its probes, smoothed; 0 before the first answer.
	RTT time.Duration
	// Unanswered is since when it does not answer, 0 where it does.
	Unanswered time.Duration
}

// View returns the liveness of a SID.
func (m *Monitor) View(addr netip.Addr) View {
	s := m.sids[addr]
	switch {
	case s == nil && m.former[addr]:
		return View{State: Dead}
	case s == nil:
		return View{}
	}
	v := View{State: s.state, RTT: s.rtt}
	if s.asked > 0 {
		v.Unanswered = m.awake - s.first
	}
	return v
}

// Deaths returns how often SIDs of a border have died.
func (m *Monitor) Deaths(border netip.Addr) uint64 {
	if b := m.borders[border]; b != nil {
		return b.deaths
	}
	return 0
}

// Answers reports whether any SID of a border is in use and has an answer that is not due.
func (m *Monitor) Answers(border netip.Addr) (through netip.Addr, ok bool) {
	b := m.borders[border]
	if b == nil {
		return through, false
	}
	for _, s := range b.sids {
		if s.state == Alive && s.asked <= 2+int(s.rtt/m.config.Interval) {
			return s.addr, true
		}
	}
	return through, false
}
