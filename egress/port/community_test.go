package port_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"hikyaku/egress/port"
)

func TestCommunities(t *testing.T) {
	const asn = 64500
	want := port.State{
		Number: 200, Kind: port.Peering, Price: 1234567, Admitted: port.Shares{0, 64, port.Whole},
		Billed: port.Shares{port.Whole, 1, 0}, Spare: port.MaxSpare,
	}
	list := append([]port.LargeCommunity{{asn, 1, 2}}, want.Communities(asn)...)
	if got, ok := port.FromCommunities(list, asn); !ok || got != want {
		t.Errorf("%+v became %+v", want, got)
	}
	for name, change := range map[string]func([]port.LargeCommunity) []port.LargeCommunity{
		"one is missing":      func(l []port.LargeCommunity) []port.LargeCommunity { return l[:3] },
		"of another AS":       func(l []port.LargeCommunity) []port.LargeCommunity { l[1][0]++; return l },
		"a share above all":   func(l []port.LargeCommunity) []port.LargeCommunity { l[1][2] |= 0xff; return l },
		"no number":           func(l []port.LargeCommunity) []port.LargeCommunity { l[1][2] &= 0xffffff; return l },
		"more spare than all": func(l []port.LargeCommunity) []port.LargeCommunity { l[2][2] |= 0xff000000; return l },
	} {
		if got, ok := port.FromCommunities(change(slices.Clone(list)), asn); ok {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

// A state that was read is written as it was, and its shares are no more than all.
func FuzzFromCommunities(f *testing.F) {
	for _, s := range []port.State{
		{Number: 1, Kind: port.Transit, Price: 1000, Admitted: port.All, Billed: port.All},
		{Number: 255, Kind: port.Peering, Admitted: port.Shares{1, 2, 3}, Spare: 3},
	} {
		var text []byte
		for _, c := range s.Communities(7) {
			for _, part := range c {
				text = binary.BigEndian.AppendUint32(text, part)
			}
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var list []port.LargeCommunity
		for ; len(text) >= 12; text = text[12:] {
			list = append(list, port.LargeCommunity{
				binary.BigEndian.Uint32(text), binary.BigEndian.Uint32(text[4:]), binary.BigEndian.Uint32(text[8:]),
			})
		}
		s, ok := port.FromCommunities(list, 7)
		if !ok {
			return
		}
		for class := range s.Admitted {
			if s.Admitted[class] > port.Whole || s.Billed[class] > port.Whole {
				t.Fatalf("%+v has a share above all", s)
			}
		}
		if again, ok := port.FromCommunities(s.Communities(7), 7); !ok || again != s {
			t.Fatalf("%+v became %+v", s, again)
		}
	})
}
