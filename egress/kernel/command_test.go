package kernel

import (
	"net/netip"
	"testing"
)

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }
func addr(text string) netip.Addr     { return netip.MustParseAddr(text) }

func TestOpIsTheCommandOfIP(t *testing.T) {
	for want, op := range map[string]Op{
		"ip -6 route add 2001:db8::/32 nhid 7 table 101 mtu 1400 advmss 1340 proto 200": {Add, Route{
			Prefix: prefix("2001:db8::/32"), Table: 101, Nexthop: 7, MTU: 1400, AdvMSS: 1340}},
		"ip -6 route replace blackhole fc00::1/128 table 254 proto 200": Route{
			Prefix: prefix("fc00::1/128"), Table: 254, Nexthop: 7}.Drop(),
		"ip -4 route del 198.51.100.0/24 table 101 metric 5 proto 200": {Delete, Route{
			Prefix: prefix("198.51.100.0/24"), Table: 101, Metric: 5, Nexthop: 7}},
		"ip -6 nexthop add id 7 encap seg6 mode encap segs fc00::1 dev lo proto 200": {Add, Nexthop{
			ID: 7, Family: IPv6, Device: "lo", Encap: Encap, SID: addr("fc00::1")}},
		"ip -6 nexthop add id 7 encap seg6 mode encap.red segs fc00::1 dev lo proto 200": {Add, Nexthop{
			ID: 7, Family: IPv6, Device: "lo", Encap: EncapReduced, SID: addr("fc00::1")}},
		"ip -6 nexthop replace id 8 encap seg6local action End.DT6 table 101 dev lo proto 200": {Replace, Nexthop{
			ID: 8, Family: IPv6, Device: "lo", Local: Local{Action: EndDT6, Table: 101}}},
		"ip -6 nexthop add id 8 encap seg6local action End.DT46 vrftable 101 dev lo proto 200": {Add, Nexthop{
			ID: 8, Family: IPv6, Device: "lo", Local: Local{Action: EndDT46, Table: 101, VRF: true}}},
		"ip -6 nexthop add id 9 via fe80::1 dev eth0 proto 200": {Add, Nexthop{
			ID: 9, Family: IPv6, Device: "eth0", Gateway: addr("fe80::1")}},
		"ip -4 nexthop replace id 9 blackhole proto 200": {Replace, Nexthop{ID: 9, Family: IPv4, Blackhole: true}},
		"ip -4 nexthop del id 9":                         {Delete, Nexthop{ID: 9, Family: IPv4, Device: "lo"}},
		"ip -6 rule add pref 100 from 2001:db8::5/128 lookup 101 protocol 200": {Add, Rule{
			Family: IPv6, Priority: 100, From: prefix("2001:db8::5/128"), Table: 101}},
		"ip -6 rule add pref 101 from 2001:db8::5/128 unreachable protocol 200": {Add, Rule{
			Family: IPv6, Priority: 101, From: prefix("2001:db8::5/128"), Action: RuleUnreachable}},
		"ip -4 rule del pref 90 from all to 192.0.2.0/24 fwmark 0x10/0xffffffff iif lo lookup 101 protocol 200": {Delete, Rule{
			Family: IPv4, Priority: 90, To: prefix("192.0.2.0/24"), Mark: 16, InDevice: "lo", Table: 101}},
		"ip -6 addr add 2001:db8::5/128 dev eth0 nodad preferred_lft 0": {Add, Address{
			Device: "eth0", Prefix: prefix("2001:db8::5/128"), NoDAD: true, Deprecated: true}},
		"ip -6 addr del 2001:db8::5/128 dev eth0": {Delete, Address{Device: "eth0", Prefix: prefix("2001:db8::5/128")}},
		"ip sr tunsrc set 2001:db8::1":            {Replace, TunnelSource{addr("2001:db8::1")}},
	} {
		if got := op.String(); got != want {
			t.Errorf("command\n got %s\nwant %s", got, want)
		}
	}
	if got := (Op{Delete, Route{Prefix: prefix("::/0"), Table: 5}}).Command(201); got != "ip -6 route del ::/0 table 5 proto 201" {
		t.Errorf("with another protocol the command is %q", got)
	}
}
