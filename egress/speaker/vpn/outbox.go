package vpn

import (
	"net/netip"
	"unique"

	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// outbox has the messages that are still to be sent on a session. Posting never waits: a
// reflector that does not read must not hold up the others.
//
// It has only the keys of routes; the [outTable] has the attributes to send when a route's
// turn comes. So a withdrawal replaces an announcement of the same route that still waits,
// and an announcement replaces a withdrawal. A route that comes and goes takes the room of
// one. Withdrawals go first: a server must leave a lost peer at once, but may come to know
// a new route late.
//
// The announcer's lock guards it, together with the outTable.
type outbox struct {
	withdrawals, announcements []outItem
	waiting                    map[srv6.RouteDistinguisher]*waitingRoutes
	// keys is how many there are in waiting.
	keys int
	// bell has a value while something may wait.
	bell chan struct{}
}

// outItem is one of: routes of a distinguisher; all that it has when its turn
// comes; encoded messages.
type outItem struct {
	rd       srv6.RouteDistinguisher
	routes   []routeKey
	table    bool
	messages []byte
}

// waitingRoutes are the routes of a distinguisher that wait.
type waitingRoutes struct {
	routes map[routeKey]lists
	table  bool
}

// lists are those of an outbox that a route is in.
type lists uint8

const (
	inWithdrawals lists = 1 << iota
	inAnnouncements
)

const (
	// maxWaiting bounds the routes that wait for a reflector, each in some 60 bytes.
	// Beyond it a new session takes less memory: there whole tables wait without keys.
	maxWaiting = 2 << 20
	// parcelRoutes is how many routes are sent before withdrawals are checked for
	// again. It is some 20 messages.
	parcelRoutes = 4096
)

func newOutbox() *outbox {
	return &outbox{waiting: make(map[srv6.RouteDistinguisher]*waitingRoutes), bell: make(chan struct{}, 1)}
}

// announce queues routes that the outTable has.
func (o *outbox) announce(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) {
	if w := o.waiting[rd]; w != nil && w.table {
		return // it will have them
	}
	o.announcements = o.add(o.announcements, rd, prefixes, inAnnouncements)
}

// withdraw queues routes that the outTable has no more.
func (o *outbox) withdraw(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) {
	o.withdrawals = o.add(o.withdrawals, rd, prefixes, inWithdrawals)
}

// announceTable queues all routes that a distinguisher will have when their turn comes.
func (o *outbox) announceTable(rd srv6.RouteDistinguisher) {
	if w := o.of(rd); !w.table {
		w.table = true
		o.announcements = append(o.announcements, outItem{rd: rd, table: true})
		wake(o.bell)
	}
}

// send queues messages behind the announcements that wait now.
func (o *outbox) send(messages []byte) {
	o.announcements = append(o.announcements, outItem{messages: messages})
	wake(o.bell)
}

// full reports whether too much waits.
func (o *outbox) full() bool { return o.keys > maxWaiting }

func (o *outbox) of(rd srv6.RouteDistinguisher) *waitingRoutes {
	w := o.waiting[rd]
	if w == nil {
		w = &waitingRoutes{routes: make(map[routeKey]lists)}
		o.waiting[rd] = w
	}
	return w
}

// add appends to list those routes that are not in it.
func (o *outbox) add(list []outItem, rd srv6.RouteDistinguisher, prefixes []netip.Prefix, in lists) []outItem {
	var routes []routeKey
	for _, p := range prefixes {
		if key := compact(p); o.mark(rd, key, in) {
			routes = append(routes, key)
		}
	}
	if len(routes) == 0 {
		return list
	}
	wake(o.bell)
	return append(list, outItem{rd: rd, routes: routes})
}

// mark notes that a route is in a list, and reports whether that is new.
func (o *outbox) mark(rd srv6.RouteDistinguisher, key routeKey, in lists) bool {
	w := o.of(rd)
	before := w.routes[key]
	if before&in != 0 {
		return false
	}
	if before == 0 {
		o.keys++
	}
	w.routes[key] = before | in
	return true
}

// unmark takes a route from a list, and reports whether it was there.
func (o *outbox) unmark(rd srv6.RouteDistinguisher, key routeKey, in lists) bool {
	w := o.waiting[rd]
	if w == nil || w.routes[key]&in == 0 {
		return false
	}
	if rest := w.routes[key] &^ in; rest != 0 {
		w.routes[key] = rest
		return true
	}
	delete(w.routes, key)
	o.keys--
	if len(w.routes) == 0 && !w.table {
		delete(o.waiting, rd)
	}
	return true
}

// parcel is the next to send: groups, or encoded messages. Both may be missing although
// more waits.
type parcel struct {
	groups   []Group
	messages []byte
}

// take returns the next parcel, of at most n routes, false when nothing waits.
func (o *outbox) take(out outTable, n int) (parcel, bool) {
	if len(o.withdrawals) > 0 {
		return o.takeWithdrawals(out, n), true
	}
	if len(o.announcements) == 0 {
		return parcel{}, false
	}
	if messages := o.announcements[0].messages; messages != nil {
		o.announcements = dropFirst(o.announcements)
		return parcel{messages: messages}, true
	}
	return o.takeAnnouncements(out, n), true
}

func (o *outbox) takeWithdrawals(out outTable, n int) parcel {
	var g grouping
	for left := n; left > 0 && len(o.withdrawals) > 0; {
		rd, routes := cutRoutes(&o.withdrawals, left)
		left -= len(routes)
		for _, key := range routes {
			_, announced := out[rd][key]
			if o.unmark(rd, key, inWithdrawals) && !announced {
				g.add(rd, key, unique.Handle[wire.VPNRoute]{})
			}
		}
	}
	return parcel{groups: g.list}
}

func (o *outbox) takeAnnouncements(out outTable, n int) parcel {
	var g grouping
	for left := n; left > 0 && len(o.announcements) > 0 && o.announcements[0].messages == nil; {
		if o.announcements[0].table {
			o.expand(out)
			continue
		}
		rd, routes := cutRoutes(&o.announcements, left)
		left -= len(routes)
		for _, key := range routes {
			route, announced := out[rd][key]
			if o.unmark(rd, key, inAnnouncements) && announced {
				g.add(rd, key, route)
			}
		}
	}
	return parcel{groups: g.list}
}

// expand replaces the table that is first by its routes. Some may wait further
// behind as well; whichever comes first is sent, and unmarks the other.
func (o *outbox) expand(out outTable) {
	item := &o.announcements[0]
	o.of(item.rd).table, item.table = false, false
	for _, g := range out.groups(item.rd) {
		for _, p := range g.Prefixes {
			o.mark(item.rd, compact(p), inAnnouncements)
			item.routes = append(item.routes, compact(p))
		}
	}
	if len(o.of(item.rd).routes) == 0 {
		delete(o.waiting, item.rd)
	}
}

// cutRoutes takes at most n routes from the first item, and the item with its last.
func cutRoutes(list *[]outItem, n int) (srv6.RouteDistinguisher, []routeKey) {
	item := &(*list)[0]
	rd, routes := item.rd, item.routes[:min(n, len(item.routes))]
	if item.routes = item.routes[len(routes):]; len(item.routes) == 0 {
		*list = dropFirst(*list)
	}
	return rd, routes
}

// dropFirst drops the first item, and the entries that it refers to.
func dropFirst(list []outItem) []outItem {
	list[0] = outItem{}
	return list[1:]
}

// wake leaves a value in a channel that has room for one.
func wake(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
