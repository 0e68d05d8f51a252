package session

import (
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/wire"
)

// openTime bounds a session's beginning, as the large hold time of RFC 4271
// §8.2.2 does.
const openTime = 30 * time.Second

// asTrans stands for AS numbers of four bytes (RFC 6793 §9).
const asTrans = 23456

// open exchanges OPEN and KEEPALIVE (RFC 4271 §8.2.2). It answers what it refuses
// by a NOTIFICATION.
func (s *Session) open(conn *net.TCPConn, r io.Reader) (wire.Terms, error) {
	if err := conn.SetDeadline(time.Now().Add(openTime)); err != nil {
		return wire.Terms{}, err
	}
	ours, err := s.openMessage()
	if err == nil {
		_, err = conn.Write(ours)
	}
	if err != nil {
		return wire.Terms{}, fmt.Errorf("sending OPEN: %w", err)
	}
	body, err := readMessage(r, bgp.BGP_MSG_OPEN)
	if err != nil {
		return wire.Terms{}, fmt.Errorf("waiting for OPEN: %w", err)
	}
	terms, err := s.agree(body)
	if err != nil {
		return wire.Terms{}, fmt.Errorf("refusing OPEN: %w", err)
	}
	if _, err := conn.Write(keepalive); err != nil {
		return wire.Terms{}, fmt.Errorf("sending KEEPALIVE: %w", err)
	}
	if _, err := readMessage(r, bgp.BGP_MSG_KEEPALIVE); err != nil {
		return wire.Terms{}, fmt.Errorf("waiting for KEEPALIVE: %w", err)
	}
	terms.Local = conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	return terms, conn.SetDeadline(time.Time{})
}

// maxReceived is the greatest length of a message that the neighbour may send, in bytes.
// Extended messages (RFC 8654) are for reflectors. A route of an egress peer needs more
// room within the AS than it came with. The shorter message also bounds the memory that a
// peer can make the border keep for each route.
func (s *Session) maxReceived() int {
	if s.reflects() {
		return wire.MaxExtended
	}
	return wire.MaxMessage
}

// openMessage is our OPEN. As GoBGP's on other sessions, it offers multiprotocol, route
// refresh, four-byte AS numbers, extended next hops and graceful restart, and to reflectors
// extended messages. With a role it has that, too (RFC 9234 §4.1), and ADD-PATH where several
// routes for a prefix are wanted (RFC 7911 §4).
func (s *Session) openMessage() ([]byte, error) {
	n, c := s.config.Neighbor, s.config
	restarting := s.config.Restarting()
	// The kernel's state outlives sessions, too, so that a reflector which keeps
	// the routes of a broken one may go on (RFC 4724 §3).
	forwarding := restarting || s.wasUp
	var kept []*bgp.CapGracefulRestartTuple
	capabilities := []bgp.ParameterCapabilityInterface{bgp.NewCapRouteRefresh(), bgp.NewCapFourOctetASNumber(c.AS)}
	if s.maxReceived() == wire.MaxExtended {
		capabilities = append(capabilities, bgp.NewCapExtendedMessage())
	}
	for _, f := range n.Families {
		capabilities = append(capabilities, bgp.NewCapMultiProtocol(f.GoBGP()))
		if n.GracefulRestart > 0 {
			kept = append(kept, bgp.NewCapGracefulRestartTuple(f.GoBGP(), forwarding))
		}
	}
	capabilities = append(capabilities, extendedNextHops(n.Families)...)
	if n.AddPath {
		capabilities = append(capabilities, wire.ReceivePaths(n.Families))
	}
	if n.Role != wire.NoRole {
		capabilities = append(capabilities, n.Role.Capability())
	}
	capabilities = append(capabilities, bgp.NewCapGracefulRestart(restarting, false, uint16(wire.Seconds(n.GracefulRestart)), kept))
	as := uint16(asTrans)
	if c.AS < 1<<16 {
		as = uint16(c.AS)
	}
	m, err := bgp.NewBGPOpenMessage(as, uint16(wire.Seconds(n.HoldTime)), c.RouterID,
		[]bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(capabilities)})
	if err != nil {
		return nil, err
	}
	return m.Serialize()
}

// extendedNextHops offers IPv6 next hops for the IPv4 families (RFC 8950 §4).
func extendedNextHops(families []wire.Family) []bgp.ParameterCapabilityInterface {
	var tuples []*bgp.CapExtendedNexthopTuple
	for _, f := range families {
		if f == wire.IPv4Unicast || f == wire.VPNv4 {
			tuples = append(tuples, bgp.NewCapExtendedNexthopTuple(f.GoBGP(), bgp.AFI_IP6))
		}
	}
	if len(tuples) == 0 {
		return nil
	}
	return []bgp.ParameterCapabilityInterface{bgp.NewCapExtendedNexthop(tuples)}
}

// agree checks the neighbour's OPEN.
func (s *Session) agree(body []byte) (wire.Terms, error) {
	var m bgp.BGPOpen
	if err := m.DecodeFromBytes(body); err != nil {
		return wire.Terms{}, err
	}
	c := s.config
	if _, err := bgp.ValidateOpenMsg(&m, s.config.Neighbor.AS, c.AS, c.RouterID); err != nil {
		return wire.Terms{}, err
	}
	var capabilities []bgp.ParameterCapabilityInterface
	for _, p := range m.OptParams {
		if p, ok := p.(*bgp.OptionParameterCapability); ok {
			capabilities = append(capabilities, p.Capability...)
		}
	}
	if err := s.config.Neighbor.Role.CheckNeighbour(capabilities, s.config.Neighbor.StrictRole); err != nil {
		return wire.Terms{}, err
	}
	wide := offers(capabilities, bgp.BGP_CAP_FOUR_OCTET_AS_NUMBER)
	terms := wire.Terms{RouterID: m.ID, Families: wire.SharedFamilies(s.config.Neighbor.Families, capabilities), MaxMessage: wire.MaxMessage}
	terms.RouteRefresh = offers(capabilities, bgp.BGP_CAP_ROUTE_REFRESH)
	if s.reflects() && offers(capabilities, bgp.BGP_CAP_EXTENDED_MESSAGE) {
		terms.MaxMessage = wire.MaxExtended
	}
	if !wide || len(terms.Families) == 0 {
		return wire.Terms{}, bgp.NewMessageError(bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_UNSUPPORTED_CAPABILITY, nil,
			fmt.Sprintf("it has no family of ours (%v), or no AS numbers of four bytes", s.config.Neighbor.Families))
	}
	for _, f := range terms.Families {
		if s.config.Neighbor.AddPath && !wire.SendsPaths(capabilities, f) {
			return wire.Terms{}, bgp.NewMessageError(bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_UNSUPPORTED_CAPABILITY, nil,
				fmt.Sprintf("it does not offer to send several paths (ADD-PATH) of %s: configure that towards this agent", f))
		}
	}
	terms.Restart = wire.RestartOf(capabilities)
	terms.HoldTime = min(s.config.Neighbor.HoldTime, time.Duration(m.HoldTime)*time.Second)
	return terms, nil
}

func offers(capabilities []bgp.ParameterCapabilityInterface, code bgp.BGPCapabilityCode) bool {
	return slices.ContainsFunc(capabilities, func(c bgp.ParameterCapabilityInterface) bool { return c.Code() == code })
}
