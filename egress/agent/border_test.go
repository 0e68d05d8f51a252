package agent

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

const borderTOML = `
role = "border"
asn = 64500
router_id = "192.0.2.1"
[srv6]
locator = "2001:db8:b1::/48"
interfaces = ["eth0"]
[[reflector]]
name = "rr1"
address = "2001:db8::53"
[[peer]]
name = "transit-a"
number = 1
address = "2001:db8:a::1"
asn = 64496
`

// startedBorder is a border's agent which has read its settings from dir, and whose loop
// runs without kernel and BGP until the test ends.
func startedBorder(t *testing.T, dir string) *Border {
	t.Helper()
	loaded, err := config.Parse("border.toml", []byte(borderTOML))
	if err != nil {
		t.Fatal(err)
	}
	c := loaded.Border
	c.State.Dir = dir
	b := &Border{config: c, lookups: make(map[string]border.Lookup)}
	b.engine = newEngine(&c.Common, config.RoleBorder, Options{Log: slog.New(slog.DiscardHandler)}, b)
	if err := b.loadSettings(); err != nil {
		t.Fatal(err)
	}
	if err := b.load(kernel.State{}, &host{}); err != nil {
		t.Fatal(err)
	}
	startLoop(t, b.engine)
	return b
}

// Whoever sets a policy relies on it, and a border has nobody who obeys it.
func TestBordersHaveNoPolicies(t *testing.T) {
	dir := t.TempDir()
	former := api.Settings{Policies: []api.Policy{{Name: "former", Mode: api.Plain}}}
	if err := former.Save(dir); err != nil {
		t.Fatal(err)
	}
	b := startedBorder(t, dir)
	b.save = func(api.Settings) error { t.Error("settings are saved"); return nil }
	server := api.NewServer(backend{b.engine}, &b.hub, api.Options{})
	for _, test := range []struct{ method, name, body string }{
		{"PUT", "plain", `{"mode": "plain"}`},
		{"DELETE", "former", ""},
		{"DELETE", "none", ""},
	} {
		request := httptest.NewRequest(test.method, "/v1/policies/"+test.name, strings.NewReader(test.body))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, request)
		if answer.Code != http.StatusNotImplemented || !strings.Contains(answer.Body.String(), test.name) {
			t.Errorf("%s %s: %d %s, want 501 and the name", test.method, test.name, answer.Code, answer.Body)
		}
	}
	if list, err := (backend{b.engine}).Policies(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("policies of a border: %v, %v; want none", list, err)
	}
	err := (backend{b.engine}).SetPolicy(t.Context(), api.Policy{Name: "plain"})
	if !errors.Is(err, api.ErrUnsupported) {
		t.Errorf("setting a policy: %v", err)
	}
}
