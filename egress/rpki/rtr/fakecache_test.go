package rtr

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"hikyaku/egress/rpki"
)

// fakeCache is a cache whose answers a test writes byte by byte.
type fakeCache struct {
	t        *testing.T
	listener net.Listener
}

func newFakeCache(t *testing.T) *fakeCache {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &fakeCache{t, l}
}

// dialogue is the cache's end of a connection.
type dialogue struct {
	t    *testing.T
	conn net.Conn
}

const patience = 30 * time.Second

func (c *fakeCache) accept() *dialogue {
	c.t.Helper()
	c.listener.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	conn, err := c.listener.Accept()
	if err != nil {
		c.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	c.t.Cleanup(func() { conn.Close() })
	return &dialogue{c.t, conn}
}

// expect reads a PDU of the client, which must begin like that.
func (d *dialogue) expect(version uint8, k kind) []byte {
	d.t.Helper()
	head := make([]byte, headerLength)
	if _, err := io.ReadFull(d.conn, head); err != nil {
		d.t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[4:])-headerLength)
	if _, err := io.ReadFull(d.conn, body); err != nil {
		d.t.Fatal(err)
	}
	if head[0] != version || kind(head[1]) != k {
		d.t.Fatalf("the client sent version %d, type %d instead of %d and %d: %q", head[0], head[1], version, k, body)
	}
	return append(head, body...)
}

// expectEnd waits until the client has closed the connection.
func (d *dialogue) expectEnd() {
	d.t.Helper()
	if b, err := io.ReadAll(d.conn); err != nil {
		d.t.Fatalf("after %x: %v", b, err)
	}
}

func (d *dialogue) send(pdus ...[]byte) {
	d.t.Helper()
	for _, p := range pdus {
		if _, err := d.conn.Write(p); err != nil {
			d.t.Fatal(err)
		}
	}
}

func raw(version uint8, k kind, session uint16, body ...byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{version, byte(k)}, session)
	return append(binary.BigEndian.AppendUint32(b, uint32(headerLength+len(body))), body...)
}

func words(numbers ...uint32) (b []byte) {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func prefixPDU(version uint8, flags byte, prefix string, maxLength byte, as uint32) []byte {
	p := netip.MustParsePrefix(prefix)
	k := ipv6Prefix
	if p.Addr().Is4() {
		k = ipv4Prefix
	}
	body := append([]byte{flags, byte(p.Bits()), maxLength, 0}, p.Addr().AsSlice()...)
	return raw(version, k, 0, append(body, words(as)...)...)
}

func errorPDU(version uint8, code uint16, text string) []byte {
	return appendErrorReport(nil, version, protocolError{code, text, nil})
}

// watched is a running client with what it has reported.
type watched struct {
	*Client
	t  *testing.T
	mu sync.Mutex
	// sets are the VRPs after each change.
	sets []string
}

func watch(t *testing.T, c *fakeCache, change func(*Config)) *watched {
	t.Helper()
	w := &watched{t: t}
	config := Config{
		Name: "cache", Address: netip.MustParseAddrPort(c.listener.Addr().String()), ConnectRetry: 10 * time.Millisecond,
		Refresh: time.Hour, Retry: 20 * time.Millisecond, Expire: time.Hour,
		Changed: func(vrps []rpki.VRP) {
			text := ""
			for _, v := range vrps {
				text += v.String() + "; "
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sets = append(w.sets, text)
		},
		Notify: func() {}, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&config)
	}
	w.Client = New(config)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(t.Context())
	}()
	t.Cleanup(func() { <-ended })
	return w
}

// waitFor waits for VRPs.
func (w *watched) waitFor(want string) {
	w.t.Helper()
	w.waitUntil(func() bool { return len(w.sets) > 0 && w.sets[len(w.sets)-1] == want }, "VRPs "+want)
}

func (w *watched) waitUntil(reached func() bool, what string) {
	w.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		ok, sets := reached(), w.sets
		w.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("there are no %s: %q; %+v", what, sets, w.Status())
		}
	}
}
