package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
)

// barDelay joins the changes of routes that best paths must not use: GoBGP judges all routes
// of a peer anew for them.
const barDelay = 200 * time.Millisecond

// barring has the peers whose routes GoBGP is about to judge anew.
type barring struct {
	mu      sync.Mutex
	waiting map[string]bool
}

// barredSet is the name of GoBGP's set of a peer's prefixes that best paths must not use.
func barredSet(peer string, four bool) string { return fmt.Sprintf("barred-%s-%t", peer, four) }

// Bar keeps prefixes of a peer out of best paths, and out of what reflectors get of these,
// or no longer. The caller's import policy is not GoBGP's, which selects the best paths. It
// takes effect within a second; without [Config.BestPaths] there is nothing to do.
func (s *Speaker) Bar(peer string, barred, free []netip.Prefix) error {
	if !s.config.BestPaths {
		return nil
	}
	for _, four := range []bool{true, false} {
		if set := prefixSet(peer, four, barred); len(set.Prefixes) > 0 {
			if err := s.gobgp.AddDefinedSet(s.ctx, &api.AddDefinedSetRequest{DefinedSet: set}); err != nil {
				return fmt.Errorf("keeping %d prefixes of %s out of best paths: %w", len(set.Prefixes), peer, err)
			}
		}
		if set := prefixSet(peer, four, free); len(set.Prefixes) > 0 {
			if err := s.gobgp.DeleteDefinedSet(s.ctx, &api.DeleteDefinedSetRequest{DefinedSet: set}); err != nil {
				return fmt.Errorf("letting %d prefixes of %s into best paths: %w", len(set.Prefixes), peer, err)
			}
		}
	}
	s.judgeAgain(peer)
	return nil
}

// judgeAgain has GoBGP judge all routes of a peer anew, soon.
func (s *Speaker) judgeAgain(peer string) {
	s.barring.mu.Lock()
	defer s.barring.mu.Unlock()
	if s.barring.waiting[peer] {
		return
	}
	s.barring.waiting[peer] = true
	time.AfterFunc(barDelay, func() {
		s.barring.mu.Lock()
		delete(s.barring.waiting, peer)
		s.barring.mu.Unlock()
		s.mu.Lock()
		n, known := s.neighbors[peer]
		s.mu.Unlock()
		if !known || s.ctx.Err() != nil {
			return
		}
		request := &api.ResetPeerRequest{Address: n.Address.String(), Soft: true, Direction: api.ResetPeerRequest_DIRECTION_IN}
		if err := s.gobgp.ResetPeer(s.ctx, request); err != nil {
			s.config.Logger.Warn("judging the routes of a peer anew", slog.String("peer", peer), slog.Any("error", err))
		}
	})
}

// nobodys are prefixes that no route has: a set must have one.
var nobodys = map[bool]netip.Prefix{
	true: netip.MustParsePrefix("255.255.255.255/32"), false: netip.MustParsePrefix("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"),
}

func prefixSet(peer string, four bool, prefixes []netip.Prefix) *api.DefinedSet {
	set := &api.DefinedSet{DefinedType: api.DefinedType_DEFINED_TYPE_PREFIX, Name: barredSet(peer, four)}
	for _, p := range prefixes {
		if p.Addr().Is4() == four {
			bits := uint32(p.Bits())
			set.Prefixes = append(set.Prefixes, &api.Prefix{IpPrefix: p.String(), MaskLengthMin: bits, MaskLengthMax: bits})
		}
	}
	return set
}

// barStatements are the statements of the import policy that refuse barred prefixes.
func (s *Speaker) barStatements(ctx context.Context) (statements []*api.Statement, err error) {
	for _, n := range s.config.Neighbors {
		if n.AS == s.config.AS || !s.config.BestPaths {
			continue
		}
		name := "peer-" + n.Name
		peer := egressPeers(n.Address)
		peer.Name = name
		sets := []*api.DefinedSet{peer, prefixSet(n.Name, true, []netip.Prefix{nobodys[true]}), prefixSet(n.Name, false, []netip.Prefix{nobodys[false]})}
		for _, set := range sets {
			if err := s.gobgp.AddDefinedSet(ctx, &api.AddDefinedSetRequest{DefinedSet: set}); err != nil {
				return nil, fmt.Errorf("setting up BGP policy set %s: %w", set.Name, err)
			}
		}
		for _, set := range sets[1:] {
			statements = append(statements, &api.Statement{Name: "in-" + set.Name, Conditions: &api.Conditions{
				NeighborSet: matchAny(name), PrefixSet: matchAny(set.Name),
			}, Actions: action(reject())})
		}
	}
	return statements, nil
}
