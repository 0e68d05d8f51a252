package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/speaker/addpath"
	"hikyaku/egress/speaker/bmp"
)

// routerViews has what the speaker alone knows of routers, see [speaker.Speaker].
type routerViews interface {
	MonitoredRouters() []bmp.View
	PathCounts(router string) addpath.Counts
	PathsPaused(peer string) bool
}

// noPeer is the reason for which paths of none of the configured peers are refused.
const noPeer = "no_peer"

// routers are the routers that hand on the routes of peers. It needs the mutex.
func (b *Border) routers() []api.Router {
	views, speaks := b.bgp.(routerViews)
	if !speaks { // not yet
		return nil
	}
	all := make([]api.Router, 0, len(b.config.AddPath)+len(b.config.BMP.Routers))
	for _, r := range b.config.AddPath {
		all = append(all, b.addPathRouter(r.Name, views))
	}
	for _, v := range views.MonitoredRouters() {
		all = append(all, b.bmpRouter(v))
	}
	for i := range all {
		b.sum(&all[i])
	}
	slices.SortFunc(all, func(a, b api.Router) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// addPathRouter is a router that sends the routes of its peers by ADD-PATH.
func (b *Border) addPathRouter(name string, views routerViews) api.Router {
	counts := views.PathCounts(name)
	r := api.Router{Name: name, Kind: api.RouterAddPath}
	if s := b.sessions.byName[name]; s != nil {
		r.Address, r.Up, r.Since, r.Error, r.LastError = s.Address, s.Up, s.Since, s.Error, s.ended
		r.Ends = s.Ends.Total()
	}
	for i := range b.config.Peers {
		p := &b.config.Peers[i]
		if p.Routes != config.RoutesByAddPath {
			continue
		}
		of := counts.Peers[p.Name]
		peer := api.RouterPeer{
			Name: p.Name, Address: p.Address, ASN: p.ASN, State: api.RouterPeerUp, Routes: api.Routes(of),
		}
		switch {
		case views.PathsPaused(p.Name):
			peer.State, peer.Reason = api.RouterPeerLeftOut, b.sessions.reason(p.Name)
		case of == addpath.Routes{}:
			peer.State, peer.Reason = api.RouterPeerDown, "the router sends no route of it"
		}
		r.Peers = append(r.Peers, peer)
	}
	if counts.UnclaimedTotal > 0 {
		r.Refused = append(r.Refused, api.Refused{Reason: noPeer, Routes: counts.Unclaimed, Total: uint64(counts.UnclaimedTotal)})
	}
	return r
}

// bmpPeerStates are the states of a BMP router's peers.
var bmpPeerStates = map[bmp.PeerState]api.RouterPeerState{
	bmp.PeerUp: api.RouterPeerUp, bmp.PeerDown: api.RouterPeerDown,
	bmp.PeerUnused: api.RouterPeerUnused,
}

// bmpRouter is a router that reports the routes of its peers by BMP.
func (b *Border) bmpRouter(v bmp.View) api.Router {
	r := api.Router{
		Name: v.Address.String(), Kind: api.RouterBMP, Address: v.Address, Up: v.Up, Since: v.Since,
		Description: v.Description, Ends: v.Ends, LastError: v.LastEnd,
	}
	switch {
	case v.Up:
	case v.LastEnd == "":
		r.Error = "it has not connected yet"
	default:
		r.Error = "it is not connected: " + v.LastEnd
	}
	for _, of := range v.Peers {
		peer := api.RouterPeer{Address: of.Address, ASN: of.AS, State: bmpPeerStates[of.State], Reason: of.Reason}
		if p := b.monitoredPeer(of.Address, of.AS); p != nil {
			peer.Name = p.Name
			if of.State == bmp.PeerUp {
				view, _ := b.planner.View(p.Name)
				peer.Routes = api.Routes(view.Received)
				if b.planner.LeftOut(p.Name) {
					peer.State, peer.Reason = api.RouterPeerLeftOut, b.sessions.reason(p.Name)
				}
			}
		}
		r.Peers = append(r.Peers, peer)
	}
	return r
}

// monitoredPeer is the peer of a BMP router's messages, which have no zone; nil for none.
func (b *Border) monitoredPeer(address netip.Addr, as uint32) *config.Peer {
	for i := range b.config.Peers {
		p := &b.config.Peers[i]
		if p.Routes == config.RoutesByBMP && p.Address.WithZone("") == address && p.ASN == as {
			return p
		}
	}
	return nil
}

// sum adds up the numbers of a router's peers.
func (b *Border) sum(r *api.Router) {
	for _, peer := range r.Peers {
		r.Routes.IPv6 += peer.Routes.IPv6
		r.Routes.IPv4 += peer.Routes.IPv4
		if peer.State != api.RouterPeerUp {
			continue
		}
		view, _ := b.planner.View(peer.Name)
		for _, refused := range view.Refused {
			addRefused(&r.Refused, api.Refused{Reason: refused.Reason.String(), Routes: refused.Routes, Total: refused.Total})
		}
	}
	slices.SortFunc(r.Refused, func(a, b api.Refused) int { return strings.Compare(a.Reason, b.Reason) })
}

func addRefused(list *api.List[api.Refused], more api.Refused) {
	for i := range *list {
		if one := &(*list)[i]; one.Reason == more.Reason {
			one.Routes += more.Routes
			one.Total += more.Total
			return
		}
	}
	*list = append(*list, more)
}

// Routers implements [api.Backend].
func (b backend) Routers(context.Context) (list []api.Router, err error) {
	b.engine.locked(func() { list = b.engine.role.routers() })
	return list, nil
}
