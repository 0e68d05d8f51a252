package main_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hikyaku/egress/netnstest"
)

// guideLab is the network of the guide, whose addresses its samples have:
//
//	            transit A (64496) ── eth1 ┐                  ┌ reflector 2001:db8::53
//	client ────┤                          border ── core ────┤
//	            transit B (64497) ── eth2 ┘ 2001:db8::b1     └ server 2001:db8:5::1
//
// Transit A makes its path longer, so that the plain way is by B.
type guideLab struct {
	t                                       *testing.T
	border, core, reflector, server, client *machine
	transits                                [2]*machine
	restartOwn                              func()
	// needsExtendedNextHop: the reflector passes IPv4 on only to neighbours with this capability.
	needsExtendedNextHop bool
}

// guideDaemons are the daemons of other people in a [guideLab].
type guideDaemons struct {
	// own starts the border's daemon, and returns a function that starts it anew. bird is
	// the guide's session with transit A for BIRD.
	own func(l *guideLab, g guide, bird string) (restart func())
	// transit starts the daemon of transit n.
	transit   func(l *guideLab, n int)
	reflector func(l *guideLab, g guide)
	// holder is the name of the border's daemon in the kernel.
	holder string
}

// machine is a namespace with files of its own in /etc, /run and /var/lib. Its processes end
// with the holder, the first one, and that with the test.
type machine struct {
	t      *testing.T
	ns     *netnstest.NS
	holder int
	env    []string
	agent  *daemonProcess
	began  int
}

// daemonProcess is a process that a machine's start began.
type daemonProcess struct {
	cmd     *exec.Cmd
	pidFile string
	ended   bool
}

const machineMounts = `
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay overlay -o lowerdir=/etc,upperdir="$1/upper",workdir="$1/work" /etc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /var/tmp
mkdir -p /run/frr /run/bird /etc/hikyaku
chmod 777 /run/frr
echo ready
exec cat
`

func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{t: t, ns: netnstest.New(t, name)}
	holder := m.ns.Command(context.Background(), "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
		"sh", "-ec", machineMounts, "sh", t.TempDir())
	var wrong strings.Builder
	holder.Stderr = &wrong
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); holder.Wait() })
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Skipf("SKIPPED: a machine with files of its own cannot be made here: %s", wrong.String())
	}
	m.holder = firstChild(t, holder.Process.Pid)
	return m
}

// firstChild is the process in the PID namespace that unshare has made.
func firstChild(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatalf("the children of process %d are %q", pid, text)
	}
	return child
}

// command is a line for a shell of the machine.
func (m *machine) command(line string) *exec.Cmd {
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(m.holder), "--mount", "--net", "--pid", "sh", "-ec", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH")+":/usr/sbin:/sbin:/usr/lib/frr")
	cmd.Env = append(cmd.Env, m.env...)
	return cmd
}

// run runs a line to its end and returns its output.
func (m *machine) run(line string) string {
	m.t.Helper()
	var wrong strings.Builder
	cmd := m.command(line)
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		m.t.Fatalf("on %s: %s: %v\n%s%s", m.ns.Name, line, err, out, wrong.String())
	}
	return string(out)
}

func (m *machine) try(line string) error { return m.command(line).Run() }

// start runs a line until the test ends or kill.
func (m *machine) start(line string) *daemonProcess {
	m.t.Helper()
	m.began++
	p := &daemonProcess{pidFile: fmt.Sprintf("/run/began-%d", m.began)}
	p.cmd = m.command("echo $$ >" + p.pidFile + "; exec " + line)
	var out strings.Builder
	p.cmd.Stdout, p.cmd.Stderr = &out, &out
	if err := p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		m.kill(p)
		if m.t.Failed() {
			m.t.Logf("%s on %s:\n%s", line, m.ns.Name, out.String())
		}
	})
	return p
}

// kill ends a process that start began, as a crash does.
func (m *machine) kill(p *daemonProcess) {
	if !p.ended {
		p.ended = true
		_ = m.try("kill -9 $(cat " + p.pidFile + ")") // it may have ended
		p.cmd.Wait()
	}
}

func (m *machine) write(file, text string) {
	m.t.Helper()
	cmd := m.command("cat >" + file)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("writing %s on %s: %v\n%s", file, m.ns.Name, err, out)
	}
}

func newGuideLab(t *testing.T, d guideDaemons) *guideLab {
	netnstest.RequireRoot(t)
	for _, program := range []string{"bird", "/usr/lib/frr/bgpd", "gobgpd", "nft", "curl", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED, the guide's commands are not tried: %v", err)
		}
	}
	l := &guideLab{t: t}
	machines := map[string]**machine{
		"border": &l.border, "core": &l.core, "reflector": &l.reflector, "server": &l.server, "client": &l.client,
		"transita": &l.transits[0], "transitb": &l.transits[1],
	}
	for name, m := range machines {
		*m = newMachine(t, name)
	}
	l.wire()
	l.serveClient()
	for n := range l.transits {
		d.transit(l, n)
	}
	return l
}

func (l *guideLab) wire() {
	end := func(m *machine, device string, addresses ...string) netnstest.End {
		return netnstest.End{NS: m.ns, Device: device, Addresses: netnstest.Addresses(addresses...)}
	}
	for _, m := range []*machine{l.border, l.core, l.transits[0], l.transits[1]} {
		m.ns.Sysctl("net.ipv6.conf.all.forwarding", "1")
	}
	const inside = 1600
	l.core.ns.IP("link add br0 mtu 1600 type bridge")
	netnstest.Veth(l.t, end(l.core, "b"), end(l.border, "eth0", "2001:db8::b1/64"), inside)
	netnstest.Veth(l.t, end(l.core, "r"), end(l.reflector, "eth0", "2001:db8::53/64"), inside)
	netnstest.Veth(l.t, end(l.core, "s", "2001:db8:5::fe/64"), end(l.server, "eth0", "2001:db8:5::1/64"), inside)
	for _, line := range []string{"link set dev b master br0", "link set dev r master br0", "link set br0 up", "addr add 2001:db8::1/64 dev br0 nodad", "-6 route add default via 2001:db8::b1"} {
		l.core.ns.IP(line)
	}
	l.border.ns.IP("-6 route add 2001:db8:5::/64 via 2001:db8::1")
	l.reflector.ns.IP("-6 route add default via 2001:db8::1")
	l.server.ns.IP("-6 route add default via 2001:db8:5::fe")
	l.client.ns.IP("addr add 2001:db9::7/128 dev lo")
	for n, net := range []string{"2001:db8:a", "2001:db8:b"} {
		m, access := l.transits[n], fmt.Sprintf("2001:db8:c%d", n)
		netnstest.Veth(l.t, end(l.border, fmt.Sprintf("eth%d", n+1), net+"::2/64"), end(m, "eth0", net+"::1/64"), 0)
		netnstest.Veth(l.t, end(l.client, fmt.Sprintf("t%d", n), access+"::2/64"), end(m, "eth1", access+"::1/64"), 0)
		m.ns.IP("-6 route add 2001:db9::/32 via " + access + "::2")
		m.ns.IP("-6 route add 2001:db8:5::/64 via " + net + "::2")
		m.run("nft 'add table inet count; add chain inet count f { type filter hook forward priority 0; }; add rule inet count f ip6 saddr 2001:db8:5::/64 counter'")
	}
	l.client.ns.IP("-6 route add default via 2001:db8:c1::1")
}

// through counts the packets of the server that each transit has forwarded.
func (l *guideLab) through() (packets [2]int) {
	l.t.Helper()
	for n, m := range l.transits {
		_, after, _ := strings.Cut(m.run("nft list chain inet count f"), "counter packets ")
		count, _, _ := strings.Cut(after, " ")
		var err error
		if packets[n], err = strconv.Atoi(count); err != nil {
			l.t.Fatal(err)
		}
	}
	return packets
}

// holds reports whether a program of the border has the sessions from these addresses.
func (l *guideLab) holds(program string, addresses ...string) bool {
	l.t.Helper()
	sessions := l.border.run("ss -Htnp state established")
	for _, address := range addresses {
		found := false
		for line := range strings.Lines(sessions) {
			found = found || strings.Contains(line, "["+address+"]") && strings.Contains(line, `"`+program+`"`) && strings.Contains(line, ":179")
		}
		if !found {
			return false
		}
	}
	return true
}

func (l *guideLab) eventually(what string, cond func() bool) {
	l.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("waited in vain for: %s\n%s", what, l.border.run("ss -Htnp"))
		}
	}
}

// serveClient answers https://[2001:db9::7]/, by a certificate that the server trusts.
func (l *guideLab) serveClient() {
	l.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		l.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, IPAddresses: []net.IP{net.ParseIP("2001:db9::7")},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		l.t.Fatal(err)
	}
	l.server.write("/etc/client.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	l.server.env = []string{"CURL_CA_BUNDLE=/etc/client.pem"}
	var listener net.Listener
	l.client.ns.Do(func() { listener, err = net.Listen("tcp", "[2001:db9::7]:443") })
	if err != nil {
		l.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "from the client\n") })}
	l.t.Cleanup(func() { server.Close() })
	go server.Serve(tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}))
}
