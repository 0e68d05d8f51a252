package main_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hikyaku/egress/api"
)

// edit replaces texts of a configuration in its file.
func edit(t *testing.T, file string, pairs ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.NewReplacer(pairs...).Replace(string(text)))
}

// without returns the pairs for [edit] that take the last entry of a file away, and bring it back.
func without(t *testing.T, file, table string) (take, bring []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := string(text)[strings.LastIndex(string(text), table):]
	const mark = "# here it was"
	return []string{last, mark}, []string{mark, last}
}

// sessions returns since when each session of an agent is up.
func (l *lab) sessions(socket string) map[string]string {
	l.t.Helper()
	list, err := api.NewClient(socket).Sessions(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	since := make(map[string]string)
	for _, s := range list {
		if s.Up {
			since[s.Name] = s.Since.String()
		}
	}
	return since
}

func (l *lab) expectKept(socket string, before map[string]string, names ...string) {
	l.t.Helper()
	now := l.sessions(socket)
	for _, name := range names {
		if before[name] == "" || now[name] != before[name] {
			l.t.Errorf("the session %s was up since %q, now since %q", name, before[name], now[name])
		}
	}
}

func TestReloadAddsAndRemoves(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	takePeer, bringPeer := without(t, l.borderConfig, "[[peer]]")
	takePath, bringPath := without(t, l.serverConfig, "[[path]]")
	edit(t, l.borderConfig, takePeer...)
	edit(t, l.serverConfig, takePath...)
	l.startBorder()
	l.startServer()
	l.command(0, "announce "+clientPrefix)
	l.eventually("the client answers over the only path", func() bool { return l.ping(epe(0)) })
	atBorder, atServer := l.sessions(l.borderAPI), l.sessions(l.serverAPI)

	edit(t, l.borderConfig, bringPeer...)
	l.borderAgent.cmd.Process.Signal(syscall.SIGHUP)
	l.eventually("the border has the second peer", func() bool { return l.state(l.borderAPI, path(1)) != "" })
	l.command(1, "announce "+clientPrefix)
	l.eventually("the second peer is up", func() bool { return l.state(l.borderAPI, path(1)) == api.Up })
	edit(t, l.serverConfig, bringPath...)
	changes, err := api.NewClient(l.serverAPI).Reload(t.Context())
	if err != nil || len(changes) != 1 || changes[0] != "path transit2 is added" {
		t.Errorf("the server's reload gives %q, %v", changes, err)
	}
	l.eventually("the client answers over the second path", func() bool { return l.ping(epe(1)) })
	l.expectTransit(epe(1), 1)
	l.expectTransit(epe(0), 0)

	edit(t, l.serverConfig, takePath...)
	l.server.Run(binary, "reload", "--config", l.serverConfig)
	for _, command := range []string{"-6 rule show", "-4 rule show", "-6 route show table 10002", "addr show"} {
		if text := l.server.IP(command); strings.Contains(text, epe(1)) || strings.Contains(text, "lookup 10002") || strings.Contains(text, clientPrefix) {
			t.Errorf("after the path was removed, `ip %s` shows:\n%s", command, text)
		}
	}
	edit(t, l.borderConfig, takePeer...)
	said := l.border.Run(binary, "reload", "--config", l.borderConfig)
	if strings.TrimSpace(said) != "peer transit2 is removed" {
		t.Errorf("the removal prints %q", said)
	}
	if hasRoute(l.border, 10002, netip.MustParsePrefix(clientPrefix)) || strings.Contains(l.border.IP("-6 route show table all proto 200"), "2001:db8:b1:2::") {
		t.Errorf("the border still has state of the removed peer:\n%s", l.border.IP("-6 route show table all proto 200"))
	}
	l.expectKept(l.borderAPI, atBorder, "rr", path(0))
	l.expectKept(l.serverAPI, atServer, "rr")
	if !l.ping(epe(0)) {
		t.Error("the path that stayed does not work")
	}
	edit(t, l.borderConfig, bringPeer...)
	l.border.Run(binary, "reload", "--config", l.borderConfig)
	l.eventually("the peer is up once more", func() bool { return l.state(l.borderAPI, path(1)) == api.Up })
	l.serverAgent.stop()
	l.borderAgent.stop()
	expectNothing(t, "border", l.border)
	expectNothing(t, "server", l.server)
}

func TestReloadIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	takePeer, bringPeer := without(t, l.borderConfig, "[[peer]]")
	edit(t, l.borderConfig, takePeer...)
	l.startBorder()
	l.command(0, "announce "+clientPrefix)
	l.eventually("both sessions are up", func() bool {
		return l.state(l.borderAPI, path(0)) == api.Up && l.sessions(l.borderAPI)["rr"] != ""
	})
	l.eventually("the kernel has the announced route", func() bool {
		return hasRoute(l.border, 10001, netip.MustParsePrefix(clientPrefix))
	})
	before := l.sessions(l.borderAPI)
	state := l.border.IP("-6 route show table all proto 200")
	right, err := os.ReadFile(l.borderConfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ from, to, want string }{
		{"2001:db8:b1::/48", "2001:db8:b2::/48", "a restart is needed for a change of `srv6.locator`"},
		{"asn = 64500", "asn = 64501", "a restart is needed for a change of `asn`"},
		{`stale_time = "20s"`, `stale_time = "21s"`, "`bgp.stale_time`"},
		{"number = 2", "number = 1", "is that of"},
		{"asn = 64602", "", "`asn` is missing"},
		{`name = "rr"`, "name = ", "this is no TOML"},
		{"asn = 64602", "asn = 64602\npassword_file = '/nowhere'", "reading the BGP password"},
	} {
		edit(t, l.borderConfig, bringPeer...)
		edit(t, l.borderConfig, test.from, test.to)
		_, err := api.NewClient(l.borderAPI).Reload(t.Context())
		if !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("with %q the reload gives %v, want %q", test.to, err, test.want)
		}
		write(t, l.borderConfig, string(right))
	}
	l.expectKept(l.borderAPI, before, "rr", path(0))
	if got := l.border.IP("-6 route show table all proto 200"); got != state {
		t.Errorf("the kernel's state was\n%s\nand is now\n%s", state, got)
	}
	if l.state(l.borderAPI, path(1)) != "" {
		t.Error("a peer of a refused configuration was added")
	}
	if changes, err := api.NewClient(l.borderAPI).Reload(t.Context()); err != nil || len(changes) != 0 {
		t.Errorf("the same configuration gives %q, %v", changes, err)
	}
}

// A change of one peer closes no session but its own, and a change that needs no session none.
func TestReloadChanges(t *testing.T) {
	t.Parallel()
	l := running(t)
	before := l.sessions(l.borderAPI)
	edit(t, l.borderConfig, "asn = 64602", "asn = 64602\nhold_time = '30s'")
	said := l.border.Run(binary, "reload", "--config", l.borderConfig)
	if !strings.Contains(said, "peer transit2 is connected anew") {
		t.Errorf("another hold time prints %q", said)
	}
	l.eventually("the changed peer's path is back", func() bool { return l.state(l.borderAPI, path(1)) == api.Up })
	l.expectKept(l.borderAPI, before, "rr", path(0))
	if l.sessions(l.borderAPI)[path(1)] == before[path(1)] {
		t.Error("the changed session is the former one")
	}

	before = l.sessions(l.borderAPI)
	edit(t, l.borderConfig, "asn = 64601", "asn = 64601\ncommunities = ['64500:77']\nmax_prefixes = 1000", "[bgp]", "log.level = 'debug'\n[bgp]")
	if said := l.border.Run(binary, "reload", "--config", l.borderConfig); !strings.Contains(said, "its session stays") {
		t.Errorf("other communities print %q", said)
	}
	l.expectKept(l.borderAPI, before, "rr", path(0), path(1))
	l.eventually("the routes have the new community", func() bool {
		why, err := api.NewClient(l.serverAPI).Why(t.Context(), netip.MustParsePrefix(clientPrefix))
		return err == nil && len(why.Paths[0].Routes) == 1 && slices.Contains(why.Paths[0].Routes[0].Communities, "64500:77")
	})

	// The reflector's session begins anew, and the paths stay up meanwhile.
	edit(t, l.serverConfig, `local_address = "2001:db8:5::10"`, "local_address = '2001:db8:5::10'\nhold_time = '30s'")
	atServer := l.sessions(l.serverAPI)
	watching, end := context.WithCancel(t.Context())
	down := make(chan string, 1)
	go func() {
		for event, err := range api.NewClient(l.serverAPI).Events(watching) {
			if err != nil {
				return
			}
			if event.Path != nil && event.Path.State == api.Down {
				select {
				case down <- event.Path.Name:
				default:
				}
			}
		}
	}()
	l.server.Run(binary, "reload", "--config", l.serverConfig)
	l.eventually("the session with the reflector is a new one", func() bool {
		now := l.sessions(l.serverAPI)["rr"]
		return now != "" && now != atServer["rr"]
	})
	end()
	select {
	case name := <-down:
		t.Errorf("path %s went down", name)
	default:
	}
	for n := range l.transits {
		if !l.ping(epe(n)) {
			t.Errorf("%s does not work after the reload", path(n))
		}
	}
}

// A step that the kernel refuses undoes those before it.
func TestReloadThatTheKernelRefuses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	take, bring := without(t, l.serverConfig, "[[path]]")
	edit(t, l.serverConfig, take...)
	l.startBorder()
	l.startServer()
	l.command(0, "announce "+clientPrefix)
	l.eventually("the client answers over the only path", func() bool { return l.ping(epe(0)) })
	l.server.IP("addr add " + epe(1) + "/128 dev eth0 nodad") // somebody else's
	rules := l.server.IP("-6 rule show")

	edit(t, l.serverConfig, bring...)
	edit(t, l.serverConfig, `addresses = ["2001:db8:5::a1"]`, "addresses = ['2001:db8:5::a1']\nmark = 0x680009")
	_, err := api.NewClient(l.serverAPI).Reload(t.Context())
	if !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), epe(1)) {
		t.Errorf("the reload gives %v", err)
	}
	if l.state(l.serverAPI, path(1)) != "" {
		t.Error("the refused path is there")
	}
	if got := l.server.IP("-6 rule show"); got != rules {
		t.Errorf("the rules were\n%s\nand are now\n%s", rules, got)
	}
	if !strings.Contains(l.server.IP("addr show dev eth0"), epe(1)) {
		t.Error("the foreign address is gone")
	}
	l.eventually("the former path works again", func() bool { return l.ping(epe(0)) })
	l.server.IP("addr del " + epe(1) + "/128 dev eth0")
	if _, err := api.NewClient(l.serverAPI).Reload(t.Context()); err != nil {
		t.Errorf("with the address free, the reload gives %v", err)
	}
	l.serverAgent.stop()
	l.borderAgent.stop()
	expectNothing(t, "server", l.server)
}
