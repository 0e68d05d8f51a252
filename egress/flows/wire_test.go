package flows

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"hikyaku/egress/netnstest"
)

const clientPort = 5000

func (m manner) key(proto uint8) Key {
	return Key{SID: m.sid, Src: m.source, Dst: m.client, Proto: proto, SrcPort: m.port, DstPort: clientPort}
}

// Real traffic in each manner, through both hooks. UDP has as many packets and bytes as
// were sent, TCP as many as its own socket says. All together have as many as the interface
// says that it sent.
func TestTrafficIsCountedAsOnTheWire(t *testing.T) {
	for _, hook := range []Hook{HookTCX, HookClsact} {
		t.Run(hook.String(), func(t *testing.T) {
			var c *Counter
			l := newLab(t, 1600, func(l *lab) {
				l.segmentInSoftware()
				c = l.attach(Options{Plain: true, MaxFlows: 1000, Hook: hook})
			})
			if c.Hook() != hook {
				t.Errorf("attached by %s", c.Hook())
			}
			book := make(ledger)
			want := make(map[Key]Counts)
			for _, m := range manners() {
				want[m.key(unix.IPPROTO_UDP)] = l.sendUDP(m)
				want[m.key(unix.IPPROTO_TCP)] = l.sendTCP(m, 5<<20)
			}
			l.server.IP("link set eth0 down") // now nothing is sent any more
			book.read(t, c)
			for key, counts := range want {
				if got := book[key][Flow]; got != counts {
					t.Errorf("%v: counted %+v, sent %+v", key, got, counts)
				}
			}
			if got, sent := book.all(), l.sent(); got != sent {
				t.Errorf("counted %+v in all, the interface sent %+v", got, sent)
			}
		})
	}
}

// The same with super-packets handed to the interface as they are, UDP's too.
func TestOffloadedSuperPacketsAreCountedAsOnTheWire(t *testing.T) {
	var c *Counter
	l := newLab(t, 1600, func(l *lab) { c = l.attach(Options{MaxFlows: 1000}) })
	book := make(ledger)
	for _, m := range manners() {
		wantTCP := l.sendTCP(m, 5<<20)
		wantUDP := l.sendUDPSegments(m)
		book.read(t, c)
		if got := book[m.key(unix.IPPROTO_TCP)][Flow]; got != wantTCP {
			t.Errorf("TCP, %s: counted %+v, sent %+v", m.name, got, wantTCP)
		}
		if got := book[m.key(unix.IPPROTO_UDP)][Flow]; got != wantUDP {
			t.Errorf("UDP, %s: counted %+v, sent %+v", m.name, got, wantUDP)
		}
	}
	if got, sent := book.all(), l.sent(); got.Packets <= sent.Packets {
		t.Errorf("%d packets counted, %d given to the interface: there were no super-packets to count apart", got.Packets, sent.Packets)
	}
}

// Frames that no stack would send, cut off anywhere, and some whose headers are not in the
// linear part. Packet sockets put only the link header there when a frame is larger than a
// page.
func TestMalformedFramesOnTheWireAreCounted(t *testing.T) {
	var c *Counter
	l := newLab(t, 9000, func(l *lab) { c = l.attach(Options{Plain: true, MaxFlows: 10_000}) })
	var frames [][]byte
	for _, f := range append(readableFrames(), unreadableFrames()...) {
		for length := 14; length <= len(f.frame); length++ {
			frames = append(frames, f.frame[:length])
		}
	}
	for payload := 3900; payload < 4200; payload += 10 {
		frames = append(frames, encapsulated(sidB, protoIPv6, ipv6(host, client, protoUDP, udp(1, 2, payload))))
	}
	l.sendRaw(frames)
	l.server.IP("link set eth0 down")
	book := make(ledger)
	book.read(t, c)
	if got, sent := book.all(), l.sent(); got != sent || sent.Packets < uint64(len(frames)) {
		t.Errorf("counted %+v, the interface sent %+v, of which frames %d", got, sent, len(frames))
	}
	large := Key{SID: sidB, Src: host, Dst: client, Proto: unix.IPPROTO_UDP, SrcPort: 1, DstPort: 2}
	if got := book[large][Flow]; got.Packets != 30 {
		t.Errorf("of 30 frames whose headers are not linear %d were counted for their flow", got.Packets)
	}
}

// sendUDP sends datagrams of many sizes and returns what that is on the wire.
func (l *lab) sendUDP(m manner) Counts {
	l.tb.Helper()
	conn := l.dial("udp", netip.AddrPortFrom(m.source, m.port), netip.AddrPortFrom(m.client, clientPort))
	receiver, _ := l.listen("udp", netip.AddrPortFrom(m.client, clientPort))
	defer receiver.Close()
	var want Counts
	buffer := make([]byte, 2000)
	for size := 1; size < 1400; size += 7 {
		if _, err := conn.Write(buffer[:size]); err != nil {
			l.tb.Fatal(err)
		}
		if n, _, err := receiver.ReadFrom(buffer); err != nil || n != size {
			l.tb.Fatalf("%s: the client got %d bytes of %d, error %v", m.name, n, size, err)
		}
		want = want.Plus(Counts{Packets: 1, Bytes: uint64(m.headers + 8 + size)})
	}
	return want
}

// sendUDPSegments sends super-packets of UDP (UDP_SEGMENT).
func (l *lab) sendUDPSegments(m manner) Counts {
	l.tb.Helper()
	conn := l.dial("udp", netip.AddrPortFrom(m.source, m.port), netip.AddrPortFrom(m.client, clientPort))
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		l.tb.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if err := unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000); err != nil {
			l.tb.Fatal(err)
		}
	}); err != nil {
		l.tb.Fatal(err)
	}
	receiver, _ := l.listen("udp", netip.AddrPortFrom(m.client, clientPort))
	defer receiver.Close()
	var want Counts
	for _, size := range []int{5000, 4001, 1000, 999, 10_500} {
		if _, err := conn.Write(make([]byte, size)); err != nil {
			l.tb.Fatal(err)
		}
		segments := (size + 999) / 1000
		want = want.Plus(Counts{Packets: uint64(segments), Bytes: uint64(segments*(m.headers+8) + size)})
	}
	return want
}

// sendTCP sends that many bytes and returns what the socket says it sent, once
// all is acknowledged. The headers of its segments have 12 bytes of options
// (timestamps), that with SYN has 20.
func (l *lab) sendTCP(m manner, size int) Counts {
	l.tb.Helper()
	_, listener := l.listen("tcp", netip.AddrPortFrom(m.client, clientPort))
	// Both ends stay open until the test ends: closing sends segments, too.
	l.tb.Cleanup(func() { listener.Close() })
	received := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- -1
			return
		}
		n, _ := io.Copy(io.Discard, conn)
		received <- n
		_, _ = listener.Accept() // keeps conn open until the listener closes
		conn.Close()
	}()
	conn := l.dial("tcp", netip.AddrPortFrom(m.source, m.port), netip.AddrPortFrom(m.client, clientPort)).(*net.TCPConn)
	if _, err := conn.Write(make([]byte, size)); err != nil {
		l.tb.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		l.tb.Fatal(err)
	}
	if n := <-received; n != int64(size) {
		l.tb.Fatalf("%s: the client got %d bytes of %d", m.name, n, size)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		l.tb.Fatal(err)
	}
	var info *unix.TCPInfo
	netnstest.Eventually(l.tb, "all is acknowledged", func() bool {
		if err := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil {
			l.tb.Fatal(err)
		}
		return info.Unacked == 0
	})
	headers := uint64(m.headers + 20 + 12)
	return Counts{Packets: uint64(info.Segs_out), Bytes: uint64(info.Segs_out)*headers + info.Bytes_sent + 8}
}

// sendRaw sends frames through a packet socket.
func (l *lab) sendRaw(frames [][]byte) {
	l.tb.Helper()
	l.server.Do(func() {
		link, err := net.InterfaceByName(device)
		if err != nil {
			l.tb.Fatal(err)
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			l.tb.Fatal(err)
		}
		defer unix.Close(fd)
		to := &unix.SockaddrLinklayer{Ifindex: link.Index, Halen: 6}
		for i, frame := range frames {
			if err := unix.Sendto(fd, frame, 0, to); err != nil {
				l.tb.Fatalf("sending frame %d of %d bytes: %v", i, len(frame), err)
			}
		}
	})
}
