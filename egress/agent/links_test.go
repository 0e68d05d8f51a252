package agent

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

func TestDevicesThatAreNews(t *testing.T) {
	up, down := kernel.Link{Device: "a", Up: true}, kernel.Link{Device: "a"}
	gone, fresh, freshDown := kernel.Link{Device: "a", Gone: true}, kernel.Link{Device: "a", Up: true, New: true}, kernel.Link{Device: "a", New: true}
	for _, test := range []struct {
		name  string
		links []kernel.Link
		want  []kernel.Link
	}{
		{"up from the beginning", []kernel.Link{up, up}, nil},
		{"down from the beginning", []kernel.Link{down, down}, []kernel.Link{down}},
		{"down, and up again", []kernel.Link{up, down, down, up}, []kernel.Link{down, up}},
		{"gone while up", []kernel.Link{up, gone}, []kernel.Link{gone}},
		{"gone while down", []kernel.Link{up, down, gone}, []kernel.Link{down}},
		{"gone, and there again", []kernel.Link{up, gone, fresh}, []kernel.Link{gone, fresh}},
		{"gone, and there again, and up later", []kernel.Link{up, gone, freshDown, up}, []kernel.Link{gone, up}},
	} {
		states := linkStates{}
		var notified []kernel.Link
		for _, link := range test.links {
			if states.take(link) {
				notified = append(notified, link)
			}
		}
		if !slices.Equal(notified, test.want) {
			t.Errorf("%s: %+v are news, want %+v", test.name, notified, test.want)
		}
		last := test.links[len(test.links)-1]
		if _, kept := states["a"]; kept == last.Gone {
			t.Errorf("%s: its name is kept: %t", test.name, kept)
		}
	}
}

// onDevice is a role one of whose two parts hangs on the device "used".
type onDevice struct {
	noRoutes
	retried []string
}

func (o *onDevice) uses(device string) ([]string, bool) {
	if device == "used" {
		return []string{"b"}, true
	}
	return nil, false
}
func (o *onDevice) link(kernel.Link)   {}
func (o *onDevice) want() kernel.State { return kernel.State{} }
func (o *onDevice) names() []string    { return []string{"a", "b"} }
func (o *onDevice) retry(name string)  { o.retried = append(o.retried, name) }

// counting counts full repairs.
type counting struct {
	unchanging
	resets int
}

func (c *counting) Reset(context.Context, kernel.State) error { c.resets++; return nil }

// A machine may have many devices that come and go, as those of containers.
func TestOnlyDevicesInUseAreRepaired(t *testing.T) {
	role, tables := &onDevice{}, &counting{}
	e := newEngine(&config.Common{}, config.RoleBorder, Options{Log: slog.New(slog.DiscardHandler)}, role)
	e.tables = tables
	for range 100 {
		e.linkChanged(t.Context(), kernel.Link{Device: "veth7", Up: true})
	}
	e.linkChanged(t.Context(), kernel.Link{Device: "used"})
	if tables.resets != 0 || len(role.retried) != 0 {
		t.Errorf("devices that are not in use, and one that goes down, cost %d repairs and tries of %q", tables.resets, role.retried)
	}
	e.linkChanged(t.Context(), kernel.Link{Device: "used", Up: true})
	if tables.resets != 1 || !slices.Equal(role.retried, []string{"b"}) {
		t.Errorf("a device in use costs %d repairs and tries of %q, want 1 and that of its part", tables.resets, role.retried)
	}
}
