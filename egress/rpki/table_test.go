package rpki

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

func vrp(t testing.TB, prefix string, maxLength uint8, as uint32) VRP {
	t.Helper()
	v, err := NewVRP(netip.MustParsePrefix(prefix), maxLength, as)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func tableOf(vrps ...VRP) *Table {
	slices.SortFunc(vrps, Compare)
	return NewTable(slices.Compact(vrps))
}

func TestValidate(t *testing.T) {
	table := tableOf(
		vrp(t, "2001:db8::/32", 40, 64496), vrp(t, "2001:db8::/32", 32, 64497), vrp(t, "2001:db8:8000::/40", 48, 64498),
		vrp(t, "198.51.100.0/24", 24, 64496), vrp(t, "192.0.2.0/24", 24, 0), vrp(t, "0.0.0.0/2", 8, 64499),
	)
	for _, c := range []struct {
		name, prefix string
		origin       uint32
		want         State
	}{
		{"the prefix itself", "2001:db8::/32", 64496, Valid},
		{"another VRP of the same prefix", "2001:db8::/32", 64497, Valid},
		{"as long as allowed", "2001:db8:100::/40", 64496, Valid},
		{"longer than allowed", "2001:db8:100::/41", 64496, Invalid},
		{"longer than one of two allows", "2001:db8:100::/40", 64497, Invalid},
		{"another AS", "2001:db8::/32", 64499, Invalid},
		{"a VRP within another", "2001:db8:8000::/48", 64498, Valid},
		{"the outer VRP's AS within the inner", "2001:db8:8000::/40", 64496, Valid},
		{"behind the inner VRP", "2001:db8:9000::/40", 64496, Valid},
		{"not covered, between VRPs", "2001:db9::/32", 64496, NotFound},
		{"shorter than the VRP", "2001:d00::/24", 64496, NotFound},
		{"IPv4", "198.51.100.0/24", 64496, Valid},
		{"IPv4 by another VRP far before", "10.0.0.0/8", 64499, Valid},
		{"IPv4 that is not covered", "203.0.113.0/24", 64496, NotFound},
		{"RFC 6483 4: AS 0 allows nobody", "192.0.2.0/24", 0, Invalid},
		{"an origin that is a set", "198.51.100.0/24", 0, Invalid},
		{"a default route", "::/0", 64496, NotFound},
		{"IPv6 before all VRPs", "::/8", 1, NotFound},
	} {
		if got := table.Validate(netip.MustParsePrefix(c.prefix), c.origin); got != c.want {
			t.Errorf("%s: %s from AS %d is %s, want %s", c.name, c.prefix, c.origin, got, c.want)
		}
	}
	if got := (*Table)(nil).Validate(netip.MustParsePrefix("10.0.0.0/8"), 1); got != Unchecked {
		t.Errorf("without VRPs: %s", got)
	}
}

// naive is RFC 6811 §2.1, word by word.
func naive(vrps []VRP, prefix netip.Prefix, origin uint32) State {
	state := NotFound
	for _, v := range vrps {
		p := v.Prefix()
		if p.Addr().Is4() != prefix.Addr().Is4() || p.Bits() > prefix.Bits() || !p.Contains(prefix.Addr()) {
			continue
		}
		if state = max(state, Invalid); v.AS() == origin && origin != 0 && prefix.Bits() <= int(v.MaxLength()) {
			return Valid
		}
	}
	return state
}

func randomPrefix(r *rand.Rand) netip.Prefix {
	bytes := [4]byte{byte(r.UintN(4)) << 6, byte(r.UintN(4)) << 6, byte(r.UintN(256)), 0}
	if r.UintN(2) == 0 {
		return netip.PrefixFrom(netip.AddrFrom4(bytes), int(r.UintN(33))).Masked()
	}
	var six [16]byte
	copy(six[:], bytes[:])
	return netip.PrefixFrom(netip.AddrFrom16(six), int(r.UintN(40))).Masked()
}

func randomVRPs(r *rand.Rand, n int) []VRP {
	var vrps []VRP
	for range n {
		p := randomPrefix(r)
		v, err := NewVRP(p, uint8(min(p.Bits()+int(r.UintN(10)), p.Addr().BitLen())), uint32(r.UintN(3)))
		if err != nil {
			panic(err)
		}
		vrps = append(vrps, v)
	}
	slices.SortFunc(vrps, Compare)
	return slices.Compact(vrps)
}

func TestValidateAgreesWithTheRFC(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		vrps := randomVRPs(r, int(r.UintN(60))+1)
		table := NewTable(vrps)
		for range 200 {
			p, origin := randomPrefix(r), uint32(r.UintN(3))
			if got, want := table.Validate(p, origin), naive(vrps, p, origin); got != want {
				t.Fatalf("%s from AS %d is %s, want %s, by %v", p, origin, got, want, vrps)
			}
		}
	}
}

func TestStatesOutsideOfTheDifferenceStay(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		a, b := randomVRPs(r, 40), randomVRPs(r, 3)
		b = Union(b, a[:30])
		before, after := NewTable(a), NewTable(b)
		changed := Difference(before, after)
		for range 100 {
			p, origin := randomPrefix(r), uint32(r.UintN(3))
			if slices.ContainsFunc(changed, func(c netip.Prefix) bool { return c.Bits() <= p.Bits() && c.Contains(p.Addr()) }) {
				continue
			}
			if was, is := before.Validate(p, origin), after.Validate(p, origin); was != is {
				t.Fatalf("%s from AS %d was %s and is %s outside of %v", p, origin, was, is, changed)
			}
		}
	}
}

func TestUnionHasEachOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		a, b, c := randomVRPs(r, 20), randomVRPs(r, 20), randomVRPs(r, 20)
		want := slices.Concat(a, b, c)
		slices.SortFunc(want, Compare)
		if got := Union(a, b, c); !slices.Equal(got, slices.Compact(want)) {
			t.Fatalf("union %v", got)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	var vrps []VRP
	for range 600_000 {
		addr := [16]byte{0x20 | byte(r.UintN(16)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}
		p := netip.PrefixFrom(netip.AddrFrom16(addr), 24+int(r.UintN(25))).Masked()
		v, _ := NewVRP(p, 48, r.Uint32())
		vrps = append(vrps, v)
	}
	table := tableOf(vrps...)
	prefixes := make([]netip.Prefix, 4096)
	for i := range prefixes {
		prefixes[i] = vrps[r.IntN(len(vrps))].Prefix()
	}
	for i := 0; b.Loop(); i++ {
		table.Validate(prefixes[i%len(prefixes)], 1)
	}
}
