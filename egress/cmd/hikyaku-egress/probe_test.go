package main_test

import (
	"encoding/json"
	"io"
	"net"
	"strconv"
	"time"

	"hikyaku/egress/netnstest"
)

// received counts the packets that a transit got from the border.
func (l *lab) received(n int) int {
	l.t.Helper()
	var links []struct {
		Stats64 struct{ Rx struct{ Packets int } }
	}
	if err := json.Unmarshal([]byte(l.transits[n].ns.IP("-j -s link show dev border")), &links); err != nil {
		l.t.Fatal(err)
	}
	return links[0].Stats64.Rx.Packets
}

const echoPort = 7

// startEcho answers datagrams to the client, and accepts connections.
func (l *lab) startEcho() {
	l.client.Do(func() {
		address := net.JoinHostPort(clientAddr, strconv.Itoa(echoPort))
		conn, err := net.ListenPacket("udp", address)
		if err != nil {
			l.t.Fatal(err)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			l.t.Fatal(err)
		}
		l.t.Cleanup(func() { conn.Close(); listener.Close() })
		go func() {
			buffer := make([]byte, 1500)
			for {
				n, from, err := conn.ReadFrom(buffer)
				if err != nil {
					return
				}
				conn.WriteTo(buffer[:n], from)
			}
		}()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go io.Copy(conn, conn)
			}
		}()
	})
}

// ping sends one datagram from an address of the server to the client, and reports
// whether an answer came.
func (l *lab) ping(from string) bool { return l.pings(from, 1, 300*time.Millisecond) == 1 }

// pings counts the answers to some datagrams, one after the other.
func (l *lab) pings(from string, count int, patience time.Duration) (answers int) {
	l.server.Do(func() {
		local := &net.UDPAddr{IP: net.ParseIP(from)}
		conn, err := net.DialUDP("udp", local, &net.UDPAddr{IP: net.ParseIP(clientAddr), Port: echoPort})
		if err != nil {
			return // no address, or no way
		}
		defer conn.Close()
		for range count {
			if _, err := conn.Write([]byte("ping")); err != nil {
				continue
			}
			conn.SetReadDeadline(time.Now().Add(patience))
			if _, err := conn.Read(make([]byte, 16)); err == nil {
				answers++
			}
		}
	})
	return answers
}

// expectTransit fails the test unless pings from an address leave by a transit.
func (l *lab) expectTransit(from string, n int) {
	l.t.Helper()
	const count = 20
	before := [2]int{l.received(0), l.received(1)}
	if answers := l.pings(from, count, netnstest.Deadline); answers != count {
		l.t.Errorf("%d of %d pings from %s were answered", answers, count, from)
	}
	// BGP and neighbour discovery send some packets, too.
	took, other := l.received(n)-before[n], l.received(1-n)-before[1-n]
	if took < count || other >= count {
		l.t.Errorf("%d pings from %s: transit %d got %d packets, the other one %d", count, from, n+1, took, other)
	}
}
