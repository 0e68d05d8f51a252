package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Port is an interface by which packets leave the AS, with its capacity and its price. Peers
// whose next hops are on the interface share it.
type Port struct {
	// Name for logs, metrics and the API. Needed.
	Name string `toml:"name"`
	// Number of the port at this border, from 1 up, never given to another one: by it
	// clients have their places in the port's shares. Needed.
	Number uint8 `toml:"number"`
	// Interface whose outgoing bytes are counted, those of plain packets among them. Needed.
	Interface string `toml:"interface"`
	// Capacity is the rate that the port carries without loss. Needed.
	Capacity Rate `toml:"capacity"`
	// Fill is the percentage of the capacity above which clients leave the port, 10 to 95.
	// Default 90.
	Fill uint8 `toml:"fill"`
	// Kind is "peering" or "transit". Default "transit".
	Kind PortKind `toml:"kind"`
	// Price of a Mbit/s for a month, in any unit of money that all ports share. Among routes
	// of the same quality the cheapest port wins. Default 0.
	Price Price `toml:"price"`
	// Billing: "p95" bills the 95th percentile of the month's rates, and "flat" the same for
	// any traffic. Default "flat".
	Billing Billing `toml:"billing"`
	// Commit is the rate that is billed anyway, with "p95". Default "0bps".
	Commit Rate `toml:"commit"`
	// BillingDay is the day on which a month of the bill begins, in UTC, 1 to 28. Default 1.
	BillingDay uint8 `toml:"billing_day"`
}

// PortKind is the kind of neighbours that a port leads to.
type PortKind string

// The kinds of ports.
const (
	PortPeering PortKind = "peering"
	PortTransit PortKind = "transit"
)

// Billing is what a port's bill depends on.
type Billing string

// The kinds of bills.
const (
	BillingFlat       Billing = "flat"
	BillingPercentile Billing = "p95"
)

// Rate is in bit/s.
type Rate uint64

// Price is in thousandths.
type Price uint32

func defaultPort() Port {
	return Port{Fill: 90, Kind: PortTransit, Billing: BillingFlat, BillingDay: 1}
}

const rateForm = "a number and one of bps, kbps, Mbps, Gbps, Tbps as a string, such as \"10Gbps\""

var (
	rateText  = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(bps|kbps|Mbps|Gbps|Tbps)$`)
	rateUnits = map[string]float64{"bps": 1, "kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9, "Tbps": 1e12}
)

// parseRate reads what the edge server's configuration has for rates, too.
func parseRate(text string) (Rate, error) {
	match := rateText.FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("`%s` is no rate; expected %s", text, rateForm)
	}
	number, err := strconv.ParseFloat(match[1], 64)
	if bits := number * rateUnits[match[2]]; err == nil && bits < 1e18 {
		return Rate(math.Round(bits)), nil
	}
	return 0, fmt.Errorf("`%s` is too large; expected %s", text, rateForm)
}

const maxPrice = 1_000_000

func parsePrice(text string) (any, error) {
	number, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || !(number >= 0 && number <= maxPrice) {
		return nil, fmt.Errorf("%s is no price; expected a number from 0 to %d", text, maxPrice)
	}
	return Price(math.Round(1000 * number)), nil
}

// portChecker checks ports, each alone and against the others.
type portChecker struct {
	*decoder
	names, interfaces unique[string]
	numbers           unique[uint8]
}

func (d *decoder) checkPorts(ports []Port) {
	c := portChecker{d, newUnique[string]("name"), newUnique[string]("interface"), newUnique[uint8]("number")}
	for i := range ports {
		c.check(&ports[i], fmt.Sprintf("port[%d]", i))
	}
}

func (c portChecker) check(p *Port, path string) {
	owner := named(path, p.Name)
	c.need(path+".name", "a name for logs, metrics and the API")
	c.names.add(c.decoder, path+".name", owner, p.Name)
	c.need(path+".number", "the port's number at this border, from 1 up, never given to another one")
	if c.usable(path+".number") && p.Number == 0 {
		c.report(path+".number", "`number` is 0: it must be 1 to 255")
	}
	c.numbers.add(c.decoder, path+".number", owner, p.Number)
	c.need(path+".interface", "the interface whose outgoing bytes are counted")
	if c.usable(path + ".interface") {
		c.checkInterface(path+".interface", p.Interface)
	}
	c.interfaces.add(c.decoder, path+".interface", owner, p.Interface)
	c.need(path+".capacity", "the rate that the port carries without loss, such as \"10Gbps\"")
	if c.usable(path+".capacity") && p.Capacity < 1e3 {
		c.report(path+".capacity", "`capacity` is %d bit/s: it must be at least 1kbps", p.Capacity)
	}
	if p.Fill < 10 || p.Fill > 95 {
		c.report(path+".fill", "`fill` is %d: it must be 10 to 95 per cent of the capacity; above, packets are lost", p.Fill)
	}
	if p.BillingDay < 1 || p.BillingDay > 28 {
		c.report(path+".billing_day", "`billing_day` is %d: it must be 1 to 28, which every month has", p.BillingDay)
	}
	if p.Commit > 0 && p.Billing == BillingFlat {
		c.report(path+".commit", "`commit` of %s needs `billing = \"p95\"`: with \"flat\" the bill does not depend on traffic", owner)
	}
	if p.Billing == BillingPercentile && p.Price == 0 && !c.wrong[path+".price"] {
		c.report(path+".billing", "`billing` \"p95\" of %s needs a `price`: without one its traffic costs nothing", owner)
	}
}
