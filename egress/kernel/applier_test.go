package kernel

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hikyaku/egress/netnstest"
)

func TestAppliedStateIsReadBack(t *testing.T) {
	a := open(t, netnstest.New(t, "roundtrip"), Options{})
	want := everything()
	reach(t, a, want)
	expect(t, "applied to an empty kernel", a, want)
	reach(t, a, want)
	expect(t, "applied again", a, want)
	reach(t, a, State{})
	expect(t, "taken away", a, State{})
}

// The commands of a dry run do what the applier does, as ip(8) itself shows it.
func TestPrintedCommandsMakeTheSameState(t *testing.T) {
	byApplier, byCommands := netnstest.New(t, "applier"), netnstest.New(t, "commands")
	a, other := open(t, byApplier, Options{}), open(t, byCommands, Options{})
	show := func(ns *netnstest.NS) string {
		var all strings.Builder
		for _, line := range []string{
			"-6 route show table all proto 200", "-4 route show table all proto 200",
			"-6 rule show", "-4 rule show", "nexthop show", "-6 addr show dev anchor", "-4 addr show dev anchor", "sr tunsrc show",
		} {
			all.WriteString(ns.IP(line))
		}
		return all.String()
	}
	have := State{}
	for _, want := range []State{everything(), {TunnelSource: TunnelSource{addr("2001:db8::2")}}} {
		ops := Diff(have, want)
		apply(t, a, ops)
		var script bytes.Buffer
		if err := other.Print(&script, ops); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(script.String()) {
			byCommands.IP(strings.TrimPrefix(strings.TrimSpace(line), "ip "))
		}
		if got, want := show(byCommands), show(byApplier); got != want {
			t.Errorf("the commands made\n%s\nthe applier made\n%s", got, want)
		}
		have = want
	}
}

func TestRandomStatesAreReached(t *testing.T) {
	a := open(t, netnstest.New(t, "random"), Options{})
	rng := rand.New(rand.NewPCG(3, 0))
	for range 100 {
		want := randomState(rng, "lo", anchorName)
		reach(t, a, want)
		expect(t, "random state", a, want)
	}
}

// A kill leaves the kernel after any operation. The next start reads it back and reaches
// the goal from there.
func TestStoppedAfterAnyOperationItConverges(t *testing.T) {
	a := open(t, netnstest.New(t, "kill"), Options{})
	rng := rand.New(rand.NewPCG(4, 0))
	pairs := [][2]State{{{}, everything()}, {everything(), {}}}
	for range 8 {
		pairs = append(pairs, [2]State{randomState(rng, "lo", anchorName), randomState(rng, "lo", anchorName)})
	}
	for _, pair := range pairs {
		have, want := pair[0], pair[1]
		for stop := range len(Diff(have, want)) + 1 {
			reach(t, a, have)
			ops := Diff(read(t, a), want)
			apply(t, a, ops[:min(stop, len(ops))])
			reach(t, a, want)
			expect(t, "after a stop and a restart", a, want)
		}
	}
}

func TestStoppedInsideABatchItConverges(t *testing.T) {
	a := open(t, netnstest.New(t, "killbatch"), Options{})
	want := State{Nexthops: []Nexthop{{ID: FirstNexthopID, Family: IPv6, Blackhole: true}}}
	want.Routes = manyRoutes(3*batchSize, 700, FirstNexthopID)
	ops := Diff(State{}, want)
	for _, stop := range []int{1, 2, batchSize / 2, batchSize, 2*batchSize + 1} {
		ctx, cancel := context.WithCancel(t.Context())
		done := 0
		err := a.apply(ctx, a.writing, ops[:stop], func(batch []Op, send sender) ([]Failure, error) {
			if done += len(batch); done > batchSize {
				cancel()
			}
			return send(batch)
		})
		cancel()
		var failed *ApplyError
		if err != nil && (!errors.As(err, &failed) || failed.Attempted != done || !errors.Is(err, context.Canceled)) {
			t.Errorf("stopped after %d operations of %d with %v", done, stop, err)
		}
		reach(t, a, want)
		expect(t, "after a stop in a load", a, want)
		reach(t, a, State{})
	}
}

func TestFailuresAreReported(t *testing.T) {
	a := open(t, netnstest.New(t, "fail"), Options{})
	hole := Nexthop{ID: FirstNexthopID, Family: IPv6, Blackhole: true}
	bad := Route{Prefix: prefix("2001:db8:1::/48"), Table: 700, Nexthop: 77}
	good := Route{Prefix: prefix("2001:db8:2::/48"), Table: 700, Nexthop: hole.ID}
	rule := Rule{Family: IPv6, Priority: 9, Table: 700}
	ops := []Op{{Add, hole}, {Add, bad}, {Add, good}, {Add, rule}}
	err := a.Apply(t.Context(), ops)
	var failed *ApplyError
	if !errors.As(err, &failed) {
		t.Fatalf("applying a route to a nexthop that is not there gives %v", err)
	}
	if failed.Attempted != 3 || len(failed.Failed) != 1 || failed.Failed[0].Index != 1 || failed.Failed[0].Op != ops[1] {
		t.Errorf("the error has %+v", failed)
	}
	if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), ops[1].String()) {
		t.Errorf("the error does not name the command and its cause: %s", err)
	}
	expect(t, "the other routes of the run are made, and nothing after it", a,
		State{Nexthops: []Nexthop{hole}, Routes: []Route{good}})

	for name, op := range map[string]Op{
		"a nexthop":  {Add, Nexthop{ID: 5, Family: IPv6, Device: "none"}},
		"an address": {Add, Address{Device: "none", Prefix: prefix("2001:db8::1/128")}},
	} {
		if err := a.Apply(t.Context(), []Op{op}); !errors.Is(err, unix.ENODEV) || !strings.Contains(err.Error(), `"none"`) {
			t.Errorf("%s on a device that is not there gives %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Apply(cancelled, ops); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context Apply gives %v", err)
	}
}

func TestDeletingAnAbsentRouteIsNoFailure(t *testing.T) {
	a := open(t, netnstest.New(t, "gone"), Options{})
	ops := Diff(everything(), State{})
	ops = append(ops, Op{Delete, Address{Device: "none", Prefix: prefix("2001:db8::1/128")}})
	for _, r := range everything().Routes {
		ops = append(ops, Op{Delete, r})
	}
	apply(t, a, ops)
	expect(t, "nothing is there", a, State{})
}
