package agent

import (
	"encoding/json"
	"log/slog"
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
func (noRoutes) imports(*api.Session)          {}
func (noRoutes) rpkiCaches() []api.RPKICache   { return nil }
func (noRoutes) routers() []api.Router         { return nil }

func TestFaultsAndEndsAreCounted(t *testing.T) {
	e := &engine{role: noRoutes{}, sessions: newSessions(&config.Common{}, time.Unix(0, 0))}
	e.sessions.add("rr1", kindReflector, netip.MustParseAddr("::1"), 64496, time.Unix(0, 0))
	for _, event := range []speaker.Event{
		speaker.PeerUp{Peer: "rr1"},
		speaker.Faulty{Peer: "rr1", Withdrawn: 2, Discarded: 1},
		speaker.Faulty{Peer: "rr1", Withdrawn: 1},
		speaker.Faulty{Peer: "unknown", Withdrawn: 1},
		speaker.PeerDown{Peer: "rr1", Cause: speaker.EndUpdateError, Reason: "it was enough"},
		speaker.PeerDown{Peer: "rr1", Cause: speaker.EndHoldTimer},
		speaker.PeerDown{Peer: "rr1", Cause: speaker.EndUpdateError},
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
				if label.GetName() == "action" || label.GetName() == "cause" {
					name += " " + label.GetValue()
				}
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"ends_total hold_timer": 1, "ends_total update_error": 2, "ends_total message_error": 0, "ends_total notification": 0,
		"ends_total connection": 0, "ends_total local": 0, "faults_total withdrawn": 3, "faults_total discarded": 1,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// Each cause has a field of the API by its name.
func TestEachCauseHasItsCounter(t *testing.T) {
	var ends api.Ends
	for i, cause := range speaker.EndCauses {
		*endsBy(&ends, cause) = uint64(i + 1)
	}
	text, err := json.Marshal(ends)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[speaker.EndCause]int
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for i, cause := range speaker.EndCauses {
		if fields[cause] != i+1 {
			t.Errorf("%s is %d, want %d", cause, fields[cause], i+1)
		}
	}
	if len(fields) != len(speaker.EndCauses) {
		t.Errorf("fields are %v, causes %v", fields, speaker.EndCauses)
	}
}

func TestSessionsShowWhyThereIsNone(t *testing.T) {
	s := newSessions(&config.Common{}, time.Unix(0, 0))
	s.add("a", kindPeer, netip.MustParseAddr("::1"), 64496, time.Unix(0, 0))
	for _, step := range []struct {
		event speaker.Event
		want  string
	}{
		{speaker.NoSession{Peer: "a", Reason: "refused"}, "the session has not come up yet: refused"},
		{speaker.PeerUp{Peer: "a"}, ""},
		{speaker.NoSession{Peer: "a", Reason: "late"}, ""},
		{speaker.PeerDown{Peer: "a", Reason: "silence"}, "the session ended: silence"},
		{speaker.NoSession{Peer: "a", Reason: "refused"}, "the session ended: silence; no new one: refused"},
		{speaker.NoSession{Peer: "a", Reason: "no route"}, "the session ended: silence; no new one: no route"},
	} {
		s.handle(step.event, time.Unix(1, 0))
		if got := s.reason("a"); got != step.want {
			t.Errorf("after %+v: %q, want %q", step.event, got, step.want)
		}
	}
	s.add("b", kindPeer, netip.MustParseAddr("::2"), 64497, time.Unix(0, 0))
	s.handle(speaker.PeerUp{Peer: "a"}, time.Unix(2, 0))
	s.handle(speaker.EndOfRIB{Peer: "a"}, time.Unix(2, 0))
	if s.complete() {
		t.Error("complete without a session that is awaited")
	}
	s.refuse("b", "it cannot be")
	if !s.complete() || s.reason("b") != "it cannot be" {
		t.Errorf("a session that cannot be is awaited, or its reason is %q", s.reason("b"))
	}
}

// troubled is a role with problems.
type troubled struct {
	noRoutes
	list []string
}

func (r *troubled) problems() []string { return r.list }

func TestProblemsAreLoggedOnce(t *testing.T) {
	var log strings.Builder
	r := &troubled{}
	e := newEngine(&config.Common{}, config.RoleBorder, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, r)
	for _, list := range [][]string{
		{"peer a: 1 announcements beyond max_prefixes (8) were refused"},
		{"peer a: 2 announcements beyond max_prefixes (8) were refused", "peer b: 2 announcements beyond max_prefixes (8) were refused"},
		{"peer a: 3 announcements beyond max_prefixes (8) were refused"},
		nil,
		{"peer a: 1 announcements beyond max_prefixes (8) were refused"},
	} {
		r.list = list
		e.locked(func() { e.publish() })
	}
	for text, want := range map[string]int{"msg=problem": 3, "peer a: 1 ann": 2, "peer a: 2 ann": 0, "problem=\"peer b: 2 ann": 2, "a problem is over": 2,
		"over\" problem=\"peer a: 3 announcements beyond max_prefixes (8) were": 1, "over\" problem=\"peer b: 2 ann": 1} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", text, got, want, &log)
		}
	}
}
