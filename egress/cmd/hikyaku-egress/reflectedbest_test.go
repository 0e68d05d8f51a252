package main_test

import (
	"fmt"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

// reflectorSays has the reflector, which is gobgpd, prefer a next hop for the client's prefix.
func (l *lab) reflectorSays(words ...string) {
	l.t.Helper()
	args := append([]string{"-u", "::1", "-p", "50051", "global", "rib"}, words...)
	l.eventually("gobgpd takes "+strings.Join(words, " "), func() bool {
		return l.reflector.Command(l.t.Context(), "gobgp", args...).Run() == nil
	})
}

// TestPlainByTheReflectorsBestPath: the server's main table leads to a router that is no border,
// and the reflector knows where its packets leave.
func TestPlainByTheReflectorsBestPath(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for n := range l.transits {
		number := fmt.Sprintf("number = %d\n", n+1)
		edit(t, l.serverConfig, number, number+fmt.Sprintf("next_hops = [\"2001:db8:a%d::1\"]\n", n+1))
	}
	l.run()
	says := func(why, want string) {
		t.Helper()
		l.eventually(why+": "+want, func() bool { return strings.HasPrefix(l.plain(), want) })
	}
	l.server.IP("-6 route add " + clientPrefix + " via fe80::1 dev eth0") // the reflector stays within reach
	const unseen = "unknown: the next hop of the server's main table, fe80::1 on eth0, is no address of a border; `plain.border` can name one"
	says("without best paths", unseen)
	edit(t, l.serverConfig, "[srv6]\n", "[plain]\nreflectors = [\"rr\"]\n[srv6]\n")
	changes, err := api.NewClient(l.serverAPI).Reload(t.Context())
	if err != nil || len(changes) != 2 || changes[1] != "reflector rr is connected anew" {
		t.Fatalf("the reload gives %q, %v", changes, err)
	}
	says("the reflector has none", unseen+"; reflector rr has no best path for the client")
	for n := range l.transits {
		l.reflectorSays("add", "-a", "ipv6", clientPrefix, "nexthop", fmt.Sprintf("2001:db8:a%d::1", n+1))
		says("by the peer's address", path(n))
	}
	l.reflectorSays("add", "-a", "ipv6", clientPrefix, "nexthop", "2001:db8:5::1")
	says("with next-hop-self, by the border's main table", path(0))
	l.reflectorSays("add", "-a", "ipv6", clientPrefix, "nexthop", "2001:db8:ffff::1")
	says("a next hop of nobody", unseen+"; the next hop of reflector rr's best path, 2001:db8:ffff::1, is no address of a border")
	l.reflectorSays("del", "-a", "ipv6", clientPrefix)
	says("none any more", unseen+"; reflector rr has no best path for the client")
	for n := range l.transits {
		if !l.ping(epe(n)) {
			t.Errorf("%s does not carry packets beside the best paths", path(n))
		}
	}
}
