package main_test

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

// routesVariable sets the number of routes of each transit, for measurements.
const routesVariable = "HIKYAKU_EGRESS_ROUTES"

// TestScale loads many routes of each transit and prints how long that takes and how much
// memory the agents need. It also prints how soon the last packet leaves by a peer that is
// lost. For figures: HIKYAKU_EGRESS_ROUTES=200000.
func TestScale(t *testing.T) {
	routes, patience := 2000, netnstest.Deadline
	if text := os.Getenv(routesVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", routesVariable, err)
		}
		routes, patience = n, 10*time.Minute
	}
	l := running(t)
	began := time.Now()
	for n := range l.transits {
		l.command(n, fmt.Sprintf("bulk %d", routes))
	}
	for n := range l.transits {
		l.within(patience, "the routes are at the server", func() bool { return l.reached(n) == routes+1 })
	}
	t.Logf("%d routes of each of 2 transits: at the server after %s", routes, time.Since(began).Round(10*time.Millisecond))
	t.Logf("memory: border's agent %s, server's agent %s", l.borderAgent.memory(), l.serverAgent.memory())

	last := l.stream(epe(1))
	began = time.Now()
	l.transits[1].cmd.Process.Kill()
	l.within(patience, "the path is down", func() bool { return l.state(l.serverAPI, path(1)) == api.Down })
	left := time.Since(began)
	l.within(patience, "the border's table is empty", func() bool {
		// Each check reads the whole table and keeps others out of it meanwhile.
		time.Sleep(time.Second)
		return !strings.Contains(l.border.IP("-6 route show table 10002 proto 200"), "2001:db8:c::/48")
	})
	t.Logf("lost peer: last packet after %s, the server leaves the path after %s, border's table cleared after %s",
		time.Unix(0, last.Load()).Sub(began).Round(10*time.Microsecond), left.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
	l.expectTransit(epe(0), 0)
}

// within is eventually with another patience.
func (l *lab) within(patience time.Duration, what string, cond func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited %s in vain until %s", patience, what)
		}
	}
}

// memory is the most memory that a process has needed.
func (p *process) memory() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// stream sends a datagram each millisecond from an address of the server to the client
// until the test ends. It returns when the last one arrived, in Unix nanoseconds.
func (l *lab) stream(from string) *atomic.Int64 {
	const port = 9
	last := new(atomic.Int64)
	var receiver *net.UDPConn
	client := &net.UDPAddr{IP: net.ParseIP(clientAddr), Port: port}
	l.client.Do(func() {
		conn, err := net.ListenUDP("udp", client)
		if err != nil {
			l.t.Fatal(err)
		}
		receiver = conn
	})
	var sender *net.UDPConn
	l.server.Do(func() {
		conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(from)}, client)
		if err != nil {
			l.t.Fatal(err)
		}
		sender = conn
	})
	l.t.Cleanup(func() { sender.Close(); receiver.Close() })
	go func() {
		for buffer := make([]byte, 16); ; {
			if _, err := receiver.Read(buffer); err != nil {
				return
			}
			last.Store(time.Now().UnixNano())
		}
	}()
	go func() {
		// Refusals are the subject of the test; only a closed socket ends it.
		for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
			if _, err := sender.Write([]byte("x")); err != nil && strings.Contains(err.Error(), "closed") {
				return
			}
		}
	}()
	l.eventually("the stream arrives", func() bool { return last.Load() != 0 })
	return last
}
