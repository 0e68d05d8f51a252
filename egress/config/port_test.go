package config

import "testing"

const goodPort = `
[[port]]
name = "ix-1"
number = 1
interface = "eth1"
capacity = "2.5Gbps"
kind = "peering"
`

func TestPorts(t *testing.T) {
	border := mustParse(t, goodBorder+goodPort+`
[[port]]
name = "transit"
number = 2
interface = "eth2"
capacity = "10Gbps"
price = 0.4567
billing = "p95"
commit = "500Mbps"
billing_day = 15
fill = 80
`).Border
	want := []Port{
		{"ix-1", 1, "eth1", 2_500_000_000, 90, PortPeering, 0, BillingFlat, 0, 1},
		{"transit", 2, "eth2", 10_000_000_000, 80, PortTransit, 457, BillingPercentile, 500_000_000, 15},
	}
	for i, port := range want {
		if border.Ports[i] != port {
			t.Errorf("port %d is %+v instead of %+v", i, border.Ports[i], port)
		}
	}
}

func TestWrongPorts(t *testing.T) {
	runBadCases(t, goodBorder+goodPort, []badCase{
		{"a rate without unit", `"2.5Gbps"`, `"2500"`, []string{
			"port[0].capacity: `capacity`: `2500` is no rate; expected " + rateForm}},
		{"no capacity", `capacity = "2.5Gbps"`, "", []string{
			"port[0].capacity: `capacity` is missing: the rate that the port carries without loss, such as \"10Gbps\""}},
		{"full above all", `kind = "peering"`, "fill = 100", []string{
			"port[0].fill: `fill` is 100: it must be 10 to 95 per cent of the capacity; above, packets are lost"}},
		{"a day that February has not", `kind = "peering"`, "billing_day = 30", []string{
			"port[0].billing_day: `billing_day` is 30: it must be 1 to 28, which every month has"}},
		{"a commitment without a bill", `kind = "peering"`, `commit = "1Gbps"`, []string{
			"port[0].commit: `commit` of `ix-1` needs `billing = \"p95\"`: with \"flat\" the bill does not depend on traffic"}},
		{"a bill without a price", `kind = "peering"`, `billing = "p95"`, []string{
			"port[0].billing: `billing` \"p95\" of `ix-1` needs a `price`: without one its traffic costs nothing"}},
		{"a price below nothing", `kind = "peering"`, `price = -1`, []string{
			"port[0].price: `price`: -1 is no price; expected a number from 0 to 1000000"}},
	})
}
