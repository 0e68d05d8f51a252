package agent

import (
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/kernel"
	"hikyaku/egress/netnstest"
)

// TestNeighboursAreFound: the kernel knows no neighbour before it is asked to find one, and
// forgets them.
func TestNeighboursAreFound(t *testing.T) {
	near, far := netnstest.New(t, "near"), netnstest.New(t, "far")
	netnstest.Veth(t, netnstest.End{NS: near, Device: "eth0", Addresses: netnstest.Addresses("2001:db8::1/64", "192.0.2.1/24")},
		netnstest.End{NS: far, Device: "eth0", Addresses: netnstest.Addresses("2001:db8::2/64", "192.0.2.2/24")}, 0)
	linkLocal, _, _ := strings.Cut(strings.Fields(far.IP("-6 -o addr show dev eth0 scope link"))[3], "/")
	var watched []kernel.MainHop
	for _, a := range []string{"2001:db8::2", "192.0.2.2", linkLocal, "2001:db8::3"} {
		watched = append(watched, kernel.MainHop{Device: "eth0", Gateway: netip.MustParseAddr(a)})
	}
	var d *devices
	var err error
	near.Do(func() { d, err = openDevices() })
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	var macs map[kernel.MainHop]string
	netnstest.Eventually(t, "three neighbours are found", func() bool {
		if macs, err = d.neighbours(watched, nil); err != nil {
			t.Fatal(err)
		}
		return len(macs) == 3
	})
	for _, hop := range watched[:3] {
		if macs[hop] == "" || macs[hop] != macs[watched[0]] {
			t.Errorf("%s has the link-layer address %x", hop.Gateway, macs[hop])
		}
	}
	near.IP("neigh flush dev eth0")
	near.IP("link set eth0 arp off") // so that it finds nobody
	if again, err := d.neighbours(watched, macs); err != nil || len(again) != 0 {
		t.Errorf("without neighbour discovery there are %d neighbours, %v", len(again), err)
	}
	near.IP("link set eth0 arp on")
	far.IP("link set eth0 down")
	far.IP("link set eth0 arp off")
	far.IP("link set eth0 up")
	netnstest.Eventually(t, "the link is up", func() bool { return strings.Contains(near.IP("link show eth0"), "LOWER_UP") })
	if again, err := d.neighbours(watched, macs); err != nil || len(again) != 3 {
		t.Errorf("of neighbours that do not answer %d are known, %v; want the last ones", len(again), err)
	}
}
