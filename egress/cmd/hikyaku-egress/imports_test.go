package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hikyaku/egress/api"
)

// rpkiCache is StayRTR on the reflector's machine.
type rpkiCache struct {
	l    *lab
	file string
	*process
}

// newRPKICache makes a cache that runs nowhere yet, and has the border's configuration name it.
func newRPKICache(t *testing.T, l *lab) *rpkiCache {
	t.Helper()
	text, err := os.ReadFile(l.borderConfig)
	if err != nil {
		t.Fatal(err)
	}
	const cache = "[[rpki_cache]]\nname = \"rpki1\"\naddress = \"2001:db8:6::2\"\nport = 8282\n[[reflector]]"
	write(t, l.borderConfig, strings.Replace(string(text), "[[reflector]]", cache, 1))
	return &rpkiCache{l: l, file: filepath.Join(t.TempDir(), "vrps.json")}
}

// allow replaces the cache's VRPs: one for the client's prefix, by an AS.
func (c *rpkiCache) allow(as int) {
	c.l.t.Helper()
	now := time.Now()
	write(c.l.t, c.file, fmt.Sprintf(`{"metadata":{"buildmachine":"test","buildtime":%q,"generated":%d,"valid":%d},`+
		`"roas":[{"prefix":%q,"maxLength":48,"asn":"AS%d","ta":"test"}]}`,
		now.UTC().Format(time.RFC3339), now.Unix(), now.Add(time.Hour).Unix(), clientPrefix, as))
}

func (c *rpkiCache) start() {
	c.l.t.Helper()
	c.process = start(c.l.t, c.l.reflector, "stayrtr", "stayrtr", "-bind", "[2001:db8:6::2]:8282", "-cache", c.file,
		"-checktime=false", "-metrics.addr", "[::1]:9847", "-protocol", "1", "-refresh", "1")
}

// configure replaces a text of the border's configuration, and has the agent read it again.
func (l *lab) configure(old, now string) {
	l.t.Helper()
	text, err := os.ReadFile(l.borderConfig)
	if err != nil {
		l.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		l.t.Fatalf("the configuration has no %q", old)
	}
	write(l.t, l.borderConfig, strings.Replace(string(text), old, now, 1))
	if err := l.borderAgent.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		l.t.Fatal(err)
	}
}

// borderSession is a session of the border.
func (l *lab) borderSession(name string) (session api.Session) {
	l.t.Helper()
	list, err := api.NewClient(l.borderAPI).Sessions(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name {
			session = s
		}
	}
	return session
}

// over are the paths that reach the client, by what the server knows.
func (l *lab) over() (names string) {
	for n := range l.transits {
		if l.reached(n) > 0 {
			names += path(n) + " "
		}
	}
	return names
}

// TestImportPolicy changes the RPKI and the operator's lists while both transits announce the
// client's prefix: routes come and go, and no session ends.
func TestImportPolicy(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("stayrtr"); err != nil {
		t.Skipf("SKIPPED, no import policy with a real RPKI cache: %v (Debian's package stayrtr)", err)
	}
	l := newLab(t)
	cache := newRPKICache(t, l)
	l.run()
	status := func() string {
		var out strings.Builder
		cmd := l.border.Command(t.Context(), binary, "status", "--socket", l.borderAPI)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		return out.String()
	}
	shows := func(texts ...string) {
		t.Helper()
		l.eventually(fmt.Sprintf("the status shows %q", texts), func() bool {
			shown := status()
			for _, text := range texts {
				if !strings.Contains(shown, text) {
					return false
				}
			}
			return true
		})
	}
	reach := func(what, want string) {
		t.Helper()
		l.eventually(what+": the client is reached over "+want, func() bool { return l.over() == want })
	}
	began := [2]time.Time{l.borderSession("transit1").Since, l.borderSession("transit2").Since}
	shows("problem: no RPKI cache has data", "problem: RPKI cache rpki1: no connection, and no data")

	cache.allow(65601) // transit1's
	cache.start()
	reach("with a VRP for transit1's origin", "transit1 ")
	shows("1 rpki_invalid", "[2001:db8:6::2]:8282  up", "problem: peer transit2: all of its 1 routes are refused (1 rpki_invalid)")
	if s := l.borderSession("transit1"); s.Origins != (api.Origins{Valid: 1}) || len(s.Refused) != 0 {
		t.Errorf("transit1 has %+v", s)
	}
	if s := l.borderSession("transit2"); len(s.Refused) != 1 || s.Refused[0].Reason != "rpki_invalid" || s.Routes.IPv6 != 0 {
		t.Errorf("transit2 has %+v", s)
	}
	cache.allow(65602)
	reach("with a VRP for the other origin", "transit2 ")
	cache.kill()
	shows("problem: RPKI cache rpki1: no connection, its data are used until they expire")
	reach("without the cache", "transit2 ")

	l.configure("martians = true", "martians = true\nrpki_invalid = true")
	reach("where invalid routes are taken", "transit1 transit2 ")
	l.configure("asn = 64602", "asn = 64602\nimport.refuse_as_paths = [\"_65602$\"]")
	reach("without an origin", "transit1 ")
	l.configure("martians = true", "martians = maybe")
	shows("1 as_path")
	l.configure("martians = maybe", "martians = false")
	reach("without documentation prefixes", "")
	shows("1 martian")
	l.configure("martians = false", "martians = true")
	l.configure("import.refuse_as_paths = [\"_65602$\"]", "")
	reach("as at first", "transit1 transit2 ")
	for n := range l.transits {
		if s := l.borderSession(path(n)); s.Ends != (api.Ends{}) || !s.Since.Equal(began[n]) {
			t.Errorf("the session with %s: %+v", path(n), s)
		}
	}
}

// TestMaxPrefixesEndTheSession has a transit announce more than it may.
func TestMaxPrefixesEndTheSession(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	text, err := os.ReadFile(l.borderConfig)
	if err != nil {
		t.Fatal(err)
	}
	write(t, l.borderConfig, strings.Replace(string(text), "asn = 64601\n",
		"asn = 64601\nmax_prefixes = 5\nmax_prefixes_action = \"teardown\"\nmax_prefixes_restart = \"2s\"\n", 1))
	l.run()
	l.command(0, "bulk 6")
	l.eventually("the session ends", func() bool { return l.borderSession("transit1").Ends.Local > 0 })
	l.eventually("the client is reached over transit2 alone", func() bool { return l.over() == "transit2 " })
	l.eventually("the session comes back, and ends again", func() bool { return l.borderSession("transit1").Ends.Local > 1 })
	l.configure("max_prefixes = 5", "max_prefixes = 50")
	l.eventually("the session stays with a higher bound", func() bool { return l.borderSession("transit1").Routes.IPv6 == 7 })
	if s := l.borderSession("transit2"); s.Ends != (api.Ends{}) {
		t.Errorf("the session with transit2: %+v", s)
	}
}
