package main_test

import (
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/netnstest"
)

// ours is both agents' state in the kernel, line by line in no order.
func (l *lab) ours() string {
	var all []string
	for _, ns := range []*netnstest.NS{l.server, l.border} {
		for _, line := range []string{
			"-6 rule show", "-4 rule show", "nexthop show proto 200", "-6 route show table all proto 200", "-6 addr show to 2001:db8:5::a0/124",
		} {
			all = append(all, slices.Collect(strings.Lines(ns.IP(line)))...)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// TestRemovalsByOthersAreUndone does to the agents' state what systemd-networkd does at
// its restart: packets from an EPE address must take their path again, or none.
func TestRemovalsByOthersAreUndone(t *testing.T) {
	t.Parallel()
	l := running(t)
	before := l.ours()
	for _, removal := range []struct {
		name  string
		ns    *netnstest.NS
		lines []string
	}{
		{"rules of the server", l.server, []string{"-6 rule flush protocol 200", "-4 rule flush protocol 200"}},
		{"an EPE address of the server", l.server, []string{"-6 addr del " + epe(0) + "/128 dev eth0"}},
		{"nexthops of the server", l.server, []string{"nexthop flush protocol 200"}},
		{"a table of the border", l.border, []string{"-6 route del " + clientPrefix + " table 10001 proto 200"}},
		{"a SID and the locator of the border", l.border, []string{"-6 route del 2001:db8:b1:1::/128 proto 200", "-6 route del 2001:db8:b1::/48 proto 200"}},
		{"nexthops of the border", l.border, []string{"nexthop flush protocol 200"}},
	} {
		for _, line := range removal.lines {
			removal.ns.IP(line)
		}
		if l.ours() == before {
			t.Logf("%s were put back before anybody looked", removal.name)
		}
		l.eventually(removal.name+" are put back", func() bool { return l.ours() == before })
	}
	for n := range l.transits {
		// Probes may have missed the SID meanwhile.
		l.eventually("the client answers over "+path(n)+" again", func() bool { return l.ping(epe(n)) })
		l.expectTransit(epe(n), n)
	}
}
