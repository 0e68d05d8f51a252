package kernel

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// attributesOf reads attributes by the parser of another library.
func attributesOf(t *testing.T, text []byte) map[uint16][]byte {
	t.Helper()
	list, err := nl.ParseRouteAttr(text)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[uint16][]byte)
	for _, a := range list {
		values[a.Attr.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)] = a.Value
	}
	return values
}

// The request for a VRF device is that of linux/if_link.h. There are kernels without VRF, which
// refuse it whatever its form.
func TestRequestForAVRFDevice(t *testing.T) {
	var b rtnl.Batch
	newDevice(&b, "hkvrf10001", Protocol, func(b *rtnl.Batch) { describeVRF(b, 10001) })
	message := b.Message(0)
	kind, flags := binary.NativeEndian.Uint16(message[4:]), binary.NativeEndian.Uint16(message[6:])
	if kind != unix.RTM_NEWLINK || flags != unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_EXCL {
		t.Errorf("the request has the type %d and the flags %#x", kind, flags)
	}
	device := attributesOf(t, message[unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg:])
	info := attributesOf(t, device[unix.IFLA_LINKINFO])
	data := attributesOf(t, info[nl.IFLA_INFO_DATA])
	for _, test := range []struct {
		name      string
		got, want []byte
	}{
		{"the name", device[unix.IFLA_IFNAME], []byte("hkvrf10001\x00")},
		{"the group", device[unix.IFLA_GROUP], native(uint32(Protocol))},
		{"the kind", info[nl.IFLA_INFO_KIND], []byte("vrf\x00")},
		{"the table", data[nl.IFLA_VRF_TABLE], native(10001)},
	} {
		if !bytes.Equal(test.got, test.want) {
			t.Errorf("%s is %q, want %q", test.name, test.got, test.want)
		}
	}
}

// endDT46 is SEG6_LOCAL_ACTION_END_DT46 of linux/seg6_local.h.
const endDT46 = 16

// The endpoint of a nexthop object that looks up by a VRF device is the one that another library
// writes.
func TestRequestForAnEndpointByVRF(t *testing.T) {
	for _, test := range []struct {
		name   string
		action LocalAction
		number int
	}{
		{"End.DT46", EndDT46, endDT46},
		{"End.DT6", EndDT6, nl.SEG6_LOCAL_ACTION_END_DT6},
		{"End.DT4", EndDT4, nl.SEG6_LOCAL_ACTION_END_DT4},
	} {
		n := Nexthop{ID: 8, Family: IPv6, Device: "lo", Local: Local{Action: test.action, Table: 10001, VRF: true}}
		e := encoder{protocol: Protocol, device: func(string) (uint32, error) { return loopbackIndex, nil }}
		if err := e.add(Op{Add, n}); err != nil {
			t.Fatal(err)
		}
		message := e.batch.Message(0)
		if kind := binary.NativeEndian.Uint16(message[4:]); kind != unix.RTM_NEWNEXTHOP {
			t.Errorf("%s: the request has the type %d", test.name, kind)
		}
		const nexthopHeaderSize = 8 // struct nhmsg
		values := attributesOf(t, message[unix.NLMSG_HDRLEN+nexthopHeaderSize:])
		if got := values[unix.NHA_ENCAP_TYPE]; len(got) < 2 || binary.NativeEndian.Uint16(got) != nl.LWTUNNEL_ENCAP_SEG6_LOCAL {
			t.Errorf("%s: the type of the encapsulation is %v", test.name, got)
		}
		other := netlink.SEG6LocalEncap{Action: test.number, VrfTable: 10001}
		other.Flags[nl.SEG6_LOCAL_ACTION], other.Flags[nl.SEG6_LOCAL_VRFTABLE] = true, true
		want, err := other.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got := values[unix.NHA_ENCAP]; !bytes.Equal(got, want) {
			t.Errorf("%s: the encapsulation is\n%x, another library's\n%x", test.name, got, want)
		}
		if got := parseLocal(values[unix.NHA_ENCAP]); got != n.Local {
			t.Errorf("%s: read back, the endpoint is %+v", test.name, got)
		}
	}
}
