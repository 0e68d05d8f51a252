package mptcp

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"hikyaku/egress/netnstest"
)

// measuredRouter answers what the test has set, as an agent which measures
// paths would.
type measuredRouter struct {
	mu     sync.Mutex
	routes Routes
}

func (r *measuredRouter) Routes(netip.Addr) Routes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routes
}

func (r *measuredRouter) avoid(paths ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routes.Avoid = paths
}

// The best path goes silent, BGP does not notice, but somebody measures it. The initial
// subflow leaves it at once and comes back over its EPE address.
func TestSilentBestPathIsLeftAtOnce(t *testing.T) {
	l := newLab(t)
	router := &measuredRouter{routes: Routes{Best: "a", Paths: []string{"a", "b"}}}
	m, _ := l.manage(Config{
		Policy: policy(t, Rule{Name: "all", Mode: Aggregated}), Paths: labPaths(PathUp, PathUp), Router: router,
	})
	l.limit("a", 40)
	l.limit("b", 40)
	s := l.connect(l.listen(), "2001:db8:c::1", "2001:db8:5::1")
	s.flow()
	before := l.sent("b")
	netnstest.Eventually(t, "path b carries data", func() bool { return l.sent("b")-before > 1<<20 })

	s.mark()
	l.blackhole("a")
	start := time.Now()
	time.Sleep(40 * time.Millisecond) // what a measurement of 2 RTT + 20 ms would take
	router.avoid("a")
	m.Reconsider(netip.MustParsePrefix("2001:db8:c::/48"))
	netnstest.Eventually(t, "the silent path is left", func() bool {
		c := m.Connections()[0]
		return !c.hasInitial() && len(c.Subflows) == 1
	})
	hinted := time.Since(start)
	received := s.received.Load()
	netnstest.Eventually(t, "2 MB arrive over path b alone", func() bool { return s.received.Load() > received+2<<20 })
	t.Logf("longest pause %v, of which %v until the Manager had the hint and had acted", s.longestGap(), hinted)

	l.restore("a")
	router.avoid()
	m.Reconsider()
	netnstest.Eventually(t, "the client joins the EPE address of path a", func() bool { return len(on(m, epeA)) == 1 })
	before = l.sent("a")
	netnstest.Eventually(t, "path a carries data again", func() bool { return l.sent("a")-before > 100<<10 })
}
