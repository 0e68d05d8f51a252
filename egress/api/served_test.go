package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// served is a server on a real socket, and the document that it must keep to.
type served struct {
	*fake
	socket string
	client *Client
	server *Server
	doc    document
	log    *bytes.Buffer
	// stop ends the server and waits for it.
	stop func()
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{
		fake:   newFake(),
		socket: filepath.Join(t.TempDir(), "run", "api.sock"),
		doc:    readDocument(t),
		log:    &bytes.Buffer{},
	}
	listener, err := Socket{Path: s.socket, Mode: 0o660}.Listen()
	if err != nil {
		t.Fatal(err)
	}
	s.client = NewClient(s.socket)
	s.server = NewServer(s.fake, s.fake.hub, Options{
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			io.WriteString(w, "up 1\n")
		}),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(ctx, listener) }()
	stopped := false
	s.stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		s.client.Close()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serving: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("the server does not stop")
		}
	}
	t.Cleanup(s.stop)
	return s
}

func readDocument(t *testing.T) document {
	t.Helper()
	text, err := os.ReadFile("../../docs/egress-api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	root, err := readYAML(string(text))
	if err != nil {
		t.Fatalf("docs/egress-api.yaml: %v", err)
	}
	return document{root.(object)}
}

// exchange sends a request and returns the answer, after holding both to the
// document: pattern is the operation's path there.
func (s *served) exchange(t *testing.T, method, pattern, path, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequest(method, "http://egress"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.client.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	operation := s.doc.operation(t, method, pattern)
	for _, wrong := range s.doc.checkAnswer(t, operation, response, text) {
		t.Errorf("%s %s: %s", method, path, wrong)
	}
	if body != "" && response.StatusCode < 300 {
		schema := operation["requestBody"].(object)["content"].(object)["application/json"].(object)["schema"]
		for _, wrong := range s.doc.validate(schema, decodeJSON(t, []byte(body)), "request") {
			t.Errorf("%s %s was accepted, but %s", method, path, wrong)
		}
	}
	return response.StatusCode, string(text)
}
