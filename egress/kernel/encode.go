package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// Numbers of the kernel's interface that golang.org/x/sys lacks, by their names in
// linux/if_addr.h, linux/rtnetlink.h, linux/seg6_iptunnel.h and linux/seg6_local.h.
const (
	ifaProto    = 11
	rtaNhID     = 30
	rtaEncap    = 22
	maxLifespan = 0xffffffff

	// loopbackIndex is that of `lo` in each network namespace (LOOPBACK_IFINDEX).
	loopbackIndex = 1

	seg6IPTunnelSRH   = 1
	seg6ModeEncap     = 1
	seg6ModeEncapRed  = 3
	seg6RoutingHeader = 4 // routing type, RFC 8754 §2

	seg6LocalAction   = 1
	seg6LocalTable    = 3
	seg6LocalNexthop4 = 4
	seg6LocalVRFTable = 9
)

// encoder turns operations into rtnetlink messages.
type encoder struct {
	batch    rtnl.Batch
	protocol uint8
	// device gives the number of a device.
	device func(name string) (uint32, error)
}

// add appends the message for op. On an error the batch is as before.
func (e *encoder) add(op Op) error {
	switch object := op.Object.(type) {
	case Route:
		e.route(object.normal(), op.Verb)
		return nil
	case Rule:
		e.rule(object.normal(), op.Verb)
		return nil
	case Nexthop:
		return e.nexthop(object, op.Verb)
	case Address:
		return e.address(object, op.Verb)
	default:
		return fmt.Errorf("no rtnetlink message for a %T", op.Object)
	}
}

// wakeRoute exists for the length of a message, in a table that nothing looks up and
// with a prefix that is for discarding (RFC 6666).
var wakeRoute = Route{Prefix: netip.MustParsePrefix("100::/128"), Table: 0x48_000000, Type: Blackhole}

// wakeSockets makes every socket look its IPv6 route up again. The kernel takes a route
// that a socket remembers as good while the number of the last IPv6 route addition stays
// the same. It does so if the route has a nexthop object (ip6_dst_check and rt6_is_valid).
// So removing a route does not move live connections off it, and adding any does.
func (e *encoder) wakeSockets() {
	e.route(wakeRoute.normal(), Add)
	e.route(wakeRoute.normal(), Delete)
}

// request returns the message type and flags of a verb, given the type that creates:
// the one that deletes is always the next number.
func request(create uint16, verb Verb) (kind, flags uint16) {
	switch verb {
	case Add:
		return create, unix.NLM_F_CREATE | unix.NLM_F_EXCL
	case Replace:
		return create, unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	default:
		return create + 1, 0
	}
}

func (e *encoder) route(r Route, verb Verb) {
	family := FamilyOf(r.Prefix.Addr())
	kind, flags := request(unix.RTM_NEWROUTE, verb)
	routeType, scope := uint8(r.Type), uint8(unix.RT_SCOPE_UNIVERSE)
	if verb == Delete {
		// Any type: the route may have been dropped in between.
		routeType, scope = unix.RTN_UNSPEC, unix.RT_SCOPE_NOWHERE
	}
	// Tables above 255 are named by the attribute.
	e.batch.Begin(kind, flags, uint8(family), uint8(r.Prefix.Bits()), 0, 0,
		unix.RT_TABLE_UNSPEC, e.protocol, scope, routeType, 0, 0, 0, 0)
	e.addr(unix.RTA_DST, r.Prefix.Addr())
	e.batch.Uint32(unix.RTA_TABLE, r.Table)
	if r.Metric != 0 {
		e.batch.Uint32(unix.RTA_PRIORITY, r.Metric)
	} else if family == IPv6 && verb == Delete {
		// Without a metric the kernel would delete the first route of any metric.
		e.batch.Uint32(unix.RTA_PRIORITY, defaultMetricIPv6)
	}
	if verb != Delete {
		if r.Nexthop != 0 {
			e.batch.Uint32(rtaNhID, uint32(r.Nexthop))
		}
		if r.Type == Delivery {
			e.batch.Uint32(unix.RTA_OIF, loopbackIndex)
		}
		e.routeMetrics(r, family)
	}
	e.batch.End()
}

func (e *encoder) routeMetrics(r Route, family Family) {
	// Without the attribute IPv4 shares the record, and the metrics, of another route
	// with the same nexthop; an empty one prevents that (fib_create_info).
	if r.MTU == 0 && r.AdvMSS == 0 && family == IPv6 {
		return
	}
	e.batch.Nested(unix.RTA_METRICS, func() {
		if r.MTU != 0 {
			e.batch.Uint32(unix.RTAX_MTU, r.MTU)
		}
		if r.AdvMSS != 0 {
			e.batch.Uint32(unix.RTAX_ADVMSS, r.AdvMSS)
		}
	})
}

func (e *encoder) rule(r Rule, verb Verb) {
	kind, flags := request(unix.RTM_NEWRULE, verb)
	e.batch.Begin(kind, flags, uint8(r.Family), uint8(max(r.To.Bits(), 0)), uint8(max(r.From.Bits(), 0)), 0,
		unix.RT_TABLE_UNSPEC, 0, 0, uint8(r.Action), 0, 0, 0, 0)
	e.batch.Uint32(unix.FRA_PRIORITY, r.Priority)
	e.batch.Uint8(unix.FRA_PROTOCOL, e.protocol)
	if r.From.Bits() > 0 {
		e.addr(unix.FRA_SRC, r.From.Addr())
	}
	if r.To.Bits() > 0 {
		e.addr(unix.FRA_DST, r.To.Addr())
	}
	if r.Mask != 0 {
		e.batch.Uint32(unix.FRA_FWMARK, r.Mark)
		e.batch.Uint32(unix.FRA_FWMASK, r.Mask)
	}
	if r.InDevice != "" {
		e.batch.String(unix.FRA_IIFNAME, r.InDevice)
	}
	if r.Table != 0 {
		e.batch.Uint32(unix.FRA_TABLE, r.Table)
	}
	e.batch.End()
}

func (e *encoder) address(a Address, verb Verb) error {
	index, err := e.device(a.Device)
	if err != nil {
		return err
	}
	kind, flags := request(unix.RTM_NEWADDR, verb)
	addr := a.Prefix.Addr()
	e.batch.Begin(kind, flags, append([]byte{uint8(FamilyOf(addr)), uint8(a.Prefix.Bits()), 0,
		unix.RT_SCOPE_UNIVERSE}, native(index)...)...)
	e.addr(unix.IFA_LOCAL, addr)
	e.addr(unix.IFA_ADDRESS, addr)
	if verb != Delete {
		e.batch.Uint8(ifaProto, e.protocol)
		var ifaFlags uint32
		if a.NoDAD {
			ifaFlags = unix.IFA_F_NODAD
		}
		e.batch.Uint32(unix.IFA_FLAGS, ifaFlags)
		preferred := uint32(maxLifespan)
		if a.Deprecated {
			preferred = 0
		}
		// struct ifa_cacheinfo: preferred and valid lifetime, two stamps of the kernel's.
		info := append(native(preferred), native(maxLifespan)...)
		e.batch.Bytes(unix.IFA_CACHEINFO, append(info, make([]byte, 8)...))
	}
	e.batch.End()
	return nil
}

func (e *encoder) nexthop(n Nexthop, verb Verb) error {
	kind, flags := request(unix.RTM_NEWNEXTHOP, verb)
	if verb == Delete {
		e.batch.Begin(kind, flags, unix.AF_UNSPEC, 0, 0, 0, 0, 0, 0, 0)
		e.batch.Uint32(unix.NHA_ID, uint32(n.ID))
		e.batch.End()
		return nil
	}
	var index uint32
	if !n.Blackhole {
		var err error
		if index, err = e.device(n.Device); err != nil {
			return err
		}
	}
	e.batch.Begin(kind, flags, uint8(n.Family), unix.RT_SCOPE_UNIVERSE, e.protocol, 0, 0, 0, 0, 0)
	e.batch.Uint32(unix.NHA_ID, uint32(n.ID))
	if n.Blackhole {
		e.batch.Bytes(unix.NHA_BLACKHOLE, nil)
		e.batch.End()
		return nil
	}
	e.batch.Uint32(unix.NHA_OIF, index)
	if n.Gateway.IsValid() {
		e.addr(unix.NHA_GATEWAY, n.Gateway)
	}
	switch {
	case n.Encap != NoEncap:
		e.batch.Uint16(unix.NHA_ENCAP_TYPE, unix.LWTUNNEL_ENCAP_SEG6)
		e.batch.Nested(unix.NHA_ENCAP, func() { e.batch.Bytes(seg6IPTunnelSRH, segmentHeader(n)) })
	case n.Local.Action != NoLocal:
		e.batch.Uint16(unix.NHA_ENCAP_TYPE, unix.LWTUNNEL_ENCAP_SEG6_LOCAL)
		e.batch.Nested(unix.NHA_ENCAP, func() { e.local(n.Local) })
	}
	e.batch.End()
	return nil
}

// segmentHeader is struct seg6_iptunnel_encap: the mode and a routing header with
// one segment (RFC 8754 §2).
func segmentHeader(n Nexthop) []byte {
	mode := uint32(seg6ModeEncap)
	if n.Encap == EncapReduced {
		mode = seg6ModeEncapRed
	}
	// Next header, length in 8 bytes beyond the first, type, segments left, last
	// entry, flags, tag (two bytes).
	header := append(native(mode), 0, 2, seg6RoutingHeader, 0, 0, 0, 0, 0)
	return append(header, n.SID.AsSlice()...)
}

func (e *encoder) local(l Local) {
	e.batch.Uint32(seg6LocalAction, localActions[l.Action].number)
	switch {
	case l.Action == EndDX4:
		e.addr(seg6LocalNexthop4, netip.IPv4Unspecified())
	case l.VRF:
		e.batch.Uint32(seg6LocalVRFTable, l.Table)
	default:
		e.batch.Uint32(seg6LocalTable, l.Table)
	}
}

// localActions holds the numbers of linux/seg6_local.h and the names of RFC 8986.
var localActions = map[LocalAction]struct {
	number uint32
	name   string
}{
	EndDX4:  {6, "End.DX4"},
	EndDT6:  {7, "End.DT6"},
	EndDT4:  {8, "End.DT4"},
	EndDT46: {16, "End.DT46"},
}

func (e *encoder) addr(kind uint16, addr netip.Addr) {
	if addr.Is4() {
		raw := addr.As4()
		e.batch.Bytes(kind, raw[:])
		return
	}
	raw := addr.As16()
	e.batch.Bytes(kind, raw[:])
}

func native(value uint32) []byte {
	return binary.NativeEndian.AppendUint32(nil, value)
}
