package speaker

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"hikyaku/egress/speaker/wire"
)

// roleDaemons are daemons of other people that know roles, as a transit that insists on them.
var roleDaemons = []daemon{
	{
		name: "frr bgpd", binary: "/usr/lib/frr/bgpd", args: frr.args,
		config: func(at netip.AddrPort, clients []netip.Addr) string {
			c := clients[0]
			return fmt.Sprintf("router bgp 64601\n bgp router-id %[1]s\n no bgp ebgp-requires-policy\n no bgp network import-check\n"+
				" neighbor %[2]s remote-as %[3]d\n neighbor %[2]s passive\n neighbor %[2]s ebgp-multihop 2\n neighbor %[2]s update-source %[1]s\n"+
				" neighbor %[2]s local-role provider strict-mode\n address-family ipv4 unicast\n  network 193.0.2.0/24\n  neighbor %[2]s route-map HOP out\n exit-address-family\n"+
				"!\nroute-map HOP permit 10\n set ip next-hop 192.0.2.7\n",
				at.Addr(), c, ownAS)
		},
	},
	{
		name: "bird", binary: "bird",
		config: func(at netip.AddrPort, clients []netip.Addr) string {
			return fmt.Sprintf("router id %[1]s;\nprotocol static {\n ipv4;\n route 193.0.2.0/24 unreachable;\n}\n"+
				"protocol bgp {\n local %[1]s port %[2]d as 64601;\n neighbor %[3]s as %[4]d;\n multihop 2;\n passive on;\n"+
				" local role provider;\n require roles on;\n ipv4 {\n  import all;\n  export all;\n  next hop address 192.0.2.7;\n };\n}\n",
				at.Addr(), at.Port(), clients[0], ownAS)
		},
		args: func(_ netip.AddrPort, dir, config string) []string {
			return []string{"-f", "-c", config, "-s", filepath.Join(dir, "ctl"), "-P", filepath.Join(dir, "pid")}
		},
	},
}

// A transit that insists on roles gets ours, and marks its routes as for customers only.
func TestRolesOfOtherDaemons(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for _, d := range roleDaemons {
		t.Run(d.name, func(t *testing.T) {
			borderAt := loopback()
			at := d.start(t, borderAt)
			n := Neighbor{
				Name: "t", Address: at.Addr(), Port: at.Port(), AS: 64601, LocalAddress: borderAt, Families: []Family{IPv4Unicast},
				MultihopTTL: 2, Role: wire.Customer, StrictRole: true,
			}
			s := startSpeaker(t, borderAt, Config{Neighbors: []Neighbor{n}})
			skipTo[PeerUp](s, nil)
			l := skipTo[Learned](s, nil)
			if a := l.Attributes; !a.HasOTC || a.OTC != 64601 || a.ASPath.First() != 64601 {
				t.Errorf("%s announces %v with OTC %t %d", d.name, l.Prefixes, a.HasOTC, a.OTC)
			}
			n.Name, n.Role = "wrong", wire.LateralPeer
			if err := s.RemoveNeighbor("t"); err != nil {
				t.Fatal(err)
			}
			s.connect(n)
			skipTo(s, func(none NoSession) bool { return none.Peer == "wrong" })
		})
	}
}
