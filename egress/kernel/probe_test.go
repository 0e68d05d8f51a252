package kernel

import (
	"os"
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
		"EndDT46": f.EndDT46, "AddressProtocol": f.AddressProtocol, "MPTCP": f.MPTCP,
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
