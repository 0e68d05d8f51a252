package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

// unprivileged is the user that agents run as in tests of privileges.
const unprivileged = "65534"

// TestPrivilegesOfTheUnit runs both agents with what the documented systemd unit gives
// them, as a user that is nobody.
func TestPrivilegesOfTheUnit(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/egress-deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	ambient := regexp.MustCompile(`(?m)^AmbientCapabilities=(.*)$`).FindSubmatch(guide)
	bounding := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`).FindSubmatch(guide)
	if ambient == nil || bounding == nil || string(ambient[1]) != string(bounding[1]) {
		t.Fatalf("the unit in the guide has AmbientCapabilities %q and CapabilityBoundingSet %q", ambient, bounding)
	}
	l := newLab(t)
	l.allowNobody()
	l.borderAgent = start(t, l.border, "border", asNobody(t, string(ambient[1]), binary, "border", "--config", l.borderConfig)...)
	l.serverAgent = start(t, l.server, "server", asNobody(t, string(ambient[1]), binary, "server", "--config", l.serverConfig)...)
	for n := range l.transits {
		l.tell(n, "announce "+clientPrefix)
		l.eventually(path(n)+" is up", func() bool { return l.state(l.serverAPI, path(n)) == api.Up })
		l.eventually("the client answers over "+path(n), func() bool { return l.ping(epe(n)) })
	}
	l.serverAgent.stop()
	l.borderAgent.stop()
	expectNothing(t, "server", l.server)
	expectNothing(t, "border", l.border)
}

// asNobody is a command that runs another one with these capabilities alone, as systemd
// does it.
func asNobody(t *testing.T, capabilities string, command ...string) []string {
	t.Helper()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skipf("SKIPPED, privileges are not tested: %v (Debian's package util-linux)", err)
	}
	set := "-all"
	for _, c := range strings.Fields(strings.ToLower(capabilities)) {
		set += ",+" + strings.TrimPrefix(c, "cap_")
	}
	return append([]string{
		setpriv, "--reuid=" + unprivileged, "--regid=" + unprivileged, "--clear-groups",
		"--inh-caps=" + set, "--ambient-caps=" + set, "--bounding-set=" + set, "--no-new-privs",
	}, command...)
}

// allowNobody lets the unprivileged user read the configuration and make its files, and
// execute the command.
func (l *lab) allowNobody() {
	l.t.Helper()
	dir := filepath.Dir(l.borderConfig)
	for _, open := range []string{dir, filepath.Dir(dir), filepath.Dir(binary)} {
		if err := os.Chmod(open, 0o755); err != nil {
			l.t.Fatal(err)
		}
	}
	if out, err := exec.Command("chown", "-R", unprivileged+":"+unprivileged, dir).CombinedOutput(); err != nil {
		l.t.Fatalf("%v: %s", err, out)
	}
}
