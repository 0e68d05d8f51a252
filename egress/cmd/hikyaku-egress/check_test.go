package main_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/netnstest"
)

// checkLab is a machine with the interfaces of the guide's border and server, and nobody else.
type checkLab struct {
	t    *testing.T
	ns   *netnstest.NS
	root string // stands for / where settings of network managers are read
}

func newCheckLab(t *testing.T) checkLab {
	l := checkLab{t: t, ns: netnstest.New(t, "check"), root: t.TempDir()}
	other := netnstest.New(t, "other")
	end := func(ns *netnstest.NS, device string, addresses ...string) netnstest.End {
		return netnstest.End{NS: ns, Device: device, Addresses: netnstest.Addresses(addresses...)}
	}
	netnstest.Veth(t, end(l.ns, "eth0", "2001:db8::b1/64", "2001:db8:5::1/64"), end(other, "eth0", "2001:db8::53/64"), 1600)
	netnstest.Veth(t, end(l.ns, "eth1", "2001:db8:a::2/64"), end(other, "eth1", "2001:db8:a::1/64"), 1500)
	l.ns.IP("addr add 2001:db8:a::3/64 dev eth1 nodad preferred_lft 0")
	l.ns.IP("-6 route add 2001:db8:b1::/48 via 2001:db8::53")
	other.IP("-6 route add 2001:db8:5::/64 via 2001:db8::b1")
	for _, address := range []string{"[2001:db8::53]:179", "[2001:db8:a::1]:179"} {
		listen(t, other, address)
	}
	return l
}

// listen accepts connections in a namespace until the test ends.
func listen(t *testing.T, ns *netnstest.NS, address string) net.Listener {
	t.Helper()
	var listener net.Listener
	var err error
	ns.Do(func() { listener, err = net.Listen("tcp", address) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// check returns the findings for a configuration, and whether the exit code is that of errors.
func (l checkLab) check(config string) (found map[string]string, failed bool) {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "config.toml")
	write(l.t, file, config)
	cmd := l.ns.Command(l.t.Context(), binary, "check", "--json", "--config", file)
	cmd.Env = append(os.Environ(), "HIKYAKU_EGRESS_PREFLIGHT_ROOT="+l.root)
	var wrong strings.Builder
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	var result struct {
		Role     string
		Findings []struct{ Check, Severity, What, Why, Remedy string }
	}
	if failure := json.Unmarshal(out, &result); failure != nil {
		l.t.Fatalf("check ends with %v, prints %q, and %s: %v", err, out, wrong.String(), failure)
	}
	found = make(map[string]string)
	for _, f := range result.Findings {
		found[f.Check] = f.What
		if f.What == "" || f.Why == "" || f.Remedy == "" {
			l.t.Errorf("finding %s is not whole: %+v", f.Check, f)
		}
		failed = failed || f.Severity == "error"
	}
	if failed != (err != nil) {
		l.t.Errorf("check has the findings %v, and ends with %v", found, err)
	}
	return found, failed
}

// checkCase is a fault of a machine: the commands that make it, and those that mend it.
type checkCase struct {
	name, want string
	error      bool
	do, undo   []string
}

func (l checkLab) try(config string, cases []checkCase) {
	if found, _ := l.check(config); len(found) != 0 {
		l.t.Fatalf("a machine as it should be has the findings %v", found)
	}
	for _, c := range cases {
		for _, line := range c.do {
			l.ns.Run("sh", "-ec", line)
		}
		found, failed := l.check(config)
		if _, has := found[c.want]; !has || len(found) != 1 || failed != c.error {
			l.t.Errorf("%s: the findings are %v (errors: %v), want %s", c.name, found, failed, c.want)
		}
		for _, line := range c.undo {
			l.ns.Run("sh", "-ec", line)
		}
		if found, _ := l.check(config); len(found) != 0 {
			l.t.Fatalf("%s: mended, it has the findings %v", c.name, found)
		}
	}
}

// guideConfig is a configuration of the guide with paths of the test.
func guideConfig(t *testing.T, section string) string {
	return fmt.Sprintf("state.dir = %q\napi.socket = %q\n", t.TempDir(), filepath.Join(t.TempDir(), "s")) +
		readGuide(t).sample(section, "toml", "role")
}

func TestCheckOfABorder(t *testing.T) {
	t.Parallel()
	l := newCheckLab(t)
	config := guideConfig(t, "5.")
	l.try(config, []checkCase{
		{"the second address is preferred", "second-address", true,
			[]string{"ip addr change 2001:db8:a::3/64 dev eth1 preferred_lft forever"}, []string{"ip addr change 2001:db8:a::3/64 dev eth1 preferred_lft 0"}},
		{"nobody has the second address", "second-address", true,
			[]string{"ip addr del 2001:db8:a::3/64 dev eth1"}, []string{"ip addr add 2001:db8:a::3/64 dev eth1 nodad preferred_lft 0"}},
		{"an interface is down", "interface", true, []string{"ip link add eth9 mtu 1600 type veth peer name eth8; ip link set eth0 name eth7; ip link set eth9 name eth0"},
			[]string{"ip link del eth0; ip link set eth7 name eth0"}},
		{"a small MTU", "mtu", false, []string{"ip link set eth0 mtu 1500"}, []string{"ip link set eth0 mtu 1600"}},
		{"a table of others", "table-in-use", false, []string{"ip -6 route add 2001:db8:f0::/48 dev eth1 table 10001 proto 99"},
			[]string{"ip -6 route flush table 10001"}},
		{"a rule of others for a table", "table-in-use", false, []string{"ip -6 rule add from 2001:db8:f1::/48 lookup 10001 priority 500"},
			[]string{"ip -6 rule del priority 500"}},
		{"a rule of others among ours", "rule-in-use", false, []string{"ip rule add from 192.0.2.7 lookup 77 priority 10003"}, []string{"ip rule del priority 10003"}},
		{"a SID of others", "locator-route", true, []string{"ip -6 route add 2001:db8:b1:1::/128 dev eth1"}, []string{"ip -6 route del 2001:db8:b1:1::/128"}},
		{"an address in the locator", "locator-route", true, []string{"ip addr add 2001:db8:b1:9::1/64 dev eth1 nodad"}, []string{"ip addr del 2001:db8:b1:9::1/64 dev eth1"}},
		{"no way to the peer", "neighbour", false, []string{"ip -6 route add unreachable 2001:db8:a::1"}, []string{"ip -6 route del 2001:db8:a::1"}},
		{"no way to the reflector", "reflector", false, []string{"ip -6 route add unreachable 2001:db8::53"}, []string{"ip -6 route del 2001:db8::53"}},
	})
	daemon := listen(t, l.ns, "[::]:179")
	if found, failed := l.check(config); !failed || !strings.Contains(found["bgp-port"], "answers on [2001:db8:a::3]:179") {
		t.Errorf("with another daemon on port 179 the findings are %v", found)
	}
	daemon.Close()
	var conn net.Conn
	var err error
	l.ns.Do(func() {
		conn, err = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("2001:db8:a::3")}}).Dial("tcp", "[2001:db8:a::1]:179")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if found, failed := l.check(config); !failed || found["session-taken"] == "" {
		t.Errorf("with a session of another daemon from the agent's address the findings are %v", found)
	}
}

func TestCheckOfSysctls(t *testing.T) {
	t.Parallel()
	l := newCheckLab(t)
	config := strings.Replace(guideConfig(t, "5."), "[import]", "[kernel]\nset_sysctls = false\n[import]", 1)
	l.ns.Run("sh", "-ec", "sysctl -w net.ipv6.conf.all.forwarding=1 net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.eth0.seg6_enabled=1")
	l.try(config, []checkCase{
		{"no SRv6 on an interface", "sysctl", true, []string{"sysctl -w net.ipv6.conf.eth0.seg6_enabled=0"}, []string{"sysctl -w net.ipv6.conf.eth0.seg6_enabled=1"}},
	})
}

func TestCheckOfAServer(t *testing.T) {
	t.Parallel()
	l := newCheckLab(t)
	config := guideConfig(t, "6.")
	l.try(config, []checkCase{
		{"no route to a locator", "locator-route", true, []string{"ip -6 route del 2001:db8:b1::/48"}, []string{"ip -6 route add 2001:db8:b1::/48 via 2001:db8::53"}},
		{"a smaller way", "mtu", false, []string{"ip -6 route change 2001:db8:b1::/48 via 2001:db8::53 mtu 1500"}, []string{"ip -6 route change 2001:db8:b1::/48 via 2001:db8::53"}},
		{"an EPE address of others", "epe-address", false, []string{"ip addr add 2001:db8:5::a1/64 dev eth0 nodad"}, []string{"ip addr del 2001:db8:5::a1/64 dev eth0"}},
		{"a mark of others", "mark-in-use", false, []string{"ip -6 rule add fwmark 0x680000/0xff0000 lookup 77 priority 500"}, []string{"ip -6 rule del priority 500"}},
	})
}

func TestCheckOfNetworkManagers(t *testing.T) {
	t.Parallel()
	l := newCheckLab(t)
	config := guideConfig(t, "6.")
	file := func(name, text string) {
		path := filepath.Join(l.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	index := strings.TrimSpace(l.ns.Run("cat", "/sys/class/net/eth0/ifindex"))
	file("run/systemd/netif/links/"+index, "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/eth0.network\n")
	file("etc/systemd/network/eth0.network", "[Match]\nName=eth0\n")
	if found, _ := l.check(config); !strings.Contains(found["network-manager"], "KeepConfiguration") {
		t.Errorf("with systemd-networkd the findings are %v", found)
	}
	// As the guide has it.
	file("etc/systemd/networkd.conf.d/hikyaku-egress.conf", readGuide(t).sample("Before you begin", "ini", "ManageForeign"))
	file("etc/systemd/network/eth0.network", "[Match]\nName=eth0\n[Network]\nKeepConfiguration=static\n")
	if found, _ := l.check(config); len(found) != 0 {
		t.Errorf("with the guide's settings the findings are %v", found)
	}
	file("run/NetworkManager/devices/"+index, "[device]\nmanaged=true\n")
	if found, failed := l.check(config); failed || !slices.Equal(keys(found), []string{"network-manager"}) {
		t.Errorf("with NetworkManager the findings are %v", found)
	}
}

func keys(m map[string]string) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}
