package rtr

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stayrtr runs the cache of that name with VRPs until the test ends, at an address of ours.
type stayrtr struct {
	t       *testing.T
	program string
	file    string
	address string
	version string
	stop    func()
}

func newStayRTR(t *testing.T, version string) *stayrtr {
	t.Helper()
	program, err := exec.LookPath("stayrtr")
	if err != nil {
		t.Skipf("SKIPPED, nothing is tested with a real RPKI cache: %v (Debian's package stayrtr)", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return &stayrtr{t: t, program: program, file: filepath.Join(t.TempDir(), "vrps.json"), address: l.Addr().String(), version: version}
}

// write replaces the cache's VRPs, as "PREFIX MAXLENGTH AS".
func (s *stayrtr) write(vrps ...string) {
	s.t.Helper()
	var roas []string
	for _, v := range vrps {
		var prefix string
		var maxLength, as int
		if _, err := fmt.Sscan(v, &prefix, &maxLength, &as); err != nil {
			s.t.Fatal(err)
		}
		roas = append(roas, fmt.Sprintf(`{"prefix":%q,"maxLength":%d,"asn":"AS%d","ta":"test"}`, prefix, maxLength, as))
	}
	now := time.Now().Unix()
	text := fmt.Sprintf(`{"metadata":{"buildmachine":"test","buildtime":%q,"generated":%d,"valid":%d},"roas":[%s]}`,
		time.Now().UTC().Format(time.RFC3339), now, now+86400, strings.Join(roas, ","))
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stayrtr) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, s.program, "-bind", s.address, "-cache", s.file, "-checktime=false", "-metrics.addr", "127.0.0.1:0",
		"-protocol", s.version, "-refresh", "1")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.stop = func() {
		cancel()
		cmd.Wait()
	}
	s.t.Cleanup(func() { s.stop() })
}

func TestStayRTR(t *testing.T) {
	for _, version := range []string{"0", "1"} {
		t.Run("version "+version, func(t *testing.T) {
			s := newStayRTR(t, version)
			s.write("2a00:501::/32 40 64496", "193.0.0.0/16 24 64498")
			s.start()
			w := watch(t, &fakeCache{listener: elsewhere{s.address}}, nil)
			w.waitFor("193.0.0.0/16-24 => AS64498; " + first)
			s.write("2a00:501::/32 40 64496", "2a00:502::/32 32 64497")
			w.waitFor(first + second)
			if got := fmt.Sprint(w.Status().Version); got != version {
				t.Errorf("version %s", got)
			}
			// Data stay while the cache is away, and the next one's replace them.
			s.stop()
			w.waitUntil(func() bool { return !w.Status().Up }, "end of the connection")
			if n := w.Status().VRPs; n != 2 {
				t.Errorf("%d VRPs are left", n)
			}
			s.write("2a00:502::/32 32 64497")
			s.start()
			w.waitFor(second)
		})
	}
}

// elsewhere is a listener's address alone.
type elsewhere struct{ address string }

func (e elsewhere) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(e.address))
}
func (elsewhere) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (elsewhere) Close() error              { return nil }
