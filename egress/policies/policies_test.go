package policies

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

func prefixes(list ...string) (found []netip.Prefix) {
	for _, p := range list {
		found = append(found, netip.MustParsePrefix(p))
	}
	return found
}

func TestPrefix(t *testing.T) {
	const asked = "2001:db8:7::/48"
	for _, c := range []struct {
		name  string
		rules []Scope
		as    uint32
		want  string
	}{
		{"none", nil, 0, "[]"},
		{"for all", []Scope{{}}, 0, "[{0 []}]"},
		{"the prefix, wider and narrower ones", []Scope{
			{Prefixes: prefixes("2001:db8:7:9::/64")}, {Prefixes: prefixes(asked)}, {Prefixes: prefixes("2001:db8::/32")},
		}, 0, "[{0 [2001:db8:7:9::/64]} {1 []} {2 []}]"},
		{"other prefixes", []Scope{{Prefixes: prefixes("2001:db8:6::/48", "2001:db8:8::/64", "0.0.0.0/0")}}, 0, "[]"},
		{"several parts", []Scope{{Prefixes: prefixes("2001:db8:7:9::/64", "2001:db8:7:1::/64", "2001:db8:6::/48")}}, 0,
			"[{0 [2001:db8:7:1::/64 2001:db8:7:9::/64]}]"},
		{"a part and all of it", []Scope{{Prefixes: prefixes("2001:db8:7:9::/64", "2001:db8::/32")}}, 0, "[{0 []}]"},
		{"its AS", []Scope{{ASes: []uint32{64999}}, {ASes: []uint32{64998}}}, 64999, "[{0 []}]"},
		{"its AS, and a part", []Scope{{ASes: []uint32{64999}, Prefixes: prefixes("2001:db8:7:9::/64")}}, 64999, "[{0 []}]"},
		{"another AS, and a part", []Scope{{ASes: []uint32{64999}, Prefixes: prefixes("2001:db8:7:9::/64")}}, 64998,
			"[{0 [2001:db8:7:9::/64]}]"},
		{"an AS that is not known", []Scope{{ASes: []uint32{64999}}}, 0, "[]"},
		{"in the order of places", []Scope{{ASes: []uint32{1}}, {}, {Prefixes: prefixes("2001:db8::/32")}}, 1, "[{0 []} {1 []} {2 []}]"},
	} {
		if got := fmt.Sprint(New(c.rules).Prefix(netip.MustParsePrefix(asked), c.as)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// The policies for a prefix are, for each client in it, those for the client.
func TestPrefixAgreesWithItsClients(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func() netip.Prefix {
		a := netip.AddrFrom4([4]byte{10, byte(random.IntN(2)), byte(random.IntN(3)), byte(random.IntN(256))})
		p, _ := a.Prefix(8 + random.IntN(25))
		return p
	}
	for range 2000 {
		var rules []Scope
		for range random.IntN(6) {
			var r Scope
			for range random.IntN(4) {
				r.Prefixes = append(r.Prefixes, some())
			}
			for range random.IntN(2) {
				r.ASes = append(r.ASes, uint32(1+random.IntN(2)))
			}
			rules = append(rules, r)
		}
		m, asked, as := New(rules), some(), uint32(random.IntN(3))
		matches := m.Prefix(asked, as)
		for range 20 {
			raw := asked.Addr().As4()
			host := random.Uint32() >> asked.Bits()
			client := netip.AddrFrom4([4]byte{raw[0] | byte(host>>24), raw[1] | byte(host>>16), raw[2] | byte(host>>8), raw[3] | byte(host)})
			var got []int
			for _, match := range matches {
				in := func(p netip.Prefix) bool { return p.Contains(client) }
				if len(match.Parts) == 0 || slices.ContainsFunc(match.Parts, in) {
					got = append(got, match.Place)
				}
			}
			if want := m.Client(client, as); !slices.Equal(got, want) {
				t.Fatalf("rules %v, %s of %s in AS %d: %v, want %v", rules, client, asked, as, got, want)
			}
		}
	}
}
