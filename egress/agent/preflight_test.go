package agent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/preflight"
)

// TestNeedsOfIPv4 checks how a border takes IPv4 by its kernel and its configuration, and what
// it needs for that.
func TestNeedsOfIPv4(t *testing.T) {
	pair := kernel.Features{EndDX4: true, Veth: true}
	all := kernel.Features{EndDX4: true, Veth: true, VRF: true, EndDT46: true}
	for _, test := range []struct {
		name, vrf string
		families  string
		features  kernel.Features
		byPair    bool
		sysctl    string
		needed    []string
	}{
		{"IPv6 alone", "auto", `["ipv6"]`, all, false, "", nil},
		{"a kernel with VRF", "auto", `["ipv6", "ipv4"]`, all, false, "net.vrf.strict_mode", nil},
		{"VRF off", "off", `["ipv6", "ipv4"]`, all, true, "net.ipv4.ip_forward", nil},
		{"a kernel without VRF", "auto", `["ipv4"]`, pair, true, "net.ipv4.ip_forward", nil},
		{"a kernel with neither", "auto", `["ipv4"]`, kernel.Features{}, false, "", []string{"EndDX4", "Veth"}},
		{"VRF on", "on", `["ipv4"]`, pair, true, "", []string{"VRF", "EndDT46"}},
	} {
		text := strings.Replace(borderTOML, "[[reflector]]", "vrf = \""+test.vrf+"\"\n[[reflector]]", 1) + "families = " + test.families + "\n"
		file, err := config.Parse("border.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		in := preflightInput(file, test.features)
		var needed []string
		for _, n := range in.Needed {
			if n.Feature != "NexthopObjects" && n.Feature != "EndDT6" {
				needed = append(needed, n.Feature)
			}
		}
		has := slices.ContainsFunc(in.Sysctls, func(s preflight.Sysctl) bool { return s.Key == test.sysctl })
		if in.ByPair != test.byPair || !slices.Equal(needed, test.needed) || (test.sysctl != "" && !has) {
			t.Errorf("%s: by pair %v, needs %q, sysctls %v", test.name, in.ByPair, needed, in.Sysctls)
		}
	}
}

// The table of a VRF device has the routes of one peer, and mostly none to servers. The reverse
// path filter would drop their packets.
func TestSysctlsOfAVRFDevice(t *testing.T) {
	want := map[string]string{
		"/proc/sys/net/ipv4/conf/hkvrf10001/rp_filter": "0", "/proc/sys/net/ipv4/conf/hkvrf10001/forwarding": "1",
		"/proc/sys/net/ipv6/conf/hkvrf10001/forwarding": "1", "/proc/sys/net/ipv6/conf/hkvrf10001/disable_ipv6": "0",
	}
	got := make(map[string]string)
	for _, s := range vrfSysctls(vrfName(10001)) {
		got[s.path()] = s.value
	}
	if !maps.Equal(got, want) {
		t.Errorf("the sysctls are %v, want %v", got, want)
	}
}
