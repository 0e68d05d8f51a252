package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	wire "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"golang.org/x/sys/unix"

	"hikyaku/egress/srv6"
)

// loadReflector speaks as much BGP as is needed to be believed.
type loadReflector struct{ listener net.Listener }

func listenAsReflector(b *testing.B) loadReflector {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return loadReflector{l}
}

// serve sends the tables to each client, and reports the CPU time that it took.
func (r loadReflector) serve(b *testing.B, way sending) <-chan time.Duration {
	took := make(chan time.Duration, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := cpuTime(b, unix.RUSAGE_THREAD)
		defer func() { took <- cpuTime(b, unix.RUSAGE_THREAD) - before }()
		conn, err := r.accept()
		if err == nil {
			go io.Copy(io.Discard, conn)
			err = sendTables(conn, way)
		}
		if err != nil {
			b.Error(err)
		}
	}()
	return took
}

func (r loadReflector) accept() (net.Conn, error) {
	conn, err := r.listener.Accept()
	if err != nil {
		return nil, err
	}
	open, err := wire.NewBGPOpenMessage(loadAS, 90, netip.MustParseAddr("192.0.2.53"), []wire.OptionParameterInterface{
		wire.NewOptionParameterCapability([]wire.ParameterCapabilityInterface{
			wire.NewCapMultiProtocol(wire.RF_IPv6_VPN), wire.NewCapFourOctetASNumber(loadAS),
		}),
	})
	for _, m := range []*wire.BGPMessage{open, wire.NewBGPKeepAliveMessage()} {
		if err == nil {
			err = send(conn, m)
		}
	}
	return conn, err
}

func send(conn net.Conn, m *wire.BGPMessage) error {
	raw, err := m.Serialize()
	if err == nil {
		_, err = conn.Write(raw)
	}
	return err
}

// sendTables sends all paths' routes, and makes a message anew only where attributes change.
func sendTables(conn net.Conn, way sending) error {
	next := time.Now()
	for i := range loadPaths {
		for first := 0; first < loadRoutes; first += loadShared {
			raw, at, err := loadMessage(i, first, way.perMessage)
			if err != nil {
				return err
			}
			for n := 0; n < loadShared; n += way.perMessage {
				for k := range way.perMessage {
					binary.BigEndian.PutUint32(raw[at+k*loadNLRI+2:], uint32(first+n+k))
				}
				for next = next.Add(way.pause); time.Now().Before(next); {
				}
				if _, err := conn.Write(raw); err != nil {
					return err
				}
			}
		}
	}
	return send(conn, wire.NewEndOfRib(wire.RF_IPv6_VPN))
}

// loadNLRI is the size of a route in MP_REACH_NLRI: length, label, distinguisher, /48.
const loadNLRI = 1 + 3 + 8 + 6

// loadMessage is an UPDATE with routes of a reflector, and where in it the first prefix is.
func loadMessage(path, first, routes int) (raw []byte, prefix int, err error) {
	rd, rt := loadTarget(path)
	sid := netip.AddrFrom16([16]byte{0xfd, 0, 0, 1, 15: byte(path + 1)})
	service, err1 := srv6.Service{SID: sid, Behavior: srv6.EndDT6}.Attribute()
	target, err2 := rt.GoBGP()
	route, err3 := wire.NewLabeledVPNIPAddrPrefix(netip.MustParsePrefix("3ffe::/48"), *wire.NewMPLSLabelStack(3), rd.GoBGP())
	reach, err4 := wire.NewPathAttributeMpReachNLRI(wire.RF_IPv6_VPN, slices.Repeat([]wire.PathNLRI{{NLRI: route}}, routes), netip.MustParseAddr("2001:db8::b1"))
	origin, err5 := wire.NewPathAttributeOriginatorId(loadBorder)
	cluster, err6 := wire.NewPathAttributeClusterList([]netip.Addr{netip.MustParseAddr("192.0.2.53")})
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, 0, err
	}
	as := wire.NewAs4PathParam(wire.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{64601, 4_200_000_000 + uint32(first/loadShared)})
	raw, err = wire.NewBGPUpdateMessage(nil, []wire.PathAttributeInterface{
		wire.NewPathAttributeOrigin(0), wire.NewPathAttributeAsPath([]wire.AsPathParamInterface{as}),
		wire.NewPathAttributeLocalPref(100), origin, cluster, reach,
		wire.NewPathAttributeExtendedCommunities([]wire.ExtendedCommunityInterface{target}), service,
	}, nil).Serialize()
	return raw, bytes.Index(raw, []byte{0x3f, 0xfe}), err
}

func loadTarget(path int) (srv6.RouteDistinguisher, srv6.RouteTarget) {
	number := uint16(path + 1)
	return srv6.NewRouteDistinguisher(loadBorder, number), srv6.NewRouteTarget(loadBorder, number)
}
