package mptcp

import (
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/netnstest"
)

// inKernel starts a Client in the lab's server with the in-kernel path manager.
func (l *lab) inKernel() *Client {
	l.t.Helper()
	var client *Client
	l.server.Do(func() {
		must(l.t, Settings{PathManager: InKernel, AddAddrTimeout: 1, StaleLossCount: 4}.Apply())
		if _, err := Start(Config{}); err == nil {
			l.t.Error("a Manager started beside the in-kernel path manager")
		}
		var err error
		client, err = Dial()
		must(l.t, err)
	})
	l.t.Cleanup(func() { must(l.t, client.Close()) })
	return client
}

// subflows reads those of the only connection from the kernel.
func (l *lab) subflows() []Subflow {
	l.t.Helper()
	var found []Connection
	l.server.Do(func() {
		var err error
		found, err = ReadConnections()
		must(l.t, err)
	})
	if len(found) != 1 {
		l.t.Fatalf("the kernel has %+v, want one connection", found)
	}
	return found[0].Subflows
}

// setEndpoint brings path b's IPv6 endpoint to a state.
func setEndpoint(t *testing.T, c *Client, state PathState) {
	t.Helper()
	have, err := c.Endpoints()
	must(t, err)
	for _, op := range PlanEndpoints(have, []Path{{Name: "b", Addresses: []netip.Addr{epeB}, State: state}}) {
		must(t, c.ApplyEndpoint(op))
	}
}

func TestInKernelPathManager(t *testing.T) {
	l := newLab(t)
	client := l.inKernel()
	must(t, client.SetLimits(Limits{Subflows: 5}))
	if got, err := client.Limits(); err != nil || got != (Limits{Subflows: 5}) {
		t.Fatalf("limits read back %+v, error %v", got, err)
	}
	setEndpoint(t, client, PathUp)
	s := l.connect(l.listen(), "2001:db8:c::1", "2001:db8:5::1")
	netnstest.Eventually(t, "a subflow joins on path b", func() bool { return len(l.subflows()) == 2 })
	before := l.sent("b")
	s.flow()
	netnstest.Eventually(t, "path b carries data", func() bool { return l.sent("b")-before > 100<<10 })

	setEndpoint(t, client, PathDraining)
	netnstest.Eventually(t, "the subflow is backup", func() bool {
		return slices.ContainsFunc(l.subflows(), func(s Subflow) bool { return s.Local.Addr() == epeB && s.LocalBackup })
	})
	setEndpoint(t, client, PathDown)
	netnstest.Eventually(t, "the subflow is gone", func() bool { return len(l.subflows()) == 1 })
	setEndpoint(t, client, PathUp)
	netnstest.Eventually(t, "a new subflow joins", func() bool { return len(l.subflows()) == 2 })
	before = l.sent("b")
	netnstest.Eventually(t, "path b carries data again", func() bool { return l.sent("b")-before > 100<<10 })
}

// Connections that began before pm_type was set stay with the kernel.
func TestConnectionsOfTheInKernelPathManagerAreLeftAlone(t *testing.T) {
	l := newLab(t)
	listener := l.listen()
	old := l.connect(listener, "2001:db8:c::1", "2001:db8:5::1")
	m, _ := l.manage(Config{
		Policy: policy(t, Rule{Name: "all", Mode: Aggregated}), Paths: labPaths(PathUp, PathUp), Router: bestA,
	})
	l.connect(listener, "2001:db8:c::1", "2001:db8:5::1")
	netnstest.Eventually(t, "the new connection is joined", func() bool { return len(on(m, epeB)) == 1 })
	for _, c := range m.Connections() {
		if unmap(c.Remote) == old.remote() && len(c.Announced)+len(c.Subflows) != 1 {
			t.Errorf("connection of the in-kernel path manager: %+v", c)
		}
	}
}
