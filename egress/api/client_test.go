package api

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClientAsksForEverything(t *testing.T) {
	s := serve(t)
	ctx := t.Context()
	status, err := s.client.Status(ctx)
	if err != nil || status.ASN != 64500 || !status.Started.Equal(start) || len(status.Features) != 2 {
		t.Errorf("status %+v, %v", status, err)
	}
	paths, err := s.client.Paths(ctx)
	if err != nil || fmt.Sprint(paths) != fmt.Sprint(mustPaths(t, s)) {
		t.Errorf("paths\n%v, %v, want\n%v", paths, err, mustPaths(t, s))
	}
	path, err := s.client.Path(ctx, "transit-a")
	if err != nil || path.Number != 1 {
		t.Errorf("path %+v, %v", path, err)
	}
	sessions, err := s.client.Sessions(ctx)
	if err != nil || len(sessions) != 3 || sessions[1].Address.Zone() != "eth0" {
		t.Errorf("sessions %+v, %v", sessions, err)
	}
	client := netip.MustParsePrefix("2001:db9:1::/48")
	lookup, err := s.client.Lookup(ctx, client)
	if err != nil || lookup.Best != "transit-a" || lookup.Client != client {
		t.Errorf("lookup %+v, %v", lookup, err)
	}
	other := netip.MustParsePrefix("203.0.113.0/24")
	lookups, err := s.client.Lookups(ctx, []netip.Prefix{client, other})
	if err != nil || len(lookups) != 2 || lookups[1].Client != other || lookups[1].Best != "" {
		t.Errorf("lookups %+v, %v", lookups, err)
	}
}

// mustPaths returns the agent's paths with empty lists as they come back.
func mustPaths(t *testing.T, s *served) []Path {
	t.Helper()
	paths, err := s.Paths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestClientChangesEverything(t *testing.T) {
	s := serve(t)
	ctx := t.Context()
	if p, err := s.client.Drain(ctx, "transit-a", "why"); err != nil || p.Drain == nil || p.Drain.Reason != "why" {
		t.Errorf("drain: %+v, %v", p, err)
	}
	if p, err := s.client.Undrain(ctx, "transit-a"); err != nil || p.Drain != nil {
		t.Errorf("end of drain: %+v, %v", p, err)
	}
	policy := Policy{Name: "p.1", Mode: Aggregated, Paths: []string{"transit-a"}}
	if err := s.client.SetPolicy(ctx, policy); err != nil {
		t.Error(err)
	}
	if got, err := s.client.Policies(ctx); err != nil || len(got) != 1 || got[0].Name != "p.1" || got[0].Mode != Aggregated {
		t.Errorf("policies %+v, %v", got, err)
	}
	if err := s.client.DeletePolicy(ctx, "p.1"); err != nil {
		t.Error(err)
	}
	if list, err := s.client.Connections(ctx, netip.MustParsePrefix("2001:db9::/32"), 5); err != nil || len(list.Connections) != 1 || list.Total != 1 {
		t.Errorf("connections %+v, %v", list, err)
	}
	if err := s.client.SetConnection(ctx, Connection{Token: 7, Class: "bulk"}); err != nil {
		t.Error(err)
	}
	if len(s.connections) != 1 || s.connections[0].Token != 7 {
		t.Errorf("connections %+v", s.connections)
	}
}

func TestClientNamesTheRemedy(t *testing.T) {
	dir := openDir(t)
	dead := filepath.Join(dir, "dead.sock")
	listener := mustListen(t, Socket{Path: dead, Mode: 0o600})
	listener.(*lockedListener).SetUnlinkOnClose(false) // as a crash
	listener.Close()
	cases := []struct{ name, socket, want string }{
		{"no socket", filepath.Join(dir, "none.sock"), "no such file or directory (does the agent run?)"},
		{"a socket that a crash left", dead, "connection refused (does the agent run?)"},
	}
	for _, c := range cases {
		_, err := NewClient(c.socket).Paths(t.Context())
		if err == nil || !strings.HasSuffix(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "asking hikyaku-egress at "+c.socket) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		for _, err := range NewClient(c.socket).Events(t.Context()) {
			if err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%s: events: %v, want %s", c.name, err, c.want)
			}
		}
	}
	if got := hint(os.ErrPermission); got != " (be root, or in the group of `api.group`)" {
		t.Errorf("no permission: %s", got)
	}
}

func TestSettingsSurvive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	none, err := LoadSettings(dir)
	if err != nil || none.Drains == nil || len(none.Drains)+len(none.Policies) > 0 {
		t.Errorf("nothing written: %+v, %v", none, err)
	}
	want := Settings{
		Drains: map[string]Drain{"transit-a": {Reason: "why", Since: start}},
		Policies: []Policy{{Name: "p", Mode: Plain, Order: -1, Clients: []netip.Prefix{netip.MustParsePrefix("2001:db9::/32")},
			ASNs: []uint32{64999}, Classes: []string{}, Paths: []string{}, Backup: []string{}}},
	}
	for range 2 { // The second time over the first.
		if err := want.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := LoadSettings(dir); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if names := listDir(t, dir); len(names) != 1 {
		t.Errorf("the directory holds %q", names)
	}
	if err := (Settings{}).Save(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := LoadSettings(dir); err != nil || got.Drains == nil || len(got.Drains) > 0 {
		t.Errorf("none again: %+v, %v", got, err)
	}
}

func listDir(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestSettingsThatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, settingsFile)
	former := Settings{Drains: map[string]Drain{"a": {}}}
	if err := former.Save(dir); err != nil {
		t.Fatal(err)
	}
	// A crash in mid-write: the new file is there in part, the old one whole.
	if err := os.WriteFile(path+".new", []byte(`{"drains": {`), 0o640); err != nil {
		t.Fatal(err)
	}
	if got, err := LoadSettings(dir); err != nil || len(got.Drains) != 1 {
		t.Errorf("after a crash: %+v, %v", got, err)
	}
	if err := (Settings{}).Save(dir); err != nil {
		t.Errorf("saving after a crash: %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o640); err != nil {
		t.Fatal(err)
	}
	_, err := LoadSettings(dir)
	want := "reading drains, policies and peers from " + path + " (remove it to begin without any): unexpected end of JSON input"
	if err == nil || err.Error() != want {
		t.Errorf("a damaged file: %v, want %s", err, want)
	}
	err = Settings{}.Save(path)
	if err == nil || !errors.Is(err, os.ErrExist) && !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a directory that is a file: %v", err)
	}
}
