package speaker

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/osrg/gobgp/v4/api"

	"hikyaku/egress/speaker/wire"
)

// Names of GoBGP's policy objects.
const (
	globalTable    = "global"
	egressPeersSet = "egress-peers"
	ownASSet       = "own-as"
	importPolicy   = "import"
	exportPolicy   = "export"
)

// allOwnAS lets paths with our own AS through GoBGP's loop check. Left to that check they
// would vanish without a report, and the route before them would stay in its table. So the
// import policy refuses them and the dispatcher counts them as withdrawals.
const allOwnAS = 255

func globalConfig(c Config) *api.StartBgpRequest {
	g := &api.Global{Asn: c.AS, RouterId: c.RouterID.String(), ListenPort: -1}
	if len(c.Listen) > 0 {
		g.ListenPort = int32(c.Port)
	}
	for _, a := range c.Listen {
		g.ListenAddresses = append(g.ListenAddresses, a.String())
	}
	return &api.StartBgpRequest{Global: g}
}

func peerConfig(n Neighbor) *api.Peer {
	peer := &api.Peer{
		Conf: &api.PeerConf{
			NeighborAddress: n.Address.String(),
			PeerAsn:         n.AS,
			AuthPassword:    n.Password,
			Description:     n.Name,
			AllowOwnAsn:     allOwnAS,
		},
		Transport: &api.Transport{PassiveMode: n.Passive, RemotePort: uint32(n.Port)},
		Timers: &api.Timers{Config: &api.TimersConfig{
			ConnectRetry:           wire.Seconds(n.ConnectRetry),
			HoldTime:               wire.Seconds(n.HoldTime),
			KeepaliveInterval:      max(wire.Seconds(n.HoldTime)/3, 1),
			IdleHoldTimeAfterReset: 5,
		}},
		// A capability without families asks for the End-of-RIB only (RFC 4724 §4).
		GracefulRestart: &api.GracefulRestart{
			Enabled:         true,
			RestartTime:     uint32(wire.Seconds(n.GracefulRestart)),
			HelperOnly:      n.GracefulRestart == 0,
			DeferralTime:    uint32(max(wire.Seconds(n.GracefulRestart)/2, 1)),
			LocalRestarting: n.Restarting && n.GracefulRestart > 0,
		},
	}
	if n.LocalAddress.IsValid() {
		peer.Transport.LocalAddress = n.LocalAddress.String()
	}
	if n.MultihopTTL > 1 {
		peer.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(n.MultihopTTL)}
	}
	if n.TTLSecurity {
		peer.TtlSecurity = &api.TtlSecurity{Enabled: true, TtlMin: 255}
	}
	for _, f := range n.Families {
		peer.AfiSafis = append(peer.AfiSafis, &api.AfiSafi{
			Config:            &api.AfiSafiConfig{Family: familyAPI(f), Enabled: true},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: n.GracefulRestart > 0}},
		})
	}
	return peer
}

func familyAPI(f Family) *api.Family {
	g := f.GoBGP()
	return &api.Family{Afi: api.Family_Afi(g.Afi()), Safi: api.Family_Safi(g.Safi())}
}

// egressPeers is the set of neighbours in other ASes; adding to it extends it.
func egressPeers(addresses ...netip.Addr) *api.DefinedSet {
	set := &api.DefinedSet{DefinedType: api.DefinedType_DEFINED_TYPE_NEIGHBOR, Name: egressPeersSet}
	for _, a := range addresses {
		a = a.WithZone("")
		set.List = append(set.List, netip.PrefixFrom(a, a.BitLen()).String())
	}
	return set
}

// applyPolicies decides which routes get into GoBGP's table and out of it.
//
// In: our own routes; those of peers and reflectors only when best paths are wanted. Those
// with our own AS in the path stay out, and those that [Speaker.Bar] has. VPN routes of reflectors stay
// out: the VPN table has them.
//
// Out: to egress peers our own prefixes and nothing else (RFC 7454 §6.2); to
// reflectors everything, routes of peers with ourselves as next hop.
func (s *Speaker) applyPolicies() error {
	// A neighbour set without members matches everybody, so it gets an address
	// that no neighbour can have.
	nobody := egressPeers(netip.AddrFrom4([4]byte{255, 255, 255, 255}))
	ownAS := &api.DefinedSet{
		DefinedType: api.DefinedType_DEFINED_TYPE_AS_PATH,
		Name:        ownASSet,
		List:        []string{"_" + strconv.FormatUint(uint64(s.config.AS), 10) + "_"},
	}
	for _, set := range []*api.DefinedSet{nobody, ownAS} {
		if err := s.gobgp.AddDefinedSet(s.ctx, &api.AddDefinedSetRequest{DefinedSet: set}); err != nil {
			return fmt.Errorf("setting up BGP policy set %s: %w", set.Name, err)
		}
	}
	received := reject()
	if s.config.BestPaths {
		received = accept()
	}
	statements := []*api.Statement{
		{Name: "in-own", Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL}, Actions: action(accept())},
		{Name: "in-loop", Conditions: &api.Conditions{AsPathSet: matchAny(ownASSet)}, Actions: action(reject())},
	}
	barred, err := s.barStatements(s.ctx)
	if err != nil {
		return err
	}
	statements = append(append(statements, barred...),
		&api.Statement{Name: "in-received", Conditions: &api.Conditions{AfiSafiIn: unicast()}, Actions: action(received)})
	if err := s.assignPolicy(importPolicy, api.PolicyDirection_POLICY_DIRECTION_IMPORT, reject(), statements); err != nil {
		return err
	}
	if s.config.Silent {
		return s.assignPolicy(exportPolicy, api.PolicyDirection_POLICY_DIRECTION_EXPORT, reject(), nil)
	}
	self := action(accept())
	self.Nexthop = &api.NexthopAction{Self: true}
	return s.assignPolicy(exportPolicy, api.PolicyDirection_POLICY_DIRECTION_EXPORT, accept(), []*api.Statement{
		{Name: "out-own", Conditions: &api.Conditions{
			NeighborSet: matchAny(egressPeersSet), RouteType: api.Conditions_ROUTE_TYPE_LOCAL, AfiSafiIn: unicast(),
		}, Actions: action(accept())},
		{Name: "out-no-transit", Conditions: &api.Conditions{NeighborSet: matchAny(egressPeersSet)}, Actions: action(reject())},
		{Name: "out-reflected", Conditions: &api.Conditions{
			RouteType: api.Conditions_ROUTE_TYPE_EXTERNAL, AfiSafiIn: unicast(),
		}, Actions: self},
	})
}

func (s *Speaker) assignPolicy(name string, direction api.PolicyDirection, otherwise api.RouteAction, statements []*api.Statement) error {
	policy := &api.Policy{Name: name, Statements: statements}
	if err := s.gobgp.AddPolicy(s.ctx, &api.AddPolicyRequest{Policy: policy}); err != nil {
		return fmt.Errorf("setting up BGP %s policy: %w", name, err)
	}
	err := s.gobgp.AddPolicyAssignment(s.ctx, &api.AddPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
		Name: globalTable, Direction: direction, Policies: []*api.Policy{{Name: name}}, DefaultAction: otherwise,
	}})
	if err != nil {
		return fmt.Errorf("assigning BGP %s policy: %w", name, err)
	}
	return nil
}

func accept() api.RouteAction { return api.RouteAction_ROUTE_ACTION_ACCEPT }

func reject() api.RouteAction { return api.RouteAction_ROUTE_ACTION_REJECT }

func action(a api.RouteAction) *api.Actions { return &api.Actions{RouteAction: a} }

func matchAny(set string) *api.MatchSet { return &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: set} }

func unicast() []*api.Family { return []*api.Family{familyAPI(IPv4Unicast), familyAPI(IPv6Unicast)} }
