package vpn

import (
	"log/slog"
	"net/netip"
	"unique"

	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// Reflector has the messages to send to one route reflector. These are all routes of its
// [Announcer] at the beginning of each session, and their changes.
type Reflector struct {
	announcer *Announcer
	config    ReflectorConfig
	withheld  WithheldSet

	// The announcer's lock guards the rest.
	up bool
	// owesEndOfRIB: its End-of-RIB is held back, see [Announcer.AnnouncedAll].
	owesEndOfRIB bool
	box          *outbox
	terms        wire.Terms
	full         func(waiting int)
}

// ReflectorConfig has the settings that a [Reflector] needs.
type ReflectorConfig struct {
	// Restarting: the reflector is to keep our former routes during a restart.
	Restarting bool
	// NoRoom is called when routes have become withheld, with one of them.
	NoRoom func(NoRoom)
	Logger *slog.Logger
}

// NewReflector adds a reflector, which is not up.
func (a *Announcer) NewReflector(config ReflectorConfig) *Reflector {
	r := &Reflector{announcer: a, config: config, box: newOutbox()}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reflectors[r] = struct{}{}
	return r
}

// Remove removes a reflector.
func (a *Announcer) Remove(r *Reflector) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.reflectors, r)
}

// Begin queues all routes for a session that has come up, and all changes from now on. full
// is called, with the number of routes that wait, when the reflector leaves too many unread.
// It must end the session, and must not wait: with a new session the reflector gets the
// routes that then hold.
func (r *Reflector) Begin(terms wire.Terms, full func(waiting int)) {
	a := r.announcer
	a.mu.Lock()
	defer a.mu.Unlock()
	r.up, r.terms, r.full, r.box = true, terms, full, newOutbox()
	r.withheld.reset()
	r.announceAll()
	if r.owesEndOfRIB = r.config.Restarting && a.restart == restarting; !r.owesEndOfRIB {
		r.box.send(r.endOfRIB())
	}
}

// End ends a session.
func (r *Reflector) End() {
	r.announcer.mu.Lock()
	defer r.announcer.mu.Unlock()
	r.up, r.box = false, newOutbox()
	r.withheld.reset()
}

// Refresh queues all routes again.
func (r *Reflector) Refresh() {
	r.announcer.mu.Lock()
	defer r.announcer.mu.Unlock()
	r.announceAll()
}

// Ready has a value while there may be something to send. Each session has its own.
func (r *Reflector) Ready() <-chan struct{} {
	r.announcer.mu.Lock()
	defer r.announcer.mu.Unlock()
	return r.box.bell
}

// Next returns encoded messages, and false when nothing waits. They may be empty although
// more waits.
func (r *Reflector) Next() (messages []byte, ok bool) {
	r.announcer.mu.Lock()
	p, ok := r.box.take(r.announcer.out, parcelRoutes)
	local, maxLength := r.terms.Local, r.terms.MaxMessage
	r.announcer.mu.Unlock()
	return r.encode(p, local, maxLength), ok
}

// Withheld counts the routes that are withheld from the reflector.
func (r *Reflector) Withheld() Withheld { return r.withheld.Count() }

// Withholds reports whether a route is withheld from the reflector.
func (r *Reflector) Withholds(rd srv6.RouteDistinguisher, prefix netip.Prefix) bool {
	return r.withheld.Has(rd, prefix)
}

// Waiting counts the routes that are still to be sent.
func (r *Reflector) Waiting() int {
	r.announcer.mu.Lock()
	defer r.announcer.mu.Unlock()
	return r.box.keys
}

// encode returns the messages of a parcel.
func (r *Reflector) encode(p parcel, local netip.Addr, maxLength int) []byte {
	b := p.messages
	for _, g := range p.groups {
		if g.Route == (unique.Handle[wire.VPNRoute]{}) {
			b = wire.Withdrawal(g.Family).Append(b, g.RD, r.withheld.Remove(g.RD, g.Prefixes))
			continue
		}
		t, fitting, fresh, example, err := r.withheld.Fit(g, local, maxLength)
		if err != nil { // not of a route whose encoding was checked when it was announced
			r.config.Logger.Error("encoding VPN routes", slog.String("rd", g.RD.String()), slog.Any("error", err))
			continue
		}
		b = t.Append(b, g.RD, fitting)
		if len(fresh) > 0 {
			b = wire.Withdrawal(g.Family).Append(b, g.RD, fresh)
			r.config.NoRoom(example)
		}
	}
	return b
}

// announceAll queues the tables. It needs the announcer's lock.
func (r *Reflector) announceAll() {
	for rd := range r.announcer.out {
		r.box.announceTable(rd)
	}
}

// bound ends the session of a reflector for which too much waits. It needs the announcer's
// lock.
func (r *Reflector) bound() {
	if r.up && r.box.full() {
		r.up = false
		r.full(r.box.keys)
	}
}

// endOfRIB is End-of-RIB for each family (RFC 4724 §2).
func (r *Reflector) endOfRIB() []byte {
	var messages []byte
	for _, f := range r.terms.Families {
		messages = wire.AppendEndOfRIB(messages, f)
	}
	return messages
}
