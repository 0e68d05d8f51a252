package flows

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkThroughput sends through SRv6 over a veth pair, in turns with and
// without counting; the share is the median of that of all pairs. UDP datagrams,
// each a packet of its own, are the worst case: TCP is counted once for many.
func BenchmarkThroughput(b *testing.B) {
	b.Run("TCP", func(b *testing.B) {
		l := newLab(b, 1600, func(*lab) {})
		received := l.sendSteadily(manners()[0])
		inTurns(b, l, "Gbit/s", func() float64 {
			before, began := received.Load(), time.Now()
			time.Sleep(500 * time.Millisecond)
			return float64(received.Load()-before) * 8 / time.Since(began).Seconds() / 1e9
		})
	})
	b.Run("UDP datagrams", func(b *testing.B) {
		l := newLab(b, 1600, func(*lab) {})
		m := manners()[0]
		receiver, _ := l.listen("udp", netip.AddrPortFrom(m.client, clientPort))
		defer receiver.Close()
		conn := l.dial("udp", netip.AddrPortFrom(m.source, m.port), netip.AddrPortFrom(m.client, clientPort))
		datagram := make([]byte, 1200)
		inTurns(b, l, "Mpkt/s", func() float64 {
			const datagrams = 50_000
			began := time.Now()
			for range datagrams {
				if _, err := conn.Write(datagram); err != nil {
					b.Fatal(err)
				}
			}
			return datagrams / time.Since(began).Seconds() / 1e6
		})
	})
}

// inTurns measures a rate without and with counting.
func inTurns(b *testing.B, l *lab, unit string, rate func() float64) {
	b.Helper()
	var with, without, share measured
	rate()
	for b.Loop() {
		off := rate()
		c := l.attach(Options{})
		on := rate()
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
		without.add(off)
		with.add(on)
		share.add(on / off * 100)
	}
	b.ReportMetric(with.median(), unit+"-with")
	b.ReportMetric(without.median(), unit+"-without")
	b.ReportMetric(share.median(), "%-of-without")
}

// sendSteadily sends TCP until the test ends, and counts what arrives.
func (l *lab) sendSteadily(m manner) *atomic.Int64 {
	l.tb.Helper()
	received := new(atomic.Int64)
	_, listener := l.listen("tcp", netip.AddrPortFrom(m.client, clientPort))
	l.tb.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for buffer := make([]byte, 1<<18); err == nil; {
			var n int
			n, err = conn.Read(buffer)
			received.Add(int64(n))
		}
	}()
	conn := l.dial("tcp", netip.AddrPortFrom(m.source, m.port), netip.AddrPortFrom(m.client, clientPort))
	go sendUntilClosed(conn)
	return received
}

func sendUntilClosed(conn net.Conn) {
	for buffer := make([]byte, 1<<18); ; {
		if _, err := conn.Write(buffer); err != nil {
			return
		}
	}
}
