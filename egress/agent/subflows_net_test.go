package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/mptcp"
	"hikyaku/egress/netnstest"
)

// mptcpHost is a server's namespace in which runs of the MPTCP part follow each other.
type mptcpHost struct {
	*netnstest.NS
	t     *testing.T
	state string
}

func newMPTCPHost(t *testing.T) *mptcpHost {
	t.Helper()
	if _, err := os.Stat("/proc/sys/net/mptcp/pm_type"); err != nil {
		t.Skipf("SKIPPED, MPTCP's state is not tested: %v", err)
	}
	return &mptcpHost{NS: netnstest.New(t, "server"), t: t, state: t.TempDir()}
}

// config has paths with these addresses.
func (h *mptcpHost) config(mode config.MPTCPMode, addresses ...string) *config.Server {
	c := config.DefaultServer()
	c.MPTCP.Mode, c.State.Dir = mode, h.state
	for _, a := range addresses {
		c.Paths = append(c.Paths, config.Path{Name: a, Addresses: []netip.Addr{netip.MustParseAddr(a)}})
	}
	return &c
}

// begin starts a run whose paths are up.
func (h *mptcpHost) begin(c *config.Server) subflows {
	h.t.Helper()
	s, err := h.try(c)
	if err != nil {
		h.t.Fatal(err)
	}
	var paths []api.Path
	for _, p := range c.Paths {
		paths = append(paths, api.Path{Name: p.Name, Addresses: p.Addresses, Backup: p.Backup, State: api.Up})
	}
	h.Do(func() { err = s.update(paths, nil) })
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *mptcpHost) try(c *config.Server) (s subflows, err error) {
	h.Do(func() {
		s, err = newSubflows(context.Background(), c, nil, slog.New(slog.DiscardHandler))
	})
	return s, err
}

func (h *mptcpHost) end(s subflows) {
	h.t.Helper()
	h.Do(func() {
		if err := s.close(); err != nil {
			h.t.Error(err)
		}
	})
	if _, err := os.Stat(filepath.Join(h.state, ledgerFile)); !errors.Is(err, os.ErrNotExist) {
		h.t.Errorf("after a stop there are notes of what is set: %v", err)
	}
}

// crash leaves all as kill -9 does.
func (h *mptcpHost) crash(s subflows) {
	if u, ok := s.(*reported).subflows.(*userspaceSubflows); ok {
		u.stop()
		<-u.ended
	}
}

func (h *mptcpHost) expectEndpoints(when string, want ...string) {
	h.t.Helper()
	var got []string
	for line := range strings.Lines(h.IP("mptcp endpoint show")) {
		got = append(got, strings.Fields(line)[0])
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		h.t.Errorf("%s: there are the endpoints %q, want %q", when, got, want)
	}
}

func (h *mptcpHost) sysctl(s mptcp.Sysctl) (value int) {
	h.t.Helper()
	h.Do(func() {
		var err error
		if value, err = s.Read(); err != nil {
			h.t.Error(err)
		}
	})
	return value
}

func (h *mptcpHost) expectSysctl(when string, s mptcp.Sysctl, want int) {
	h.t.Helper()
	if got := h.sysctl(s); got != want {
		h.t.Errorf("%s: net.mptcp.%s is %d, want %d", when, s, got, want)
	}
}

func (h *mptcpHost) subflowLimit() string {
	h.t.Helper()
	fields := strings.Fields(h.IP("mptcp limits show"))
	return fields[slices.Index(fields, "subflows")+1]
}

const (
	foreign     = "2001:db8:5::f"
	oldEPE      = "2001:db8:5::a"
	newEPE      = "2001:db8:5::b"
	foreignToo  = "2001:db8:5::e"
	addForeign  = "mptcp endpoint add " + foreign + " id 7 subflow"
	foreignAdds = "mptcp endpoint add " + foreignToo + " signal"
)

func TestEndpointsOfAFormerConfigurationGo(t *testing.T) {
	h := newMPTCPHost(t)
	h.IP(addForeign)
	limit := h.subflowLimit()
	first := h.begin(h.config(config.MPTCPKernel, oldEPE))
	h.expectEndpoints("the first run", oldEPE, foreign)
	if got := h.subflowLimit(); got != "4" || got == limit {
		t.Errorf("the limit of subflows is %s and was %s, want 4", got, limit)
	}
	h.IP(foreignAdds)
	h.crash(first)
	second := h.begin(h.config(config.MPTCPKernel, newEPE))
	h.expectEndpoints("a run with another EPE address after a crash", newEPE, foreignToo, foreign)
	h.crash(second)
	h.begin(h.config(config.MPTCPOff, newEPE))
	h.expectEndpoints("a run that leaves MPTCP alone after a crash", foreignToo, foreign)
	if got := h.subflowLimit(); got != limit {
		t.Errorf("then the limit of subflows is %s, want %s as before", got, limit)
	}
	third := h.begin(h.config(config.MPTCPKernel, newEPE))
	h.crash(third)
	h.end(h.begin(h.config(config.MPTCPKernel, newEPE)))
	h.expectEndpoints("after a crash, a start and a stop", foreignToo, foreign)
	if got := h.subflowLimit(); got != limit {
		t.Errorf("then the limit of subflows is %s, want %s as before", got, limit)
	}
}

// An endpoint that somebody made in the place of one of ours is theirs.
func TestEndpointsOfOthersStay(t *testing.T) {
	h := newMPTCPHost(t)
	first := h.begin(h.config(config.MPTCPKernel, oldEPE))
	h.crash(first)
	h.IP("mptcp endpoint flush")
	h.IP("mptcp endpoint add " + oldEPE + " id 9 signal")
	h.end(h.begin(h.config(config.MPTCPKernel, newEPE)))
	h.expectEndpoints("after a run without that address", oldEPE)
}

func TestPathManagerOfAFormerRunIsPutBack(t *testing.T) {
	h := newMPTCPHost(t)
	for _, next := range []config.MPTCPMode{config.MPTCPOff, config.MPTCPKernel} {
		h.crash(h.begin(h.config(config.MPTCPUserspace, oldEPE)))
		h.expectSysctl("after a crash", mptcp.SysctlPathManager, 1)
		s := h.begin(h.config(next, oldEPE))
		h.expectSysctl("a run with mode "+string(next), mptcp.SysctlPathManager, 0)
		h.end(s)
	}
	h.crash(h.begin(h.config(config.MPTCPKernel, oldEPE)))
	s := h.begin(h.config(config.MPTCPUserspace, oldEPE))
	h.expectEndpoints("a run that decides for each connection, after one that did not")
	h.end(s)
	h.expectSysctl("after its stop", mptcp.SysctlPathManager, 0)

	h.Do(func() { _ = mptcp.SysctlPathManager.Write(1) })
	h.crash(h.begin(h.config(config.MPTCPKernel, oldEPE)))
	h.end(h.begin(h.config(config.MPTCPKernel, oldEPE)))
	h.expectSysctl("where it was set before the first run", mptcp.SysctlPathManager, 1)

	s = h.begin(h.config(config.MPTCPKernel, oldEPE))
	h.Do(func() { _ = mptcp.SysctlPathManager.Write(1) })
	h.end(s)
	h.expectSysctl("where it was set meanwhile", mptcp.SysctlPathManager, 1)
}

func TestNotesOfAnotherBootHoldNothing(t *testing.T) {
	h := newMPTCPHost(t)
	h.crash(h.begin(h.config(config.MPTCPKernel, oldEPE)))
	file := filepath.Join(h.state, ledgerFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(text), `"boot": "`, `"boot": "another`, 1)
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	h.begin(h.config(config.MPTCPOff))
	h.expectEndpoints("an endpoint of the same address and ID, made since", oldEPE)
}

func TestNothingIsSetThatCannotBeNoted(t *testing.T) {
	h := newMPTCPHost(t)
	file := filepath.Join(h.state, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := h.config(config.MPTCPUserspace, oldEPE)
	c.State.Dir = filepath.Join(file, "state")
	if _, err := h.try(c); err == nil || !strings.Contains(err.Error(), c.State.Dir) {
		t.Errorf("a state directory that can't be made gives %v", err)
	}
	h.expectSysctl("then", mptcp.SysctlPathManager, 0)
}

func TestEndpointsWithinTheBoundOfAddresses(t *testing.T) {
	h := newMPTCPHost(t)
	c := h.config(config.MPTCPKernel, "2001:db8:5::c", "2001:db8:5::b", "2001:db8:5::a")
	c.Paths[0].Backup = true
	c.Paths[1].Addresses = append(c.Paths[1].Addresses, netip.MustParseAddr("198.51.100.11"))
	c.MPTCP.Addresses = 1
	s := h.begin(c)
	h.expectEndpoints("one of each family", "198.51.100.11", "2001:db8:5::b")
	var paths []api.Path
	for _, p := range c.Paths {
		paths = append(paths, api.Path{Name: p.Name, Addresses: p.Addresses, State: api.Up})
	}
	update := func() {
		t.Helper()
		h.Do(func() {
			if err := s.update(paths, nil); err != nil {
				t.Error(err)
			}
		})
	}
	paths[1].State = api.Draining
	update()
	h.expectEndpoints("that path drains", "198.51.100.11", "2001:db8:5::a", "2001:db8:5::b")
	paths[1].State, paths[2].State = api.Down, api.Down
	update()
	h.expectEndpoints("only the backup path is up", "2001:db8:5::c")
	h.end(s)
}

func TestEndpointsThatTheKernelRefusesAreAProblem(t *testing.T) {
	h := newMPTCPHost(t)
	for i := range 8 {
		h.IP("mptcp endpoint add 2001:db8:6::" + string(rune('1'+i)) + " signal")
	}
	c := h.config(config.MPTCPKernel, oldEPE)
	s, err := h.try(c)
	if err != nil {
		t.Fatal(err)
	}
	h.Do(func() {
		if err := s.update([]api.Path{{Name: oldEPE, Addresses: c.Paths[0].Addresses, State: api.Up}}, nil); err == nil {
			t.Error("a ninth endpoint is no error")
		}
	})
	if got := s.problems(); len(got) != 1 || !strings.Contains(got[0], oldEPE) {
		t.Errorf("problems %q, want one about %s", got, oldEPE)
	}
	h.end(s)
}

func TestConnectionsBeyondTheBoundAreAProblem(t *testing.T) {
	h := newMPTCPHost(t)
	c := h.config(config.MPTCPUserspace, oldEPE)
	c.Limits.Connections = 1
	s := h.begin(c)
	var listen net.ListenConfig
	listen.SetMultipathTCP(true)
	var dial net.Dialer
	dial.SetMultipathTCP(true)
	h.Do(func() {
		listener, err := listen.Listen(t.Context(), "tcp", "[::1]:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		conn, err := dial.Dial("tcp", listener.Addr().String()) // its other end counts, too
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { accepted.Close() })
	})
	netnstest.Eventually(t, "the bound is reported", func() bool {
		problems := s.problems()
		return len(problems) == 1 && strings.HasPrefix(problems[0], "MPTCP: 1 connections are managed, which is the bound")
	})
	h.end(s)
}

func TestEndpointOfABackupPath(t *testing.T) {
	h := newMPTCPHost(t)
	c := h.config(config.MPTCPKernel, oldEPE, newEPE)
	c.Paths[1].Backup = true
	s := h.begin(c)
	for line := range strings.Lines(h.IP("mptcp endpoint show")) {
		if backup := strings.Contains(line, " backup"); backup != strings.HasPrefix(line, newEPE+" ") {
			t.Errorf("only %s is that of a backup path: %s", newEPE, line)
		}
	}
	h.end(s)
}

func TestTimeoutOfAnnouncementsIsPutBack(t *testing.T) {
	h := newMPTCPHost(t)
	const timeout = mptcp.SysctlAddAddrTimeout
	before := h.sysctl(timeout)
	for _, mode := range []config.MPTCPMode{config.MPTCPKernel, config.MPTCPUserspace} {
		c := h.config(mode, oldEPE)
		s := h.begin(c)
		h.expectSysctl("mode "+string(mode), timeout, 1)
		h.crash(s)
		c.MPTCP.AddAddrTimeout = 3 * time.Second
		s = h.begin(c)
		h.expectSysctl("with another one after a crash", timeout, 3)
		h.end(s)
		h.expectSysctl("after the stop", timeout, before)
	}
	c := h.config(config.MPTCPKernel, oldEPE)
	c.Kernel.SetSysctls = false
	s := h.begin(c)
	h.expectSysctl("kernel.set_sysctls is false", timeout, before)
	h.end(s)
}

// The API changes policies until the very end, and policies that were taken back stay so.
func TestUpdatesDuringAndAfterTheStop(t *testing.T) {
	h := newMPTCPHost(t)
	for _, mode := range []config.MPTCPMode{config.MPTCPKernel, config.MPTCPUserspace} {
		c := h.config(mode, oldEPE)
		s := h.begin(c)
		paths := []api.Path{{Name: oldEPE, Addresses: c.Paths[0].Addresses, State: api.Up}}
		var updates sync.WaitGroup
		updates.Go(func() {
			for range 100 {
				if err := s.update(paths, nil); err != nil {
					t.Errorf("mode %s: %v", mode, err)
				}
			}
		})
		h.end(s)
		updates.Wait()
		h.expectEndpoints("mode " + string(mode) + ", after the stop")
	}
}
