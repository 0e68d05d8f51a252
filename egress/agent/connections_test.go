package agent

import (
	"net/netip"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/mptcp"
)

func TestManagedConnection(t *testing.T) {
	local, remote := netip.MustParseAddrPort("[::ffff:198.51.100.1]:443"), netip.MustParseAddrPort("[::ffff:203.0.113.7]:50000")
	e := mptcp.Explained{
		Connection: mptcp.Connection{
			Token: 7, Local: local, Remote: remote, Hint: mptcp.Hint{Class: "interactive"},
			Subflows: []mptcp.Subflow{
				{Local: local, Remote: remote, LocalBackup: true},
				{Local: netip.MustParseAddrPort("198.51.100.161:443"), Remote: remote, PeerBackup: true},
			},
		},
		Decision: mptcp.Decision{Mode: mptcp.Aggregated, Reason: "rule \"all\""},
		Paths:    []string{"", "transit-a"},
	}
	e.First = &e.Subflows[1]
	c := managedConnection(e)
	if c.Mode != api.Aggregated || c.Class != "interactive" || c.Local.String() != "198.51.100.1:443" {
		t.Errorf("the connection is %+v", c)
	}
	want := "rule \"all\", data go by 198.51.100.161:443 alone, which the edge server puts first"
	if c.Reason != want {
		t.Errorf("the reason is %q, want %q", c.Reason, want)
	}
	if a, b := c.Subflows[0], c.Subflows[1]; !a.Backup || a.ClientBackup || b.Backup || !b.ClientBackup || b.Path != "transit-a" {
		t.Errorf("the subflows are %+v", c.Subflows)
	}
}
