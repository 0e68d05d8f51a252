package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/mptcp"
)

func TestRules(t *testing.T) {
	paths := []config.Path{{Name: "a"}, {Name: "b", Backup: true}, {Name: "c"}}
	wide, narrow := netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2001:db8:c::/48")
	for _, test := range []struct {
		name     string
		policies []api.Policy
		// want is what the rules say of a prefix and a class: "plain" or the paths,
		// those for backup with a star.
		want map[string]string
	}{
		{"no policy: all paths", nil, map[string]string{"all/": "a b* c"}},
		{"one for everybody", []api.Policy{{Name: "p", Mode: api.Plain}}, map[string]string{"all/": "plain"}},
		{"steering is not MPTCP's", []api.Policy{{Name: "p", Mode: api.Steered}}, map[string]string{"all/": "plain"}},
		{"some paths, one for backup", []api.Policy{{Name: "p", Mode: api.Aggregated, Paths: []string{"a"}, Backup: []string{"c"}}},
			map[string]string{"all/": "a c*"}},
		{"one for a class", []api.Policy{{Name: "p", Mode: api.Plain, Classes: []string{"live"}}},
			map[string]string{"all/": "a b* c", "all/live": "plain"}},
		{"one for clients", []api.Policy{{Name: "p", Mode: api.Plain, Clients: []netip.Prefix{narrow}}},
			map[string]string{"all/": "a b* c", "2001:db8:c::/48/": "plain"}},
		{"the first by order counts, not the longest prefix", []api.Policy{
			{Name: "narrow", Order: 2, Mode: api.Plain, Clients: []netip.Prefix{narrow}},
			{Name: "wide", Order: 1, Mode: api.Aggregated, Paths: []string{"a"}, Clients: []netip.Prefix{wide}},
		}, map[string]string{"2001:db8:c::/48/": "a", "2001:db8::/32/": "a", "all/": "a b* c"}},
		{"of one order the first by name", []api.Policy{
			{Name: "z", Mode: api.Plain}, {Name: "y", Mode: api.Aggregated, Paths: []string{"c"}},
		}, map[string]string{"all/": "c"}},
	} {
		list := rules(test.policies, paths)
		if _, err := mptcp.NewPolicy(nil, list); err != nil {
			t.Errorf("%s: the rules are refused: %v", test.name, err)
		}
		got := map[string]string{}
		for _, r := range list {
			got[key(r)] = uses(r)
		}
		for key, want := range test.want {
			if got[key] != want {
				t.Errorf("%s: for %s the rules say %q, want %q", test.name, key, got[key], want)
			}
		}
	}
}

func key(r mptcp.Rule) string {
	clients := "all"
	if len(r.Clients) > 0 {
		clients = r.Clients[0].String()
	}
	return fmt.Sprintf("%s/%s", clients, r.Class)
}

func uses(r mptcp.Rule) string {
	if r.Mode == mptcp.Plain {
		return "plain"
	}
	var words []string
	for _, u := range r.Paths {
		word := u.Path
		if u.Backup {
			word += "*"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
