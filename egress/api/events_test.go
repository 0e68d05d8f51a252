package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// watch returns a function that gives the next event, or fails the test.
func (s *served) watch(t *testing.T) func() Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	next, stop := iter.Pull2(s.client.Events(ctx))
	t.Cleanup(func() { stop(); cancel() })
	return func() Event {
		t.Helper()
		event, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("no event: %v", err)
		}
		return event
	}
}

func TestEventsBeginWithASnapshot(t *testing.T) {
	s := serve(t)
	next := s.watch(t)
	snapshot := next().Snapshot
	if snapshot == nil || !snapshot.Ready || len(snapshot.Paths) != 2 || len(snapshot.Sessions) != 3 {
		t.Fatalf("the snapshot is %+v", snapshot)
	}
	if got := snapshot.Paths[0]; got.SID != s.paths[0].SID || got.Mark != 0x680001 {
		t.Errorf("a path came as %+v", got)
	}
}

func TestEventsReportEachChange(t *testing.T) {
	s := serve(t)
	next := s.watch(t)
	next()
	if _, err := s.client.Drain(t.Context(), "transit-a", "maintenance"); err != nil {
		t.Fatal(err)
	}
	if p := next().Path; p == nil || p.State != Draining || p.Drain.Reason != "maintenance" {
		t.Errorf("after a drain came %+v", p)
	}
	policy := Policy{Name: "p", Mode: Plain}
	if err := s.client.SetPolicy(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if l := next().Policies; l == nil || len(l.Policies) != 1 || l.Policies[0].Name != "p" {
		t.Errorf("after a policy came %+v", l)
	}
	s.hub.Publish(Event{Session: &Session{Name: "rr1", Address: netip.MustParseAddr("::1")}})
	if got := next().Session; got == nil || got.Name != "rr1" || got.Up {
		t.Errorf("after the loss of a session came %+v", got)
	}
	s.hub.Publish(Event{Ready: &Readiness{Ready: true}})
	if got := next().Ready; got == nil || !got.Ready {
		t.Errorf("after readiness came %+v", got)
	}
	prefix := netip.MustParsePrefix("2001:db9::/32")
	s.hub.Publish(Event{Routes: &RouteChange{Path: "transit-a", Prefixes: []netip.Prefix{prefix}}})
	if got := next().Routes; got == nil || len(got.Prefixes) != 1 || got.Prefixes[0] != prefix {
		t.Errorf("after a change of routes came %+v", got)
	}
	s.hub.Publish(Event{Routes: &RouteChange{Path: "transit-a", Prefixes: make([]netip.Prefix, 1001)}})
	if got := next().Routes; got == nil || len(got.Prefixes) != 0 {
		t.Errorf("after a change of too many routes came %d prefixes", len(got.Prefixes))
	}
	s.hub.Publish(Event{Snapshot: &Snapshot{}})
	if got := next().Snapshot; got == nil || got.Paths[0].State != Draining {
		t.Errorf("after a reload came %+v", got)
	}
}

// Each event's data is as the document says for its name.
func TestEventsKeepToTheDocument(t *testing.T) {
	doc := readDocument(t)
	f := newFake()
	paths, _ := f.Paths(t.Context())
	sessions, _ := f.Sessions(t.Context())
	cases := []struct {
		name, schema string
		event        Event
	}{
		{"snapshot", "Snapshot", Event{Snapshot: &Snapshot{Ready: true, Paths: paths, Sessions: sessions}}},
		{"path", "Path", Event{Path: &paths[0]}},
		{"session", "Session", Event{Session: &sessions[1]}},
		{"routes", "RouteChange", Event{Routes: &RouteChange{Path: "transit-a"}}},
		{"ready", "Readiness", Event{Ready: &Readiness{}}},
		{"policies", "PolicyList", Event{Policies: &PolicyList{}}},
	}
	for _, c := range cases {
		message, err := encodeEvent(c.event)
		if err != nil {
			t.Fatal(err)
		}
		name, data, _ := strings.Cut(string(message), "\n")
		if name != "event: "+c.name || !strings.HasSuffix(data, "}\n\n") {
			t.Errorf("%s: %q", c.name, message)
		}
		value := decodeJSON(t, []byte(strings.TrimPrefix(data, "data: ")))
		for _, wrong := range doc.validate(doc.schema(c.schema), value, c.name) {
			t.Error(wrong)
		}
	}
	described := doc.operation(t, "GET", "/v1/events")["description"].(string)
	for _, c := range cases {
		if !strings.Contains(described, "`"+c.name+"`") {
			t.Errorf("the document does not describe the event %s", c.name)
		}
	}
}

func TestAWatcherThatIsTooSlowGetsASnapshot(t *testing.T) {
	var hub Hub
	w := hub.watch()
	w.take()
	for i := range maxQueued + 5 {
		hub.Publish(Event{Routes: &RouteChange{Path: fmt.Sprint(i)}})
	}
	snapshot, messages := w.take()
	if !snapshot || len(messages) != 4 {
		t.Errorf("snapshot %t and %d events, want a snapshot and the 4 after it", snapshot, len(messages))
	}
	if !strings.Contains(string(messages[0]), `"path":"1025"`) {
		t.Errorf("the first event after the snapshot is %s", messages[0])
	}
	if snapshot, messages = w.take(); snapshot || len(messages) > 0 {
		t.Errorf("then %t and %d events", snapshot, len(messages))
	}
	hub.leave(w)
	hub.Publish(Event{Ready: &Readiness{}})
	if _, messages = w.take(); len(messages) > 0 {
		t.Error("one who left gets events")
	}
}

func TestStopEndsEventStreams(t *testing.T) {
	s := serve(t)
	next, stop := iter.Pull2(s.client.Events(t.Context()))
	defer stop()
	if _, err, ok := next(); err != nil || !ok {
		t.Fatal(err)
	}
	began := time.Now()
	s.stop()
	_, err, ok := next()
	if !ok || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ended with %v", err)
	}
	// Shutdown waits a second for requests: a stream must not be one of them.
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
}

func TestTooManyStreams(t *testing.T) {
	s := serve(t)
	for process := range int32(maxStreams) {
		if err := s.server.streams.begin(process + 1e6); err != nil {
			t.Fatal(err)
		}
	}
	status, answer := s.exchange(t, "GET", "/v1/events", "/v1/events", "")
	if status != 503 || !strings.Contains(answer, "busy: 64 event streams are open already") {
		t.Errorf("%d %s", status, answer)
	}
	s.server.streams.end(1e6)
	next := s.watch(t)
	if next().Snapshot == nil {
		t.Error("no snapshot")
	}
}

// One process may take all streams that it can get: there are some for the others.
func TestStreamsOfOneProcess(t *testing.T) {
	s := serve(t)
	for range maxOfProcess {
		s.watch(t)()
	}
	status, answer := s.exchange(t, "GET", "/v1/events", "/v1/events", "")
	if want := fmt.Sprintf("busy: process %d has 16 event streams open already", os.Getpid()); status != 503 || !strings.Contains(answer, want) {
		t.Errorf("%d %s", status, answer)
	}
	if err := s.server.streams.begin(1); err != nil {
		t.Errorf("a stream of another process: %v", err)
	}
}

// TestSlowClientsHoldUpNobody has clients that send half a request, and that read nothing of
// long answers.
func TestSlowClientsHoldUpNobody(t *testing.T) {
	s := serve(t)
	for _, request := range []string{
		"PUT /v1/connections HTTP/1.1\r\nHost: egress\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		"GET /v1/ses",
		strings.Repeat("GET /v1/sessions HTTP/1.1\r\nHost: egress\r\n\r\n", 5000),
		"GET /v1/events HTTP/1.1\r\nHost: egress\r\n\r\n",
	} {
		for range 10 {
			conn, err := net.Dial("unix", s.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			// Messages that do not fit into the socket's buffers are left out.
			_, _ = conn.Write([]byte(request))
		}
	}
	for range 2 * maxQueued {
		s.hub.Publish(Event{Routes: &RouteChange{Path: "transit-a"}})
	}
	if err := s.client.SetConnection(t.Context(), Connection{Token: 7}); err != nil {
		t.Errorf("another client: %v", err)
	}
	if paths, err := s.client.Paths(t.Context()); err != nil || len(paths) != 2 {
		t.Errorf("another client gets %v, %v", paths, err)
	}
}

func TestEventsOfOtherVersions(t *testing.T) {
	text := ":\n\nevent: future\ndata: {\"x\": 1}\n\nevent: ready\ndata: {\"ready\": true, \"more\": 1}\n\nevent: path\ndata: 7\n\n"
	var got []Event
	err := readAll(text, func(e Event, _ error) bool { got = append(got, e); return true })
	if len(got) != 1 || got[0].Ready == nil || !got[0].Ready.Ready {
		t.Errorf("got %+v, want readiness alone", got)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "reading a path event: ") {
		t.Errorf("data that is none: %v", err)
	}
}

func readAll(text string, yield func(Event, error) bool) error {
	return readEvents(bufio.NewReader(strings.NewReader(text)), yield)
}
