package main_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

// TestInterfaceDown takes away the device that a peer is on. The kernel removes the
// peer's routes then silently, and BGP would need its hold time to notice.
func TestInterfaceDown(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.border.IP("link set t2 down")
	l.eventually("the peer is out of use", func() bool { return l.state(l.serverAPI, path(1)) == api.Down })
	l.expectTransit(epe(0), 0)
	l.border.IP("link set t2 up")
	l.border.IP("addr add 2001:db8:a2::2/64 dev t2 nodad") // the kernel took it with the device
	l.eventually("the peer is in use again", func() bool { return l.ping(epe(1)) })
	l.expectTransit(epe(1), 1)
}

// TestServerInterfaceDown takes away the device that has the EPE addresses.
func TestServerInterfaceDown(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.server.IP("link set eth0 down")
	l.server.IP("link set eth0 up")
	l.server.IP("addr replace " + plainAddr + "/64 dev eth0 nodad")
	l.server.IP("-6 route replace default via 2001:db8:5::1")
	for n := range l.transits {
		l.eventually("the EPE addresses are back", func() bool { return l.ping(epe(n)) })
	}
}

// TestNightlyLostReflector keeps routes for bgp.stale_time, and drops those of a border
// that nothing leads to.
func TestNightlyLostReflector(t *testing.T) {
	l := running(t)
	l.reflector.IP("link set eth0 down")
	l.eventually("the session is down", func() bool {
		sessions, err := api.NewClient(l.serverAPI).Sessions(context.Background())
		return err == nil && !sessions[0].Up
	})
	l.expectTransit(epe(1), 1)
	l.server.IP("-6 route add unreachable 2001:db8:b1::/48")
	l.eventually("paths of a border that cannot be reached are down", func() bool { return l.state(l.serverAPI, path(1)) == api.Down })
	l.server.IP("-6 route del unreachable 2001:db8:b1::/48")
	l.eventually("and up when it can be", func() bool { return l.state(l.serverAPI, path(1)) == api.Up })
	l.eventually("routes go when the time is over", func() bool { return l.state(l.serverAPI, path(1)) == api.Down })
}

// TestMarks moves packets by their mark, and leaves those to strangers alone.
func TestMarks(t *testing.T) {
	t.Parallel()
	l := running(t)
	mark := func() string {
		return l.server.IP("-6 route get " + clientAddr + " mark 0x680002")
	}
	if out := mark(); !strings.Contains(out, "hksrc0000201") {
		t.Errorf("a marked packet to the client takes %s", out)
	}
	l.command(1, "withdraw "+clientPrefix)
	l.eventually("a marked packet to who is not reached takes the plain way", func() bool {
		return strings.Contains(mark(), "via 2001:db8:5::1 dev eth0")
	})
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.command(0, "announce "+clientPrefix)
	l.command(1, "announce "+clientPrefix)
	out := l.border.Run(binary, "border", "--config", l.borderConfig, "--dry-run")
	for _, want := range []string{
		"blackhole 2001:db8:b1::/48", "End.DT6 table 10001", clientPrefix,
		"# announce 192.0.2.1:2 via SID 2001:db8:b1:2::: " + clientPrefix, "sysctl -w net.ipv6.conf.srv.seg6_enabled=1",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the dry run of a border lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	expectNothing(t, "border", l.border)

	l.startBorder()
	l.eventually("the border has its peers", func() bool {
		return l.state(l.borderAPI, path(0)) == api.Up && l.state(l.borderAPI, path(1)) == api.Up
	})
	netnstest.Eventually(t, "the dry run of a server sees both paths", func() bool {
		out = l.server.Run(binary, "server", "--config", l.serverConfig, "--dry-run")
		return strings.Contains(out, "segs 1 [ 2001:db8:b1:2:: ]") || strings.Contains(out, "segs 2001:db8:b1:2::")
	})
	for _, want := range []string{"rule add pref 10000 from 2001:db8:5::a1/128 lookup 10001", "tunsrc", clientPrefix} {
		if !strings.Contains(out, want) {
			t.Errorf("the dry run of a server lacks %q:\n%s", want, out)
		}
	}
	expectNothing(t, "server", l.server)
}

// TestDryRunIsSilent makes a dry run of an agent that is a border router by itself, and
// looks whether anybody hears of a route.
func TestDryRunIsSilent(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const own = "2001:db8:5::/48"
	write(t, l.borderConfig, strings.Replace(fmt.Sprintf(borderTOML, l.borderAPI, t.TempDir()), "stale_time = \"20s\"", "stale_time = \"4s\"", 1)+`
[[peer]]
name = "nobody" # so that the dry run lasts
number = 3
address = "2001:db8:a2::77"
asn = 64777
[router]
best_paths = true
announce = ["`+own+`"]
`)
	l.command(0, "announce "+clientPrefix)
	dry := l.border.Command(t.Context(), binary, "border", "--config", l.borderConfig, "--dry-run")
	var out bytes.Buffer
	dry.Stdout = &out
	if err := dry.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- dry.Wait() }()
	for over := false; !over; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		case <-time.After(200 * time.Millisecond):
			for _, family := range []string{"ipv6", "vpnv6"} {
				if rib := l.reflector.Run("gobgp", "-u", "::1", "global", "rib", "-a", family); !strings.Contains(rib, "not in table") {
					t.Fatalf("the reflector has %s routes during a dry run:\n%s", family, rib)
				}
			}
		}
	}
	for n := range l.transits {
		if heard := l.command(n, "heard").UnixNano(); heard != 0 {
			t.Errorf("%s heard of %d routes", path(n), heard)
		}
	}
	for _, want := range []string{
		"# announce " + own + " to peer transit1", "# announce " + own + " to the reflectors",
		"# announce " + clientPrefix + " of peer transit1 to the reflectors",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the dry run lacks %q:\n%s", want, out.String())
		}
	}
	expectNothing(t, "border", l.border)
}
