package main_test

import (
	"errors"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

func TestPeersAreAddedByAPI(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	take, bring := without(t, l.borderConfig, "[[peer]]")
	edit(t, l.borderConfig, take...)
	l.startBorder()
	l.command(0, "announce "+clientPrefix)
	l.eventually("the sessions of the file are up", func() bool {
		return l.state(l.borderAPI, path(0)) == api.Up && l.sessions(l.borderAPI)["rr"] != ""
	})
	before := l.sessions(l.borderAPI)
	border := api.NewClient(l.borderAPI)
	added := api.PeerSettings{"number": 2, "address": "2001:db8:a2::1", "asn": 64602}
	for _, test := range []struct {
		name     string
		settings api.PeerSettings
		kind     error
		want     string
	}{
		{path(0), added, api.ErrConflict, l.borderConfig},
		{path(1), api.PeerSettings{"number": 1, "address": "2001:db8:a2::1", "asn": 64602}, api.ErrInvalid, "number 1"},
		{path(1), api.PeerSettings{"number": 2, "nummer": 1}, api.ErrInvalid, "`nummer`"},
	} {
		if _, err := border.SetPeer(t.Context(), test.name, test.settings); !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with %v gives %v, want %v: %q", test.name, test.settings, err, test.kind, test.want)
		}
	}
	if _, err := border.DeletePeer(t.Context(), path(0)); !errors.Is(err, api.ErrConflict) {
		t.Errorf("removing a peer of the file gives %v", err)
	}
	if _, err := border.DeletePeer(t.Context(), "nobody"); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("removing nobody gives %v", err)
	}

	if changes, err := border.SetPeer(t.Context(), path(1), added); err != nil || len(changes) != 1 {
		t.Fatalf("adding a peer gives %q, %v", changes, err)
	}
	l.command(1, "announce "+clientPrefix)
	l.eventually("the added peer is up", func() bool { return l.state(l.borderAPI, path(1)) == api.Up })
	l.expectKept(l.borderAPI, before, "rr", path(0))
	if changes, err := border.Reload(t.Context()); err != nil || len(changes) > 0 {
		t.Errorf("a reload of the same file gives %q, %v", changes, err)
	}

	l.borderAgent.kill()
	l.startBorder()
	l.eventually("the added peer is up after a crash", func() bool { return l.state(l.borderAPI, path(1)) == api.Up })
	peers, err := border.Peers(t.Context())
	if err != nil || len(peers) != 2 || peers[0].Source != "file" || peers[1].Source != "api" || peers[1].ASN != 64602 {
		t.Errorf("the peers are %+v, %v", peers, err)
	}
	edit(t, l.borderConfig, bring...)
	if _, err := border.Reload(t.Context()); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "DELETE /v1/peers/"+path(1)) {
		t.Errorf("a reload of a file with the added peer gives %v", err)
	}
	edit(t, l.borderConfig, take...)
	if _, err := border.DeletePeer(t.Context(), path(1)); err != nil {
		t.Fatal(err)
	}
	if l.state(l.borderAPI, path(1)) != "" || strings.Contains(l.border.IP("-6 route show table all proto 200"), "2001:db8:b1:2::") {
		t.Error("the removed peer is still there")
	}
	l.borderAgent.stop()
	expectNothing(t, "border", l.border)
}
