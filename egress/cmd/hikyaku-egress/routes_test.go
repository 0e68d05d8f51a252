package main_test

import (
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

func TestRoutesAreExplained(t *testing.T) {
	t.Parallel()
	l := running(t)
	client := netip.MustParsePrefix(clientPrefix)
	l.command(1, "announce 2001:db8::/32")
	l.eventually("the server has the shorter prefix", func() bool { return l.reached(1) == 2 })
	border, server := api.NewClient(l.borderAPI), api.NewClient(l.serverAPI)

	why, err := border.Why(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if why.Plain.Path != path(0) || !strings.Contains(why.Plain.Reason, "2001:db8:a1::1 on t1") {
		t.Errorf("plain packets at the border take %+v", why.Plain)
	}
	if got := why.Paths[1].Routes; len(got) != 2 || got[0].Prefix != client || got[1].Prefix.Bits() != 32 || got[0].State != api.RouteUsed ||
		got[0].Interface != "t2" || got[0].NextHop.String() != "2001:db8:a2::1" || len(got[0].ASPath) != 2 || got[0].ASPath[0] != 64602 {
		t.Errorf("the border's routes of the second peer are %+v", got)
	}
	if _, err := server.Drain(t.Context(), path(1), "test"); err != nil {
		t.Fatal(err)
	}
	if err := server.SetPolicy(t.Context(), api.Policy{Name: "film", Mode: api.Steered, Clients: []netip.Prefix{client}}); err != nil {
		t.Fatal(err)
	}
	why, err = server.Why(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if got := why.Paths[0]; got.State != api.Up || !strings.Contains(got.Reason, "reaches the client") || got.Routes[0].SID.String() != "2001:db8:b1:1::" {
		t.Errorf("the server's first path is %+v", got)
	}
	if got := why.Paths[1]; got.State != api.Draining || got.Routes[0].State != api.RouteDraining || got.Routes[0].Reason != "an operator drains it" {
		t.Errorf("the drained path is %+v", got)
	}
	if len(why.Policies) != 1 || why.Policies[0].Policy != "film" {
		t.Errorf("the policies are %+v", why.Policies)
	}
	list, err := server.Routes(t.Context(), netip.Prefix{}, 2)
	if err != nil || list.Total != 3 || len(list.Routes) != 2 || list.Routes[0].Prefix.Bits() != 32 {
		t.Errorf("two of three routes are %+v, %v", list, err)
	}
	said := l.server.Run(binary, "why", "--config", l.serverConfig, clientAddr)
	for _, want := range []string{"policy film: steered", "path transit2, draining", "2001:db8:b1:2::"} {
		if !strings.Contains(said, want) {
			t.Errorf("`why` does not say %q:\n%s", want, said)
		}
	}
	if said := l.border.Run(binary, "show", "--config", l.borderConfig, "routes", "2001:db8:c::/48"); strings.Count(said, "used") != 3 {
		t.Errorf("`show routes` says:\n%s", said)
	}
}

// Routes that are not used have their reason.
func TestUnusedRoutesAreExplained(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	edit(t, l.serverConfig, `locators = ["2001:db8:b1::/48"]`, `locators = ["2001:db8:b9::/48"]`)
	l.startBorder()
	l.startServer()
	l.command(0, "announce "+clientPrefix)
	l.eventually("the border has the route", func() bool { return l.state(l.borderAPI, path(0)) == api.Up })
	client := netip.MustParsePrefix(clientPrefix)
	state := func(socket string) (api.RouteState, string) {
		why, err := api.NewClient(socket).Why(t.Context(), client)
		if err != nil || len(why.Paths[0].Routes) != 1 {
			return "", ""
		}
		return why.Paths[0].Routes[0].State, why.Paths[0].Routes[0].Reason
	}
	l.eventually("the server refuses a route by its locator", func() bool {
		got, reason := state(l.serverAPI)
		return got == api.RouteRefused && strings.Contains(reason, "srv6.locators")
	})
	// Other locators take effect without a session's end.
	before := l.sessions(l.serverAPI)
	edit(t, l.serverConfig, `"2001:db8:b9::/48"`, `"2001:db8:b9::/48", "2001:db8:b1::/48"`)
	l.server.Run(binary, "reload", "--config", l.serverConfig)
	l.eventually("the server takes it by other locators", func() bool { got, _ := state(l.serverAPI); return got == api.RouteUsed })
	l.expectKept(l.serverAPI, before, "rr")
	// A next hop that is gone.
	l.border.IP("addr del 2001:db8:a1::2/64 dev t1")
	l.eventually("the border says that nothing leads to the next hop", func() bool {
		got, reason := state(l.borderAPI)
		return got == api.RouteUnreachable && strings.Contains(reason, "network is unreachable")
	})
}
