package main_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"hikyaku/egress/netnstest"
)

// trialsVariable sets the number of trials, for measurements; a test run makes few.
const trialsVariable = "HIKYAKU_EGRESS_TRIALS"

// TestLatency prints how long it takes from a transit's change until the server's
// kernel has it. It fails when a change never arrives, not when it is late: on a
// loaded machine everything is. For figures: HIKYAKU_EGRESS_TRIALS=100.
func TestLatency(t *testing.T) {
	trials := 5
	if text := os.Getenv(trialsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", trialsVariable, err)
		}
		trials = n
	}
	l := running(t)
	prefix := netip.MustParsePrefix("2001:db8:77::/48")
	changes := l.watchRoutes(prefix)
	took := map[string][]time.Duration{}
	for range trials {
		for _, command := range []string{"announce", "withdraw"} {
			began := l.command(1, command+" "+prefix.String())
			want := uint16(unix.RTM_NEWROUTE)
			if command == "withdraw" {
				want = unix.RTM_DELROUTE
			}
			took[command] = append(took[command], l.await(changes, want).Sub(began))
			time.Sleep(20 * time.Millisecond) // changes shall not meet
		}
	}
	for _, command := range []string{"announce", "withdraw"} {
		t.Logf("%s, transit to server's kernel, %d trials: %s", command, trials, distribution(took[command]))
	}
}

func distribution(took []time.Duration) string {
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[min(len(took)-1, int(share*float64(len(took))))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("median %s, p99 %s, worst %s", at(0.5), at(0.99), took[len(took)-1].Round(10*time.Microsecond))
}

// change is a change of a route in the server's kernel.
type change struct {
	kind uint16
	at   time.Time
}

// watchRoutes follows the server's routes to a prefix in the tables of paths.
func (l *lab) watchRoutes(prefix netip.Prefix) <-chan change {
	l.t.Helper()
	ns, err := netns.GetFromPath(l.server.Path())
	if err != nil {
		l.t.Fatal(err)
	}
	updates, done := make(chan netlink.RouteUpdate, 64), make(chan struct{})
	if err := netlink.RouteSubscribeWithOptions(updates, done, netlink.RouteSubscribeOptions{Namespace: &ns}); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { close(done); ns.Close() })
	changes := make(chan change, 64)
	go func() {
		for u := range updates {
			if u.Dst != nil && u.Dst.String() == prefix.String() && u.Protocol == 200 {
				changes <- change{u.Type, time.Now()}
			}
		}
	}()
	return changes
}

// await returns when the next change of a kind came.
func (l *lab) await(changes <-chan change, kind uint16) time.Time {
	l.t.Helper()
	deadline := time.After(netnstest.Deadline)
	for {
		select {
		case c := <-changes:
			if c.kind == kind {
				return c.at
			}
		case <-deadline:
			l.t.Fatal("a change never came to the server's kernel")
		}
	}
}
