package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

func TestRange(t *testing.T) {
	for _, c := range []struct {
		first string
		i     int
		want  string
	}{
		{"2001:db8::/48", 0, "2001:db8::/48"},
		{"2001:db8::/48", 1, "2001:db8:1::/48"},
		{"2001:db8::/48", 0x10000, "2001:db9::/48"},
		{"2001:db8::/45", 2, "2001:db8:10::/45"},
		{"2001:db8:ffff::/48", 1, "2001:db9::/48"},
		{"2001:db8::/64", 258, "2001:db8:0:102::/64"},
	} {
		r := prefixRange{netip.MustParsePrefix(c.first), 1 << 20}
		if got := r.at(c.i); got.String() != c.want {
			t.Errorf("%s, %d: %s, want %s", c.first, c.i, got, c.want)
		}
	}
}

func TestWrongCommands(t *testing.T) {
	l := &lean{}
	for _, line := range []string{
		"", "sing", "announce", "announce 2001:db8::1/48", "withdraw 192.0.2.0/24",
		"load 2001:db8::/48", "load 2001:db8::/48 none", "churn 2001:db8::/48 10 0 1s /tmp/x",
	} {
		if err := obey(t.Context(), l, strings.Fields(line)); err == nil {
			t.Errorf("%q was done", line)
		}
	}
	if err := obey(t.Context(), &daemon{}, []string{"close"}); err == nil {
		t.Error("GoBGP got the command to close its connection, and did not refuse")
	}
}

// border is a neighbour that counts the routes that it receives.
type border struct {
	t    *testing.T
	conn net.Conn
	has  map[netip.Prefix]bool
}

func connect(t *testing.T, s settings) *border {
	t.Helper()
	to := netip.AddrPortFrom(s.local, s.port).String()
	conn, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	b := &border{t: t, conn: conn, has: map[netip.Prefix]bool{}}
	open, err := openMessage(settings{as: s.neighbourAS, id: netip.MustParseAddr("192.0.2.1")})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*bgp.BGPMessage{open, bgp.NewBGPKeepAliveMessage(), bgp.NewEndOfRib(bgp.RF_IPv6_UC)} {
		bytes, err := m.Serialize()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(bytes); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// until reads updates until there are so many prefixes.
func (b *border) until(count int) {
	b.t.Helper()
	for len(b.has) != count {
		if err := b.read(); err != nil {
			b.t.Fatalf("with %d of %d prefixes: %v", len(b.has), count, err)
		}
	}
}

func (b *border) read() error {
	header := make([]byte, bgp.BGP_HEADER_LENGTH)
	if err := b.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := io.ReadFull(b.conn, header); err != nil {
		return err
	}
	message := slices.Grow(header, int(binary.BigEndian.Uint16(header[16:])))[:binary.BigEndian.Uint16(header[16:])]
	if _, err := io.ReadFull(b.conn, message[len(header):]); err != nil {
		return err
	}
	m, err := bgp.ParseBGPMessage(message)
	if err != nil {
		return err
	}
	u, ok := m.Body.(*bgp.BGPUpdate)
	if !ok {
		return nil
	}
	for _, a := range u.PathAttributes {
		switch a := a.(type) {
		case *bgp.PathAttributeMpReachNLRI:
			for _, n := range a.Value {
				b.has[netip.MustParsePrefix(n.NLRI.String())] = true
			}
		case *bgp.PathAttributeMpUnreachNLRI:
			for _, n := range a.Value {
				delete(b.has, netip.MustParsePrefix(n.NLRI.String()))
			}
		}
	}
	return nil
}

func start(t *testing.T) (*lean, *border) {
	t.Helper()
	free, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	s := settings{
		local: netip.IPv6Loopback(), neighbour: netip.IPv6Loopback(), id: netip.MustParseAddr("198.51.100.1"),
		as: 64601, neighbourAS: 64500, port: netip.MustParseAddrPort(free.Addr().String()).Port(),
	}
	free.Close()
	l, err := listen(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	b := connect(t, s)
	if err := l.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l, b
}

func TestTableIsAnnouncedAndChurned(t *testing.T) {
	l, b := start(t)
	const count = 1234
	first := netip.MustParsePrefix("2001:db8::/48")
	if err := l.load(prefixRange{first, count}); err != nil {
		t.Fatal(err)
	}
	b.until(count)
	log := filepath.Join(t.TempDir(), "churn")
	done := make(chan error, 1)
	go func() { done <- l.churn(t.Context(), prefixRange{first, count}, 2000, 200*time.Millisecond, log) }()
	// The messages read so far have a withdrawal, once anything was lacking.
	b.until(count - 1)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	announced, withdrawn := bytes.Count(text, []byte(" announce ")), bytes.Count(text, []byte(" withdraw "))
	if announced != withdrawn || announced+withdrawn < 400 {
		t.Errorf("%d were announced, %d withdrawn", announced, withdrawn)
	}
	if err := l.withdraw([]netip.Prefix{netip.MustParsePrefix("2001:db8:5::/48")}); err != nil {
		t.Fatal(err)
	}
	b.until(count)
	b.until(count - 1)
	if b.has[netip.MustParsePrefix("2001:db8:5::/48")] {
		t.Error("a withdrawn prefix is still there")
	}
}

func TestHangUp(t *testing.T) {
	l, b := start(t)
	if err := l.announce([]netip.Prefix{netip.MustParsePrefix("2001:db8::/48")}); err != nil {
		t.Fatal(err)
	}
	b.until(1)
	if err := l.hangUp(); err != nil {
		t.Fatal(err)
	}
	if err := b.read(); err == nil {
		t.Error("the connection is still there")
	}
	if err := l.announce([]netip.Prefix{netip.MustParsePrefix("2001:db8::/48")}); err == nil {
		t.Error("something was announced without a session")
	}
	l.admit()
	again := connect(t, l.settings)
	if err := l.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.announce([]netip.Prefix{netip.MustParsePrefix("2001:db8:1::/48")}); err != nil {
		t.Fatal(err)
	}
	again.until(1)
}

func TestGoBGPSpeaks(t *testing.T) {
	free, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	s := settings{
		local: netip.IPv6Loopback(), neighbour: netip.IPv6Loopback(), id: netip.MustParseAddr("198.51.100.1"),
		as: 64601, neighbourAS: 64500, port: netip.MustParseAddrPort(free.Addr().String()).Port(),
	}
	free.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	d, err := startGoBGP(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b := connect(t, s)
	if err := d.wait(ctx); err != nil {
		t.Fatal(err)
	}
	prefix := []netip.Prefix{netip.MustParsePrefix("2001:db8::/48")}
	if err := d.announce(prefix); err != nil {
		t.Fatal(err)
	}
	b.until(1)
	if err := d.withdraw(prefix); err != nil {
		t.Fatal(err)
	}
	b.until(0)
}
