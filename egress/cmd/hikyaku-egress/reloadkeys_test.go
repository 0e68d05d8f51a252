package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

// add appends text to a configuration.
func add(t *testing.T, file, text string) {
	t.Helper()
	had, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(had)+text)
}

// reload has an agent take its configuration, and expects these changes.
func (l *lab) reload(socket string, want ...string) {
	l.t.Helper()
	changes, err := api.NewClient(socket).Reload(l.t.Context())
	if err != nil || !slices.Equal(changes, want) {
		l.t.Fatalf("the reload gives %q, %v; want %q", changes, err, want)
	}
}

// port is that of a path, as the server has it from the border; nil for none.
func (l *lab) port(n int) *api.Port {
	p, err := api.NewClient(l.serverAPI).Path(context.Background(), path(n))
	if err != nil {
		return nil
	}
	return p.Port
}

func TestReloadOfPorts(t *testing.T) {
	t.Parallel()
	l := running(t)
	atBorder, atServer := l.sessions(l.borderAPI), l.sessions(l.serverAPI)
	const table = "[[port]]\nname = \"one\"\nnumber = 7\ninterface = \"t1\"\ncapacity = \"1Gbps\"\nprice = 2\nbilling = \"p95\"\n"
	add(t, l.borderConfig, table)
	l.reload(l.borderAPI, "port one is added")
	l.eventually("the server knows the port", func() bool { p := l.port(0); return p != nil && p.Number == 7 && p.Price == 2 })
	if l.port(1) != nil {
		t.Error("the path by another interface has the port, too")
	}
	edit(t, l.borderConfig, "price = 2", "price = 3\nfill = 80")
	l.reload(l.borderAPI, "port one has other settings")
	l.eventually("the server knows the price", func() bool { p := l.port(0); return p != nil && p.Price == 3 })
	edit(t, l.borderConfig, `interface = "t1"`, `interface = "t2"`)
	l.reload(l.borderAPI, "port one has other settings")
	l.eventually("the port is that of the other path", func() bool { return l.port(0) == nil && l.port(1) != nil })
	edit(t, l.borderConfig, table, "", strings.NewReplacer("price = 2", "price = 3\nfill = 80", `"t1"`, `"t2"`).Replace(table), "")
	l.reload(l.borderAPI, "port one is removed")
	l.eventually("no path has a port", func() bool { return l.port(0) == nil && l.port(1) == nil })
	l.expectKept(l.borderAPI, atBorder, "rr", path(0), path(1))
	l.expectKept(l.serverAPI, atServer, "rr")
}

func TestReloadOfProbes(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.probed()
	before := l.sessions(l.serverAPI)
	const lossy = "pref 1 iif srv to 2001:db8:b1::/48 blackhole"
	add(t, l.serverConfig, "[probe]\ninterval = \"0s\"\n")
	l.reload(l.serverAPI, "probes have other settings")
	l.eventually("nothing is probed", func() bool { return l.probe(0) == "" && l.probe(1) == "" })
	l.border.IP("-6 rule add " + lossy)
	edit(t, l.serverConfig, `interval = "0s"`, `interval = "20ms"`)
	l.reload(l.serverAPI, "probes have other settings")
	l.eventually("what answered before is forgotten", func() bool { return l.probe(0) == "unknown" })
	l.border.IP("-6 rule del " + lossy)
	l.probed()
	edit(t, l.serverConfig, `interval = "20ms"`, "interval = \"20ms\"\nlost = 4\nhold = \"100ms\"\nmtu = false")
	l.reload(l.serverAPI, "probes have other settings")
	if l.probe(0) != "up" {
		t.Error("a change of settings forgets which SIDs answer")
	}
	l.border.IP("-6 rule add " + lossy)
	l.eventually("a dead path is down", func() bool { return l.state(l.serverAPI, path(0)) == api.Down })
	edit(t, l.serverConfig, `interval = "20ms"`, `interval = "0s"`)
	l.reload(l.serverAPI, "probes have other settings")
	l.eventually("without probes BGP counts", func() bool { return l.state(l.serverAPI, path(0)) == api.Up })
	l.expectKept(l.serverAPI, before, "rr")
}

func TestReloadOfPlain(t *testing.T) {
	t.Parallel()
	l := running(t)
	before := l.sessions(l.serverAPI)
	best := func(want string) func() bool {
		return func() bool {
			found, err := api.NewClient(l.serverAPI).Lookup(context.Background(), clientHost)
			return err == nil && found.Best == want && (want != "") == (found.BestUnknown == "")
		}
	}
	l.eventually("plain packets leave by the first peer", best(path(0)))
	l.server.IP("-6 route replace default dev eth0")
	l.eventually("how plain packets leave is not known", best(""))
	add(t, l.serverConfig, "[plain]\nborder = \"192.0.2.1\"\n")
	l.reload(l.serverAPI, "plain packets are taken to come to another border first")
	l.eventually("the configuration names the border", best(path(0)))
	edit(t, l.serverConfig, "[plain]\nborder = \"192.0.2.1\"\n", "")
	l.reload(l.serverAPI, "plain packets are taken to come to another border first")
	l.eventually("it names none", best(""))
	l.expectKept(l.serverAPI, before, "rr")
}

// A server whose paths are all of another border gets paths of this one, and loses the others.
func TestReloadOfTheFirstPathOfABorder(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	right, err := os.ReadFile(l.serverConfig)
	if err != nil {
		t.Fatal(err)
	}
	const here, other = "hksrc0000201", "hksrc0000209"
	edit(t, l.serverConfig, `border = "192.0.2.1"`, `border = "192.0.2.9"`)
	l.startBorder()
	l.startServer()
	for n := range l.transits {
		l.command(n, "announce "+clientPrefix)
		l.eventually("the border has "+path(n), func() bool { return l.state(l.borderAPI, path(n)) == api.Up })
	}
	l.eventually("the reflector's session is up", func() bool { return l.sessions(l.serverAPI)["rr"] != "" })
	before := l.sessions(l.serverAPI)

	l.server.IP("addr add " + epe(1) + "9/128 dev eth0 nodad") // somebody else's
	write(t, l.serverConfig, strings.Replace(string(right), epe(1), epe(1)+"9", 1))
	if _, err := api.NewClient(l.serverAPI).Reload(t.Context()); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), epe(1)+"9") {
		t.Errorf("an address that is taken gives %v", err)
	}
	if links := l.server.IP("link show"); strings.Contains(links, here) || !strings.Contains(links, other) {
		t.Errorf("a refused reload leaves the devices\n%s", links)
	}
	l.server.IP("addr del " + epe(1) + "9/128 dev eth0")
	write(t, l.serverConfig, string(right))
	l.reload(l.serverAPI, "path transit1 has other settings", "path transit2 has other settings",
		"border 192.0.2.9 has no path any more", "border 192.0.2.1 has its first path",
		"path transit1 is made anew", "path transit2 is made anew")
	if links := l.server.IP("link show"); !strings.Contains(links, here) || strings.Contains(links, other) {
		t.Errorf("the reload leaves the devices\n%s", links)
	}
	for n := range l.transits {
		l.eventually("the client answers over "+path(n), func() bool { return l.ping(epe(n)) })
		l.expectTransit(epe(n), n)
	}
	l.probed()
	l.eventually("it is known how plain packets leave", func() bool {
		found, err := api.NewClient(l.serverAPI).Lookup(context.Background(), clientHost)
		return err == nil && found.Best == path(0)
	})
	l.expectKept(l.serverAPI, before, "rr")
	l.serverAgent.stop()
	expectNothing(t, "server", l.server)
}

// A peer's routes come by BMP from one reload to the next. The other peer's session stays.
func TestReloadOfBMP(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for n := range l.transits {
		l.border.IP(fmt.Sprintf("addr add 2001:db8:a%d::3/64 dev t%[1]d nodad preferred_lft 0", n+1))
	}
	(&gobgp{}).start(t, l.border, [2]int{110, 120})
	l.run()
	before := l.sessions(l.borderAPI)
	own, err := os.ReadFile(l.borderConfig)
	if err != nil {
		t.Fatal(err)
	}
	const peer = "name = \"transit2\"\n"
	const bmp = "[bmp]\nlisten = [\"[" + station + "]:11019\"]\nrouters = [\"" + station + "\"]\n"
	edit(t, l.borderConfig, peer, peer+"routes = \"bmp\"\n")
	add(t, l.borderConfig, "[[port]]\nname = \"one\"\nnumber = 7\ninterface = \"t1\"\ncapacity = \"1Gbps\"\n"+strings.Replace(bmp, station, "2001:db8:dead::1", 1))
	if _, err := api.NewClient(l.borderAPI).Reload(t.Context()); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "2001:db8:dead::1") {
		t.Errorf("an address of nobody gives %v", err)
	}
	l.eventually("the refused reload leaves the peer's own session", func() bool { return l.session(path(1)) == "up" })

	write(t, l.borderConfig, strings.Replace(string(own), peer, peer+"routes = \"bmp\"\n", 1)+bmp)
	l.reload(l.borderAPI, "peer transit2 has other settings", "BMP has other settings", "peer transit2 is connected anew")
	l.eventually("the peer's routes come by BMP", func() bool { return l.session(path(1)) == "up" && l.state(l.serverAPI, path(1)) == api.Up })
	l.expectTransit(epe(1), 1)
	byBMP := l.sessions(l.borderAPI)
	edit(t, l.borderConfig, "[bmp]\n", "[bmp]\ndead_time = \"30s\"\n")
	l.reload(l.borderAPI, "BMP has other settings")
	l.expectKept(l.borderAPI, byBMP, path(1))

	// A router reports a peer once. It does so again for one that is configured later.
	with, without := strings.Replace(string(own), peer, peer+"routes = \"bmp\"\n", 1)+bmp, string(own[:strings.LastIndex(string(own), "[[peer]]")])+bmp
	write(t, l.borderConfig, without)
	l.reload(l.borderAPI, "peer transit2 is removed", "BMP has other settings")
	write(t, l.borderConfig, with)
	l.reload(l.borderAPI, "peer transit2 is added")
	l.eventually("a peer that is added later is reported", func() bool {
		// GoBGP notices the end of a connection when it has something to send.
		l.command(0, "announce 2001:db8:c:1::/64")
		l.command(0, "withdraw 2001:db8:c:1::/64")
		return l.session(path(1)) == "up" && l.state(l.serverAPI, path(1)) == api.Up
	})

	write(t, l.borderConfig, string(own))
	l.reload(l.borderAPI, "peer transit2 has other settings", "BMP has other settings", "peer transit2 is connected anew")
	l.eventually("the peer has a session again", func() bool { return l.session(path(1)) == "up" && l.state(l.serverAPI, path(1)) == api.Up })
	if strings.Contains(l.border.Run("ss", "-tln"), ":11019") {
		t.Error("the border still waits for BMP routers")
	}
	l.expectKept(l.borderAPI, before, "rr", path(0))
}

// Settings that an agent takes with the file as a whole are reported, too.
func TestReloadReportsSettings(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.startBorder()
	l.eventually("the agent answers", func() bool { return l.state(l.borderAPI, path(0)) != "" })
	edit(t, l.borderConfig, "martians = true", "martians = true\nas_sets = true", "[bgp]", "log.level = \"debug\"\n[bgp]")
	add(t, l.borderConfig, "[flows]\ninterfaces = [\"t1\"]\nplain = true\n")
	l.reload(l.borderAPI, "the log level is debug", "`flows.interfaces` counts when `hikyaku-egress flows` starts again",
		"`flows.plain` counts when `hikyaku-egress flows` starts again", "all routes of peers are judged by the new import policy")
}
