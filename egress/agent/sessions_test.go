package agent

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/speaker"
)

// noRoutes is a role without paths and routes.
type noRoutes struct{ role }

func (noRoutes) routes(api.Session) api.Routes { return api.Routes{} }
func (noRoutes) paths() []api.Path             { return nil }

func TestFaultsAndEndsAreCounted(t *testing.T) {
	e := &engine{role: noRoutes{}, sessions: newSessions(&config.Common{}, time.Unix(0, 0))}
	e.sessions.add("rr1", kindReflector, netip.MustParseAddr("::1"), 64496, time.Unix(0, 0))
	for _, event := range []speaker.Event{
		speaker.PeerUp{Peer: "rr1"},
		speaker.Faulty{Peer: "rr1", Withdrawn: 2, Discarded: 1},
		speaker.Faulty{Peer: "rr1", Withdrawn: 1},
		speaker.Faulty{Peer: "unknown", Withdrawn: 1},
		speaker.PeerDown{Peer: "rr1", Reason: "it was enough"},
	} {
		e.sessions.handle(event, time.Unix(1, 0))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{e})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "hikyaku_egress_session_")
			for _, label := range m.GetLabel() {
				if label.GetName() == "action" {
					name += " " + label.GetValue()
				}
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{"ends_total": 1, "faults_total withdrawn": 3, "faults_total discarded": 1} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
