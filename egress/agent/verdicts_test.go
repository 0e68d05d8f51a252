package agent

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/mptcp"
)

func TestVerdicts(t *testing.T) {
	const asked = "2001:db8:c::/48"
	wide, part := netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2001:db8:c:1::/64")
	other := netip.MustParsePrefix("2001:db9::/32")
	clients := func(list ...netip.Prefix) api.List[netip.Prefix] { return list }
	for _, c := range []struct {
		name     string
		policies []api.Policy
		as       uint32
		want     string
	}{
		{"no policy", nil, 0, ""},
		{"for everybody", []api.Policy{{Name: "p", Mode: api.Plain}}, 0, "p plain"},
		{"for others", []api.Policy{{Name: "p", Mode: api.Plain, Clients: clients(other), ASNs: []uint32{64998}}}, 64999, ""},
		{"its paths", []api.Policy{{Name: "p", Mode: api.Aggregated, Paths: []string{"a", "b"}, Backup: []string{"b"}, Clients: clients(wide)}}, 0,
			"p aggregated paths a,b backup b"},
		{"by order, not by name", []api.Policy{
			{Name: "a", Order: 2, Mode: api.Plain}, {Name: "b", Order: 1, Mode: api.Steered, ASNs: []uint32{64999}, Classes: []string{"live"}},
		}, 64999, "b steered classes live; a plain"},
		{"none behind one for everything", []api.Policy{
			{Name: "a", Mode: api.Plain, Clients: clients(wide)}, {Name: "b", Mode: api.Steered},
		}, 0, "a plain"},
		{"for a part", []api.Policy{{Name: "a", Mode: api.Plain, Clients: clients(part, other)}, {Name: "b", Mode: api.Steered}}, 0,
			"a plain clients 2001:db8:c:1::/64; b steered"},
	} {
		var v verdicts
		var got []string
		for _, verdict := range v.of(c.policies, netip.MustParsePrefix(asked), c.as) {
			got = append(got, showVerdict(verdict))
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func showVerdict(v api.Verdict) string {
	text := v.Policy + " " + string(v.Mode)
	add := func(what string, list []string) {
		if len(list) > 0 {
			text += " " + what + " " + strings.Join(list, ",")
		}
	}
	var clients []string
	for _, p := range v.Clients {
		clients = append(clients, p.String())
	}
	add("clients", clients)
	add("classes", v.Classes)
	add("paths", v.Paths)
	add("backup", v.Backup)
	return text
}

// Another list of settings has other policies.
func TestVerdictsFollowTheSettings(t *testing.T) {
	var v verdicts
	client := netip.MustParsePrefix("192.0.2.0/24")
	for i, list := range [][]api.Policy{nil, {{Name: "a", Mode: api.Plain}}, {{Name: "b", Mode: api.Plain}}, nil} {
		for range 2 {
			got := v.of(list, client, 0)
			if len(got) != len(list) || len(got) > 0 && got[0].Policy != list[0].Name {
				t.Errorf("list %d: verdicts %v", i, got)
			}
		}
	}
}

// The policy that a look-up's verdicts put in force for a client and a class is the one that
// MPTCP obeys.
func TestMPTCPObeysTheVerdicts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	client := func() netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, byte(random.IntN(2)), 0, byte(random.IntN(4)), 15: byte(random.IntN(3))})
	}
	classes := []string{"", "bulk", "live"}
	for range 300 {
		var list []api.Policy
		for i := range 1 + random.IntN(6) {
			p := api.Policy{Name: fmt.Sprint("p", i), Order: int32(random.IntN(3)), Mode: api.Plain}
			for range random.IntN(3) {
				prefix, _ := client().Prefix([]int{32, 48, 64, 128}[random.IntN(4)])
				p.Clients = append(p.Clients, prefix)
			}
			if random.IntN(4) == 0 {
				p.ASNs = []uint32{64998 + uint32(random.IntN(2))}
			}
			if class := classes[random.IntN(3)]; class != "" {
				p.Classes = []string{class}
			}
			list = append(list, p)
		}
		policy, err := mptcp.NewPolicy(nil, rules(list, nil))
		if err != nil {
			t.Fatal(err)
		}
		var v verdicts
		for range 20 {
			c := client()
			asked, _ := c.Prefix(48)
			class, as := classes[random.IntN(3)], 64998+uint32(random.IntN(3))
			want := ""
			if i := slices.IndexFunc(v.of(list, asked, as), func(v api.Verdict) bool { return fits(v, c, class) }); i >= 0 {
				want = v.of(list, asked, as)[i].Policy
			}
			connection := mptcp.Connection{ServerSide: true, Remote: netip.AddrPortFrom(c, 50000), Hint: mptcp.Hint{Class: class}}
			if got := policy.Decide(&connection, nil, mptcp.Routes{AS: as}).Rule; got != want {
				t.Fatalf("client %s in AS %d, class %q: MPTCP obeys %q, the verdicts say %q; policies %+v", c, as, class, got, want, list)
			}
		}
	}
}

func fits(v api.Verdict, client netip.Addr, class string) bool {
	in := len(v.Clients) == 0
	for _, p := range v.Clients {
		in = in || p.Contains(client)
	}
	of := len(v.Classes) == 0
	for _, name := range v.Classes {
		of = of || name == class
	}
	return in && of
}
