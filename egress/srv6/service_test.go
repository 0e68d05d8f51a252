package srv6

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

var exampleService = Service{
	SID:       netip.MustParseAddr("2001:db8:100:1234::"),
	Behavior:  EndDT6,
	Structure: Structure{BlockBits: 32, NodeBits: 16, FunctionBits: 16},
}

func encode(t testing.TB, s Service) []byte {
	t.Helper()
	attr, err := s.Attribute()
	if err != nil {
		t.Fatal(err)
	}
	b, err := attr.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(b []byte) (Service, error) {
	attr := &bgp.PathAttributePrefixSID{}
	if err := attr.DecodeFromBytes(b); err != nil {
		return Service{}, err
	}
	return ServiceFromGoBGP([]bgp.PathAttributeInterface{attr})
}

// The bytes of RFC 9252 §2 and §3, counted out by hand.
func TestServiceOnTheWire(t *testing.T) {
	want := []byte{
		0xc0, 40, 37, // optional transitive, Prefix-SID, length
		5, 0, 34, 0, // SRv6 L3 Service, length, reserved
		1, 0, 30, 0, // SRv6 SID Information, length, reserved
		0x20, 0x01, 0x0d, 0xb8, 0x01, 0x00, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0x12, 0, // flags, End.DT6, reserved
		1, 0, 6, 32, 16, 16, 0, 0, 0, // SID Structure, no transposition
	}
	if got := encode(t, exampleService); !bytes.Equal(got, want) {
		t.Errorf("attribute is\n%x, want\n%x", got, want)
	}
	if got, err := decode(want); err != nil || got != exampleService {
		t.Errorf("read back %+v (%v)", got, err)
	}
}

func TestServiceThere(t *testing.T) {
	plain := Service{SID: exampleService.SID, Behavior: EndDT46}
	for name, s := range map[string]Service{
		"with structure": exampleService, "without": plain,
		"behaviour unknown": {SID: plain.SID, Behavior: 0xffff},
	} {
		if back, err := decode(encode(t, s)); err != nil || back != s {
			t.Errorf("%s: read back %+v (%v)", name, back, err)
		}
	}
}

func TestServiceRefused(t *testing.T) {
	change := func(at int, value byte) []byte {
		b := encode(t, exampleService)
		b[at] = value
		return b
	}
	zeroSID := encode(t, exampleService)
	clear(zeroSID[11:27])
	cases := []struct {
		name string
		b    []byte
		want error
	}{
		{"L2 service", change(3, 6), ErrNoService},
		{"another TLV", change(3, 1), ErrNoService},
		{"another sub-TLV", change(7, 2), ErrNoService},
		{"transposed", change(38, 16), ErrTransposed},
		{"SID ::", zeroSID, nil},
		{"SID multicast", change(11, 0xff), nil},
		{"structure longer than an address", change(34, 128), nil},
		{"information too short", change(9, 20), nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := decode(c.b)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("gave %+v and error %v, want %v", got, err, c.want)
			}
		})
	}
	for name, s := range map[string]Service{
		"no SID":         {},
		"IPv4 SID":       {SID: netip.MustParseAddr("192.0.2.1")},
		"link-local SID": {SID: netip.MustParseAddr("fe80::1")},
		"structure":      {SID: exampleService.SID, Structure: Structure{BlockBits: 120, FunctionBits: 16}},
	} {
		if _, err := s.Attribute(); err == nil {
			t.Errorf("%s: was announced", name)
		}
	}
	if _, err := ServiceFromGoBGP(nil); !errors.Is(err, ErrNoService) {
		t.Errorf("no attributes gave %v", err)
	}
}

func TestBehaviorNames(t *testing.T) {
	for b, want := range map[Behavior]string{EndDT6: "End.DT6", EndDT4: "End.DT4", EndDT46: "End.DT46", 0x40: "behaviour 0x0040"} {
		if b.String() != want {
			t.Errorf("%#x is %s, want %s", uint16(b), b, want)
		}
	}
}

// Messages of a reflector come through here. There must be no panic and no SID that no
// packet can go to, and accepted services can be announced again unchanged.
func FuzzService(f *testing.F) {
	f.Add(encode(f, exampleService))
	f.Add(encode(f, Service{SID: exampleService.SID}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decode(b)
		if err != nil {
			return
		}
		if back, err := decode(encode(t, s)); err != nil || back != s {
			t.Errorf("%+v became %+v (%v)", s, back, err)
		}
	})
}

func FuzzRouteDistinguisher(f *testing.F) {
	f.Add([]byte{0, 1, 192, 0, 2, 1, 0, 7})
	f.Add([]byte{0, 2, 0xfa, 0x56, 0xea, 0, 0, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 8 {
			return
		}
		rd := RouteDistinguisher(b[:8])
		if back, err := DistinguisherFromGoBGP(rd.GoBGP()); err == nil && back != rd {
			t.Errorf("%x through GoBGP became %x", rd, back)
		}
		if parsed, err := ParseRouteDistinguisher(rd.String()); err == nil && parsed.String() != rd.String() {
			t.Errorf("%s read back as %s", rd, parsed)
		}
	})
}
