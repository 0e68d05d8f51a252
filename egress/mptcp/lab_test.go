package mptcp

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"hikyaku/egress/netnstest"
)

// lab is a content server and a client, joined by links which stand for the
// ways through different transits:
//
//	server  2001:db8:5::1 (default), 2001:db8:5::a, ::b, ::c (EPE)
//	        link a, b, c
//	client  2001:db8:c::1 (and ::2, for another client of another policy)
//
// The default address leaves over link a, each EPE address over its own link,
// and likewise for IPv4 (198.51.100.x, 203.0.113.x).
type lab struct {
	t              *testing.T
	server, client *netnstest.NS
}

var links = []string{"a", "b", "c"}

func newLab(t *testing.T) *lab {
	t.Helper()
	netnstest.RequireRoot(t)
	if _, err := ReadSettings(); err != nil {
		t.Skipf("SKIP: %v", err)
	}
	l := &lab{t: t, server: netnstest.New(t, "server"), client: netnstest.New(t, "client")}
	for _, ns := range []*netnstest.NS{l.server, l.client} {
		// The links' own addresses would hold up each test by two seconds.
		ns.Sysctl("net.ipv6.conf.default.accept_dad", "0")
	}
	// With delays of microseconds BBR takes bursts for the path's rate; Reno is what every
	// namespace may choose.
	l.server.Sysctl("net.ipv4.tcp_congestion_control", "reno")
	ip(l.server, "addr add 2001:db8:5::1/128 dev lo nodad", "addr add 198.51.100.1/32 dev lo")
	ip(l.client, "addr add 2001:db8:c::1/128 dev lo nodad", "addr add 2001:db8:c::2/128 dev lo nodad", "addr add 203.0.113.1/32 dev lo")
	for _, link := range links {
		l.addLink(link)
	}
	ip(l.server,
		"-6 route add 2001:db8:c::/64 via fd00:a::2 src 2001:db8:5::1",
		"route add 203.0.113.1/32 via 10.0.100.2 src 198.51.100.1")
	ip(l.client,
		"-6 route add 2001:db8:5::1/128 via fd00:a::1 src 2001:db8:c::1",
		"route add 198.51.100.1/32 via 10.0.100.1 src 203.0.113.1")
	l.client.Do(func() {
		must(t, Settings{PathManager: InKernel, AddAddrTimeout: 1, StaleLossCount: 4}.Apply())
		limits(t, Limits{AddAddrAccepted: 4, Subflows: 4})
	})
	return l
}

func (l *lab) addLink(link string) {
	table := epeTable(link)
	end := func(ns *netnstest.NS, host string) netnstest.End {
		return netnstest.End{NS: ns, Device: "eg" + link, Addresses: []netip.Prefix{
			netip.MustParsePrefix("fd00:" + link + "::" + host + "/64"),
			netip.MustParsePrefix("10.0." + table + "." + host + "/24"),
		}}
	}
	netnstest.Veth(l.t, end(l.server, "1"), end(l.client, "2"), 0)
	ip(l.server,
		"addr add 2001:db8:5::"+link+"/128 dev lo nodad preferred_lft 0",
		"-6 rule add from 2001:db8:5::"+link+" lookup "+table,
		"addr add 198.51.100."+table+"/32 dev lo",
		"rule add from 198.51.100."+table+" lookup "+table)
	ip(l.client,
		"-6 route add 2001:db8:5::"+link+"/128 via fd00:"+link+"::1 src 2001:db8:c::1",
		"route add 198.51.100."+table+"/32 via 10.0."+table+".1 src 203.0.113.1")
	l.route(link, true)
}

// route gives or takes the EPE address's way to the client.
func (l *lab) route(link string, present bool) {
	verb := "replace"
	via6, via4 := " via fd00:"+link+"::2", " via 10.0."+epeTable(link)+".2"
	kind := ""
	if !present {
		kind, via6, via4 = "unreachable ", "", ""
	}
	ip(l.server,
		"-6 route "+verb+" "+kind+"2001:db8:c::/64"+via6+" table "+epeTable(link),
		"route "+verb+" "+kind+"203.0.113.1/32"+via4+" table "+epeTable(link))
}

func epeTable(link string) string { return strconv.Itoa(100 + int(link[0]-'a')) }

// limit holds a link's rate towards the client.
func (l *lab) limit(link string, mbit int) {
	l.server.Run("tc", "qdisc", "replace", "dev", "eg"+link, "root", "tbf",
		"rate", strconv.Itoa(mbit)+"mbit", "burst", "20kb", "latency", "60ms")
}

// blackhole makes a link lose everything towards the client, silently: frames
// go to a station that does not exist.
func (l *lab) blackhole(link string) {
	ip(l.server,
		"neigh replace fd00:"+link+"::2 lladdr 02:00:00:00:00:99 dev eg"+link,
		"neigh replace 10.0."+epeTable(link)+".2 lladdr 02:00:00:00:00:99 dev eg"+link)
}

// restore ends a blackhole.
func (l *lab) restore(link string) {
	ip(l.server,
		"neigh del fd00:"+link+"::2 dev eg"+link,
		"neigh del 10.0."+epeTable(link)+".2 dev eg"+link)
}

func ip(ns *netnstest.NS, lines ...string) {
	for _, line := range lines {
		ns.IP(line)
	}
}

// sent reads how many bytes the server has sent over a link.
func (l *lab) sent(link string) uint64 {
	var bytes uint64
	l.server.Do(func() {
		text, err := os.ReadFile("/proc/thread-self/net/dev")
		must(l.t, err)
		for line := range strings.Lines(string(text)) {
			name, counters, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "eg"+link {
				bytes, err = strconv.ParseUint(strings.Fields(counters)[8], 10, 64)
				must(l.t, err)
			}
		}
	})
	return bytes
}

// manage starts a Manager in the server's namespace and runs it until stop is
// called or the test ends.
func (l *lab) manage(cfg Config) (m *Manager, stop func()) {
	l.t.Helper()
	var err error
	l.server.Do(func() {
		err = Settings{PathManager: UserSpace, AddAddrTimeout: 1, StaleLossCount: 4}.Apply()
		if err == nil {
			m, err = Start(cfg)
		}
	})
	must(l.t, err)
	open := m.open // which refuses the namespace of the test's own threads
	m.open = func() (source eventSource, kernel commander, err error) {
		l.server.Do(func() { source, kernel, err = open() })
		return source, kernel, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			must(l.t, <-ended)
		}
	}
	l.t.Cleanup(stop)
	return m, stop
}

// observe records the events of a namespace until the test ends. It makes a
// namespace with the user-space path manager accept joins.
func (l *lab) observe(ns *netnstest.NS) *record {
	l.t.Helper()
	var listener *Listener
	var err error
	ns.Do(func() { listener, err = Listen() })
	must(l.t, err)
	r := &record{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			events, err := listener.Receive(ctx)
			if err != nil {
				return
			}
			for _, e := range events {
				r.event(e)
			}
		}
	}()
	l.t.Cleanup(func() {
		cancel()
		<-ended
		must(l.t, listener.Close())
	})
	return r
}

// Apply writes the settings into the calling thread's namespace.
func (s Settings) Apply() error {
	return errors.Join(
		SysctlPathManager.Write(int(s.PathManager)),
		SysctlAddAddrTimeout.Write(s.AddAddrTimeout),
		sysctlStaleLossCount.Write(s.StaleLossCount),
	)
}

func limits(t *testing.T, want Limits) {
	t.Helper()
	c, err := Dial()
	must(t, err)
	must(t, c.SetLimits(want))
	must(t, c.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
