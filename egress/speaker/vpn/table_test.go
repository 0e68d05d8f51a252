package vpn

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unique"

	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// Steps name a reflector (a, b) and its action: u up, e End-of-RIB, d down, f removed for
// good. The action +1 announces route 1 for the prefix, *1 for another
// prefix of the same distinguisher, and - withdraws it. The step m says that a session has lasted for the stale time, and x is its end for
// stale routes. The step s looks for complete distinguishers: the second one finds those of
// which nothing came since the first. After each step stand the changes of the merged view: =1 for route
// 1, =0 for gone.
func TestMergedView(t *testing.T) {
	cases := []struct{ name, steps, want string }{
		{"one reflector", "au a+1 a-", "=1 =0"},
		{"same again is no change", "au a+1 a+1", "=1"},
		{"other attributes are", "au a+1 a+2", "=1 =2"},
		{"second reflector says the same", "au bu a+1 b+1 a- b-", "=1 =0"},
		{"second reflector says otherwise: the first counts", "au bu a+1 b+2 a-", "=1 =2"},
		{"withdrawal of what was never announced", "au a-", ""},
		{"lost reflector, none in sync: stays", "au a+1 ad", "=1"},
		{"lost reflector, the other in sync has it", "au bu a+1 b+1 be bm ad", "=1"},
		{"lost reflector, the other in sync has it otherwise", "au bu a+1 b+2 be bm ad", "=1 =2"},
		{"lost reflector, the other in sync has it not", "au bu a+1 be bm ad", "=1 =0"},
		{"lost reflector, the other in sync has come up lately and has it not yet", "au bu a+1 be ad b+1 s s", "=1"},
		{"lost reflector, the other not yet in sync", "au bu a+1 ad be s s x", "=1 =0"},
		{"lost reflector, the other not yet in sync has it otherwise", "au bu a+1 b+2 ad be", "=1 =2"},
		{"fresh goes before stale", "au a+1 ad bu b+2", "=1 =2"},
		{"fresh withdrawal ends stale, too", "au a+1 ad bu b-", "=1 =0"},
		{"comes back with it", "au a+1 ad au a+1 ae s s", "=1"},
		{"comes back without it: its border may not be back", "au a+1 ad au ae s s", "=1"},
		{"its border comes back later", "au a+1 ad au ae s s a+1 s s", "=1"},
		{"its border does not come back", "au a+1 ad au ae s s x", "=1 =0"},
		{"its border comes back with another one", "au a+1 ad au ae s s a*3 s s", "=1 =3 =0"},
		{"its border still sends", "au a+1 ad au ae a*3 s a*4 s a+1 s s", "=1 =3 =4"},
		{"its border comes back before End-of-RIB", "au a+1 ad au a*3 s s ae s s", "=1 =3 =0"},
		{"comes back with it changed", "au a+1 ad au a+2 ae", "=1 =2"},
		{"comes back, withdraws it", "au a+1 ad au a-", "=1 =0"},
		{"stale time ends", "au a+1 ad x", "=1 =0"},
		{"stale time ends while it comes back", "au a+1 ad au x a+1", "=1 =0 =1"},
		{"lost twice before End-of-RIB", "au a+1 ad au ad au a+1 ae", "=1"},
		{"both restart in turn", "au bu a+1 b+1 am bm ad au ae bd bu b+1 be a+1 s s", "=1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			table, got := NewTable(), []string{}
			for _, step := range strings.Fields(c.steps) {
				got = append(got, applyStep(t, table, step)...)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("changes are %q, want %q", s, c.want)
			}
			for _, r := range table.reflectors {
				if stale := countStale(r); r.stale != stale {
					t.Errorf("reflector %s counts %d stale routes, has %d", r.name, r.stale, stale)
				}
			}
		})
	}
}

func applyStep(t *testing.T, table *Table, step string) []string {
	t.Helper()
	rd := srv6.RouteDistinguisher{7: 1}
	prefix := netip.MustParsePrefix("2001:db8::/32")
	name, rest := step[:1], step[1:]
	if strings.HasPrefix(rest, "*") {
		prefix = netip.MustParsePrefix("2001:db9::/32")
	}
	switch {
	case step == "x":
		return shown(table.Expire())
	case step == "s":
		changes, _ := table.Settle()
		return shown(changes)
	case rest == "u":
		table.Up(name)
	case rest == "m":
		table.Mature(name, table.reflector(name).session)
	case rest == "e":
		table.Synced(name)
	case rest == "d":
		return shown(table.Down(name))
	case rest == "-":
		return shown(table.Set(nil, name, wire.NLRI{RD: rd, Prefix: prefix}, unique.Handle[wire.VPNRoute]{}, false))
	case rest[0] == '+' || rest[0] == '*':
		route := unique.Make(wire.VPNRoute{Attributes: wire.Attributes{MED: uint32(rest[1] - '0')}})
		return shown(table.Set(nil, name, wire.NLRI{RD: rd, Prefix: prefix}, route, true))
	default:
		t.Fatalf("unknown step %q", step)
	}
	return nil
}

func shown(changes []Change) []string {
	var list []string
	for _, c := range changes {
		if c.Route == (unique.Handle[wire.VPNRoute]{}) {
			list = append(list, "=0")
		} else {
			list = append(list, fmt.Sprint("=", c.Route.Value().Attributes.MED))
		}
	}
	return list
}

func countStale(r *adjRIBIn) int {
	n := 0
	for _, routes := range r.routes {
		for _, rec := range routes {
			if r.isStale(rec) {
				n++
			}
		}
	}
	return n
}

func TestCompactPrefix(t *testing.T) {
	for _, s := range []string{"0.0.0.0/0", "198.51.100.0/24", "::/0", "2001:db8::/32", "::ffff:0:0/96", "2001:db8::1/128"} {
		p := netip.MustParsePrefix(s)
		if got := compact(p).prefix(); got != p {
			t.Errorf("%s became %s", p, got)
		}
	}
	if compact(netip.MustParsePrefix("0.0.0.0/0")) == compact(netip.MustParsePrefix("::ffff:0:0/96")) {
		t.Error("IPv4 default and its IPv6 mapping are one")
	}
}

// FuzzRouteKey compares prefixes with those that their keys give back.
func FuzzRouteKey(f *testing.F) {
	f.Add([]byte{192, 0, 2, 0}, 24)
	f.Add(netip.MustParseAddr("::ffff:192.0.2.0").AsSlice(), 120)
	f.Fuzz(func(t *testing.T, address []byte, bits int) {
		a, ok := netip.AddrFromSlice(address)
		if !ok {
			return
		}
		if p, err := a.Prefix(bits); err == nil && compact(p).prefix() != p {
			t.Fatalf("%s became %s", p, compact(p).prefix())
		}
	})
}
