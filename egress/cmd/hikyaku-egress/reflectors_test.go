package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

// muteArgument makes the test binary a router instead that accepts connections at an address and
// says nothing.
const muteArgument = "mute"

// runMute does that until it is killed.
func runMute(address string) int {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mute:", err)
		return 1
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return 1
		}
		defer conn.Close() // when it no longer listens
	}
}

// withReflectors gives the lab a second reflector and a mute one, both in a namespace. It returns
// how the second one is started.
func (l *lab) withReflectors(ns *netnstest.NS) (second func() *process) {
	l.t.Helper()
	gobgpd, err := exec.LookPath("gobgpd")
	if err != nil {
		l.t.Fatal(err)
	}
	const at, mute, border = "2001:db8:7::2", "2001:db8:7::3", "2001:db8:7::1"
	netnstest.Veth(l.t,
		netnstest.End{NS: l.border, Device: "rr2", Addresses: netnstest.Addresses(border + "/64")},
		netnstest.End{NS: ns, Device: "eth0", Addresses: netnstest.Addresses(at+"/64", mute+"/64")}, 0)
	ns.IP("-6 route add default via " + border)
	start(l.t, ns, "the mute reflector", os.Args[0], muteArgument, net.JoinHostPort(mute, "179"))
	for file, local := range map[string]string{l.borderConfig: border, l.serverConfig: plainAddr} {
		more := ""
		for name, address := range map[string]string{"rr2": at, "mute": mute} {
			more += fmt.Sprintf("[[reflector]]\nname = %q\naddress = %q\nlocal_address = %q\n", name, address, local)
		}
		edit(l.t, file, "[[reflector]]\nname = \"rr\"", more+"[[reflector]]\nname = \"rr\"")
	}
	file := filepath.Join(l.t.TempDir(), "gobgpd.toml")
	write(l.t, file, reflectorConfig(at, border, plainAddr))
	return func() *process {
		return start(l.t, ns, "the second reflector", gobgpd, "-f", file, "--api-hosts", "[::1]:50051", "--pprof-disable", "-p")
	}
}

// downs watches an agent and returns a function that ends that and reports the paths that went down.
func (l *lab) downs(socket string) (end func() []string) {
	watching, stop := context.WithCancel(context.Background())
	seen := make(chan []string, 1)
	begun := make(chan struct{})
	wait := begun
	go func() {
		var names []string
		for event, err := range api.NewClient(socket).Events(watching) {
			switch {
			case err != nil:
			case event.Snapshot != nil && begun != nil:
				close(begun)
				begun = nil
			case event.Path != nil && event.Path.State == api.Down:
				names = append(names, event.Path.Name)
			}
		}
		seen <- names
	}()
	<-wait
	return func() []string {
		stop()
		return <-seen
	}
}

// TestTwoReflectors loses one of two reflectors, and has it come back. A third one says
// nothing all the time.
func TestTwoReflectors(t *testing.T) {
	t.Parallel()
	ns := netnstest.New(t, "rr2")
	l := newLab(t)
	startSecond := l.withReflectors(ns)
	second := startSecond()
	l.run()
	up := func(socket, session string) bool { return l.sessions(socket)[session] != "" }
	agents := []string{l.borderAPI, l.serverAPI}
	both := func(session string, want bool) {
		t.Helper()
		for _, socket := range agents {
			l.eventually(fmt.Sprintf("the session %s is up at %s: %v", session, filepath.Base(socket), want),
				func() bool { return up(socket, session) == want })
		}
	}
	both("rr", true)
	both("rr2", true)
	ends := []func() []string{l.downs(l.borderAPI), l.downs(l.serverAPI)}
	check := func(when string) {
		t.Helper()
		for n := range l.transits {
			if !l.ping(epe(n)) || l.reached(n) != 1 {
				t.Errorf("%s, %s does not work: the server has %d routes of it", when, path(n), l.reached(n))
			}
		}
	}
	second.kill()
	both("rr2", false)
	check("without the second reflector")
	startSecond()
	both("rr2", true)
	check("with the second reflector again")
	// New routes come by whichever is there.
	l.command(1, "withdraw "+clientPrefix)
	l.eventually("a withdrawal reaches the server", func() bool { return l.reached(1) == 0 })
	l.command(1, "announce "+clientPrefix)
	l.eventually("an announcement reaches the server", func() bool { return l.reached(1) == 1 })
	for i, end := range ends {
		if names := end(); len(names) > 0 && !(i == 1 && len(names) == 1 && names[0] == path(1)) {
			t.Errorf("%s: the paths %q went down", agents[i], names)
		}
	}
	for _, socket := range agents {
		if up(socket, "mute") {
			t.Error("a session with a reflector that says nothing is up")
		}
	}
}

// TestReflectorWithoutLargeCommunities has a reflector take them off, by which servers get the
// state of ports.
func TestReflectorWithoutLargeCommunities(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const port = "[[port]]\nname = \"one\"\nnumber = 7\ninterface = \"t1\"\ncapacity = \"1Gbps\"\nprice = 2\n"
	add(t, l.borderConfig, port)
	l.run()
	l.eventually("the server knows the port", func() bool { p := l.port(0); return p != nil && p.Number == 7 })
	gobgp := func(line string) {
		l.reflector.Run("gobgp", append([]string{"-u", "::1", "-p", "50051"}, strings.Fields(line)...)...)
	}
	gobgp("policy statement strip add action large-community remove ^64500:.*:.*$")
	gobgp("policy add short strip")
	gobgp("global policy import add short default accept")
	reloaded := func(price string) {
		t.Helper()
		edit(t, l.borderConfig, "price = 2", "price = "+price, "price = 3", "price = "+price)
		l.reload(l.borderAPI, "port one has other settings")
	}
	reloaded("3") // the state is sent again
	stripped := problem(l.serverAPI, "path transit1: a reflector takes the large communities (RFC 8092) off")
	l.eventually("the server reports the reflector", stripped)
	if l.port(0) != nil || problem(l.serverAPI, "path transit2: a reflector")() {
		t.Error("the port of a path is known, or missing for the path that has none")
	}
	if !l.ping(epe(0)) {
		t.Error("the path does not work without the state of its port")
	}
	gobgp("global policy import del short")
	reloaded("2")
	l.eventually("the state comes again", func() bool { p := l.port(0); return p != nil && p.Price == 2 && !stripped() })
}
