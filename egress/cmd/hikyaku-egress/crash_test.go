package main_test

import (
	"context"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"hikyaku/egress/api"
)

// TestCrashOfServer kills the server's agent, lets routes change meanwhile, and
// starts it again.
func TestCrashOfServer(t *testing.T) {
	t.Parallel()
	l := running(t)
	const other = "2001:db8:c::/47"
	l.command(1, "announce "+other)
	l.eventually("a second prefix is there", func() bool { return hasRoute(l.server, 10002, netip.MustParsePrefix(other)) })
	l.serverAgent.kill()
	for n := range l.transits {
		l.expectTransit(epe(n), n)
	}
	l.command(1, "withdraw "+other)
	l.startServer()
	l.expectTransit(epe(1), 1)
	l.eventually("what was withdrawn during the crash goes at the End-of-RIB", func() bool {
		return !hasRoute(l.server, 10002, netip.MustParsePrefix(other))
	})
	l.expectTransit(epe(1), 1)
}

// TestCrashOfBorder kills the border's agent, lets routes change meanwhile, and
// starts it again.
func TestCrashOfBorder(t *testing.T) {
	t.Parallel()
	l := running(t)
	const other = "2001:db8:c::/47"
	l.command(1, "announce "+other)
	l.eventually("a second prefix is there", func() bool { return hasRoute(l.border, 10002, netip.MustParsePrefix(other)) })
	l.borderAgent.kill()
	for n := range l.transits {
		l.expectTransit(epe(n), n)
	}
	l.command(1, "withdraw "+other)
	l.startBorder()
	l.eventually("what was withdrawn during the crash goes at the End-of-RIB", func() bool {
		return !hasRoute(l.border, 10002, netip.MustParsePrefix(other))
	})
	l.eventually("what was not goes on", func() bool { return l.ping(epe(1)) })
	for n := range l.transits {
		l.eventually(path(n)+" is up", func() bool { return l.state(l.borderAPI, path(n)) == api.Up })
		l.expectTransit(epe(n), n)
	}
}

// TestCrashWhilePeerIsLost starts a border again whose peer went away meanwhile.
func TestCrashWhilePeerIsLost(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.borderAgent.kill()
	l.transits[1].cmd.Process.Kill()
	l.startBorder()
	l.eventually("a peer that does not come back is lost after bgp.stale_time", func() bool {
		return !hasRoute(l.border, 10002, netip.MustParsePrefix(clientPrefix))
	})
	if l.ping(epe(1)) {
		t.Error("a packet got through by the path of a lost peer")
	}
	l.eventually("the other path works", func() bool { return l.ping(epe(0)) })
}

// TestNightlyCrashesAtAnyMoment kills both agents again and again at different moments,
// while routes come and go. Then it looks whether all is as it should be.
func TestNightlyCrashesAtAnyMoment(t *testing.T) {
	l := running(t)
	for round := range 6 {
		wait := time.Duration(round) * 70 * time.Millisecond
		l.command(0, "bulk 3000")
		l.command(1, "withdraw "+clientPrefix)
		time.Sleep(wait) // the moment of the crash, not a wait for something
		l.borderAgent.kill()
		l.serverAgent.kill()
		l.command(1, "announce "+clientPrefix)
		l.startServer()
		l.startBorder()
		time.Sleep(wait)
	}
	for n := range l.transits {
		l.eventually(path(n)+" works", func() bool { return l.ping(epe(n)) })
		l.expectTransit(epe(n), n)
	}
	l.eventually("every route of the first transit is at the server", func() bool { return l.routes(0) == 3001 })
	l.eventually("no other is at the second", func() bool { return l.routes(1) == 1 })
}

// routes counts our routes in the server's table of a path.
func (l *lab) routes(n int) int {
	return strings.Count(l.server.IP("-6 route show table "+[]string{"10001", "10002"}[n]+" proto 200"), "\n")
}

func TestDrain(t *testing.T) {
	t.Parallel()
	l := running(t)
	at := func(socket string, args ...string) string {
		t.Helper()
		out, err := exec.Command(binary, append([]string{"paths", "--socket", socket}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("paths %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	if out := at(l.serverAPI, "drain", path(1), "fibre", "work"); !strings.Contains(out, "draining") || !strings.Contains(out, "fibre work") {
		t.Errorf("drain prints %q", out)
	}
	l.expectTransit(epe(1), 1) // connections that use it go on
	l.serverAgent.kill()
	l.startServer()
	l.eventually("a drain survives a crash", func() bool { return l.state(l.serverAPI, path(1)) == api.Draining })
	at(l.serverAPI, "undrain", path(1))
	l.eventually("the path is up again", func() bool { return l.state(l.serverAPI, path(1)) == api.Up })

	at(l.borderAPI, "drain", path(0))
	l.eventually("servers hear of a border's drain", func() bool { return l.state(l.serverAPI, path(0)) == api.Draining })
	l.expectTransit(epe(0), 0)
	at(l.borderAPI, "undrain", path(0))
	l.eventually("and of its end", func() bool { return l.state(l.serverAPI, path(0)) == api.Up })

	out := at(l.serverAPI, clientAddr)
	for _, want := range []string{"transit1", "transit2", "2001:db8:c::/48", "64601 65601", "64602 65602"} {
		if !strings.Contains(out, want) {
			t.Errorf("the lookup of the client lacks %q:\n%s", want, out)
		}
	}
	if out := at(l.serverAPI, "2001:db8:d::1"); !strings.Contains(out, "no path reaches") {
		t.Errorf("the lookup of a stranger prints %q", out)
	}
}

func TestPoliciesSurvive(t *testing.T) {
	t.Parallel()
	l := running(t)
	ctx := context.Background()
	client := api.NewClient(l.serverAPI)
	policy := api.Policy{Name: "bulk", Mode: api.Aggregated, Classes: []string{"bulk"}, ASNs: []uint32{65601}, Paths: []string{path(0)}}
	if err := client.SetPolicy(ctx, policy); err != nil {
		t.Fatal(err)
	}
	if err := client.SetPolicy(ctx, api.Policy{Name: "wrong", Mode: api.Plain, Paths: []string{"nobody"}}); err == nil {
		t.Error("a policy for a path that is not there is accepted")
	}
	l.serverAgent.kill()
	l.startServer()
	l.eventually("a policy survives a crash", func() bool {
		policies, err := client.Policies(ctx)
		return err == nil && len(policies) == 1 && policies[0].Name == "bulk" && slices.Equal(policies[0].ASNs, policy.ASNs)
	})
}
