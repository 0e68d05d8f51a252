package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/wire"
)

// replay reports the routes of a peer once more. GoBGP has all of them (Adj-RIB-In), so the peer
// is not asked, and its session stays.
//
// GoBGP's table is read while reports of changes are under way. A route that changes after the
// replay has begun is not in it: its own report says more.
type replay struct {
	// session is the number of the peer's session, see [peerState].
	session int
	// changed are the prefixes that were reported meanwhile.
	changed map[netip.Prefix]struct{}
}

// replayRoutes begins a replay.
func (s *Speaker) replayRoutes(n Neighbor) {
	d := s.dispatcher
	d.inbox.post(func(context.Context) {
		state := d.sessions[n.Address]
		if state == nil || !state.up {
			return // a new session begins with all routes
		}
		begun := &replay{session: state.number, changed: map[netip.Prefix]struct{}{}}
		state.replay = begun
		go func() {
			paths, err := s.pathsOf(n)
			if err != nil {
				n := slog.String("neighbour", n.Name)
				s.config.Logger.Error("reading the routes of a peer", n, slog.Any("error", err))
			}
			d.inbox.post(func(ctx context.Context) { d.replayed(ctx, n.Address, begun, paths) })
		}()
	})
}

// pathsOf are the paths that a neighbour has sent and not withdrawn.
func (s *Speaker) pathsOf(n Neighbor) (paths []*apiutil.Path, err error) {
	for _, f := range n.Families {
		request := apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_ADJ_IN, Name: n.Address.String(), Family: f.GoBGP()}
		err = s.gobgp.ListPath(request, func(_ bgp.NLRI, known []*apiutil.Path) { paths = append(paths, known...) })
		if err != nil {
			return nil, fmt.Errorf("listing %s routes: %w", f, err)
		}
	}
	return paths, nil
}

// replayed reports the paths of a replay, unless the session or the replay is another one by now.
func (d *dispatcher) replayed(ctx context.Context, address netip.Addr, r *replay, paths []*apiutil.Path) {
	s, ok := d.alive(address)
	if !ok || s.replay != r {
		return
	}
	s.replay = nil
	if s.number != r.session {
		return
	}
	current := paths[:0]
	for _, p := range paths {
		prefix, unicast := wire.UnicastPrefix(p.Nlri)
		if _, changed := r.changed[prefix]; unicast && !changed {
			current = append(current, p)
		}
	}
	for len(current) > 0 {
		n := min(chunk, len(current))
		d.pathsChanged(ctx, current[:n])
		current = current[n:]
	}
}

// saw notes the prefixes of a report.
func (r *replay) saw(paths []*apiutil.Path) {
	if r == nil {
		return
	}
	for _, p := range paths {
		if prefix, ok := wire.UnicastPrefix(p.Nlri); ok {
			r.changed[prefix] = struct{}{}
		}
	}
}
