package kernel

import (
	"os"
	"reflect"
	"testing"

	"hikyaku/egress/netnstest"
)

func TestProbeExplainsEachMissingFeature(t *testing.T) {
	netnstest.RequireRoot(t)
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{
		"NexthopObjects": f.NexthopObjects, "Seg6": f.Seg6, "Seg6Reduced": f.Seg6Reduced,
		"EndDT6": f.EndDT6, "VRF": f.VRF, "EndDT6VRF": f.EndDT6VRF, "EndDT4": f.EndDT4,
		"EndDT46": f.EndDT46, "EndDX4": f.EndDX4, "Veth": f.Veth, "AddressProtocol": f.AddressProtocol, "MPTCP": f.MPTCP,
		"MPTCPUserspace": f.MPTCPUserspace, "MPTCPSchedulers": f.MPTCPSchedulers, "EBPF": f.EBPF, "BTF": f.BTF,
	}
	missing := make(map[string]bool)
	for _, m := range f.Missing {
		t.Log(m)
		missing[m.Feature] = true
		if m.Cause == nil || m.Consequence == "" {
			t.Errorf("%s is missing without a cause or consequence: %+v", m.Feature, m)
		}
		if _, known := found[m.Feature]; !known {
			t.Errorf("%s is not a feature", m.Feature)
		}
	}
	for feature, there := range found {
		if there == missing[feature] {
			t.Errorf("%s is found: %t, and explained as missing: %t", feature, there, missing[feature])
		}
	}
	// Every kernel that the project's set-up accepts has these; the paths need them.
	if !f.NexthopObjects || !f.Seg6 || !f.EndDT6 {
		t.Errorf("SRv6 by nexthop objects was not found: %+v", f)
	}
	if after, _ := os.Readlink("/proc/self/ns/net"); after != before {
		t.Errorf("the process went from %s to %s", before, after)
	}
}

// TestProbeWithoutItsOwnNamespace probes in a namespace that is in use.
func TestProbeWithoutItsOwnNamespace(t *testing.T) {
	ns := netnstest.New(t, "probe")
	want, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := func() (text string) {
		for _, command := range []string{"nexthop show", "-o link show", "-o addr show", "-6 rule show", "-4 rule show", "-6 route show table all"} {
			text += ns.IP(command)
		}
		return text
	}
	ns.IP("link set lo up")
	before := all()
	var got Features
	ns.Do(func() { got, err = probeHere(t.Context(), false) })
	if err != nil {
		t.Fatal(err)
	}
	if after := all(); after != before {
		t.Errorf("the probe left something behind. Before:\n%s\nafter:\n%s", before, after)
	}
	got.Missing, want.Missing = nil, nil // causes differ
	if !reflect.DeepEqual(got, want) {
		t.Errorf("in a namespace in use the probe finds %+v, in its own %+v", got, want)
	}
}
