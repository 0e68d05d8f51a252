package kernel

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hikyaku/egress/netnstest"
)

func TestRepairAfterADeviceWasDown(t *testing.T) {
	ns, tables := loadTables(t, "repair")
	put(t, tables, everything())
	events := watch(t, tables.applier)
	ns.IP("link set anchor down")
	await(t, events, Link{Device: anchorName, Up: false})
	if left := read(t, tables.applier); len(left.Nexthops) == len(everything().Nexthops) {
		t.Fatal("the kernel kept all nexthops of a device that is down: this test tests nothing")
	}
	ns.IP("link set anchor up")
	await(t, events, Link{Device: anchorName, Up: true})
	ns.IP("addr replace 192.0.2.98/24 dev anchor")
	if err := tables.Reset(t.Context(), tables.Snapshot()); err != nil {
		t.Fatal(err)
	}
	expectTables(t, "after the repair", tables, everything())
}

func TestDevicesAreWatchedThroughAnOverrun(t *testing.T) {
	ns, tables := loadTables(t, "overrun")
	ns.IP("link add held type veth peer name other")
	ns.IP("link set other up")
	ns.IP("link set held up")
	// The watcher stops when it knows all devices, until released.
	var once sync.Once
	begun, released := make(chan struct{}), make(chan struct{})
	events := watchWith(t, tables.applier, func(Link) {
		once.Do(func() { close(begun) })
		<-released
	})
	<-begun
	file := filepath.Join(t.TempDir(), "changes")
	changes := strings.Repeat("link set other mtu 1400\nlink set other mtu 1500\n", 8000)
	if err := os.WriteFile(file, []byte(changes+"link del held\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ns.IP("-batch " + file)
	close(released)
	await(t, events, Link{Device: "held", Gone: true})
	ns.IP("link set anchor down")
	await(t, events, Link{Device: anchorName, Up: false})
}

func TestDevicesThatAreGoneAreDown(t *testing.T) {
	var notified []Link
	w := linkWatch{known: make(map[uint32]Link), changed: func(l Link) { notified = append(notified, l) }}
	steps := []struct {
		name string
		do   func()
		want []Link
	}{
		{"a new one", func() { w.set(1, Link{Device: "a", Up: true}) }, []Link{{Device: "a", Up: true}}},
		{"renamed", func() { w.set(1, Link{Device: "b", Up: true}) }, []Link{{Device: "a", Gone: true}, {Device: "b", Up: true}}},
		{"removed", func() { w.remove(1) }, []Link{{Device: "b", Gone: true}}},
		{"removed, and never known", func() { w.remove(7) }, nil},
		{"all", func() { w.replace(map[uint32]Link{2: {Device: "c"}}) }, []Link{{Device: "c"}}},
		{"changed after the beginning", func() { w.set(2, Link{Device: "c", Up: true}) }, []Link{{Device: "c", Up: true}}},
		{"all, and one is gone", func() { w.replace(map[uint32]Link{3: {Device: "d", Up: true}}) },
			[]Link{{Device: "c", Gone: true}, {Device: "d", Up: true, New: true}}},
		{"renamed after the beginning", func() { w.set(3, Link{Device: "e", Up: true}) },
			[]Link{{Device: "d", Gone: true}, {Device: "e", Up: true, New: true}}},
	}
	for _, step := range steps {
		notified = nil
		if step.do(); !slices.Equal(notified, step.want) {
			t.Errorf("%s: notified %v, want %v", step.name, notified, step.want)
		}
	}
}

func watch(t *testing.T, a *Applier) <-chan Link {
	t.Helper()
	return watchWith(t, a, func(Link) {})
}

// watchWith calls before with each event before it is reported.
func watchWith(t *testing.T, a *Applier, before func(Link)) <-chan Link {
	t.Helper()
	events := make(chan Link, 100_000)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := a.WatchLinks(ctx, func(l Link) { before(l); events <- l }); !errors.Is(err, context.Canceled) {
			t.Errorf("watching devices: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return events
}

func await(t *testing.T, events <-chan Link, want Link) {
	t.Helper()
	netnstest.Eventually(t, "an event of the device", func() bool {
		for {
			select {
			case got := <-events:
				if got == want {
					return true
				}
			default:
				return false
			}
		}
	})
}
