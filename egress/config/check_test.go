package config

import (
	"strings"
	"testing"
)

func TestWrongCommonKeys(t *testing.T) {
	long := "/" + strings.Repeat("x", 107)
	runBadCases(t, goodServer, []badCase{
		{"waiting on a multicast address", "", "[bgp]\nlisten = ['ff02::1']\n", []string{
			"bgp.listen[0]: `listen` has ff02::1, which is multicast"}},
		{"no port", "", "[bgp]\nport = 0\n", []string{"bgp.port: `port` is 0: BGP's is 179"}},
		{"a hold time of half seconds", "", "[bgp]\nhold_time = '3.5s'\n", []string{
			"bgp.hold_time: `hold_time` is 3.5s: it must be whole seconds from 3s to 65535s (RFC 4271 §4.2)"}},
		{"times that are too short", "", "[bgp]\nconnect_retry = '10ms'\nstale_time = '0s'\n", []string{
			"bgp.connect_retry: `connect_retry` is 10ms: at least 1s is needed",
			"bgp.stale_time: `stale_time` is 0s: at least 1s is needed"}},
		{"a restart that takes too long", "", "[bgp]\nrestart_time = '2h'\n", []string{
			"bgp.restart_time: `restart_time` is 2h0m0s: it must be whole seconds, at most 1h8m15s (RFC 4724 §3)"}},
		{"a passive session without address", `name = "rr1"`, "name = 'rr1'\npassive = true\n[bgp]\nlisten = ['192.0.2.11']\n[[reflector]]\nname = 'rr2'", []string{
			"reflector[0].address: `address` is missing: the neighbour's address"}},
		{"a relative socket", "", "[api]\nsocket = 'api.sock'\n", []string{
			"api.socket: `socket` is `api.sock`: it must be an absolute path"}},
		{"a socket whose path is too long", "", "[api]\nsocket = '" + long + "'\n", []string{
			"api.socket: `socket` has 108 bytes: a Unix socket's path has at most 107"}},
		{"a socket that the owner can't use", "", "[api]\nmode = '0060'\n", []string{
			"api.mode: `mode` 0060 does not let the owner read and write: start with 06"}},
		{"a group that is not there", "", "[api]\ngroup = 'nosuchgroup'\n", []string{
			"api.group: there is no group `nosuchgroup` here: make it with `groupadd --system nosuchgroup`, or name another"}},
		{"a group by number", "", "[api]\ngroup = '4711'\n", nil},
		{"a relative state directory", "", "[state]\ndir = ''\n", []string{
			"state.dir: `dir` is ``: it must be an absolute path"}},
		{"flows read too often, forgotten too soon", "", "[flows]\ninterval = '1ms'\nidle = '0s'\nmax_flows = 7\n", []string{
			"flows.interval: `interval` is 1ms: at least 10ms is needed",
			"flows.idle: `idle` is 0s: at least 1s is needed",
			"flows.max_flows: `max_flows` is 7: it must be 1024 to 8388608"}},
		{"a relative file of flows", "", "[flows]\njson = 'flows.json'\n", []string{
			"flows.json: `json` is `flows.json`: expected \"off\", \"stdout\" or an absolute path"}},
		{"two forms in one place", "", "[flows]\njson = 'stdout'\ncsv = 'stdout'\n", []string{
			"flows.csv: `json` and `csv` both go to stdout: send one elsewhere"}},
		{"an interface of flows that can't be", "", "[flows]\ninterfaces = ['much-too-long-name']\n", []string{
			"flows.interfaces[0]: `much-too-long-name` is no interface name: 1 to 15 characters, no spaces, no `/` and no `:`"}},
	})
}

func TestListenersThatANeighbourCanReach(t *testing.T) {
	cases := []struct{ name, listen, address, want string }{
		{"IPv6 waits for IPv6", "::", "2001:db8::53", ""},
		{"the IPv6 wildcard takes IPv4, too", "::", "192.0.2.53", ""},
		{"an IPv6 address does not take IPv4", "2001:db8:5::1", "192.0.2.53",
			"reflector[0].passive: `rr1` is passive, but `bgp.listen` has no IPv4 address to wait on"},
		{"IPv4 does not take IPv6", "0.0.0.0", "2001:db8::53",
			"reflector[0].passive: `rr1` is passive, but `bgp.listen` has no IPv6 address to wait on"},
	}
	for _, c := range cases {
		text := strings.Replace(goodServer, `address = "2001:db8::53"`, "address = '"+c.address+"'\npassive = true", 1) +
			"[bgp]\nlisten = ['" + c.listen + "']\n"
		if got := strings.Join(problemsOf(t, text), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
