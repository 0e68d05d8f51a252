package preflight

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// Sysctl is a kernel parameter that an agent needs.
type Sysctl struct {
	// Key is the name in sysctl(8), File its place below /proc/sys.
	Key, File string
	// Want is the needed value.
	Want string
}

// Input describes a check.
type Input struct {
	File     *config.File
	Features kernel.Features
	// Needed are the features that this configuration uses, by their names in
	// [kernel.Features], with how bad it is to lack them.
	Needed []Need
	// Sysctls are those that the agent needs; SetSysctls: it sets them itself.
	Sysctls    []Sysctl
	SetSysctls bool
	// ByPair: IPv4 packets of servers pass a pair of devices, since the kernel has no VRF.
	ByPair bool
	// Thorough adds the checks that connect to neighbours and read whole tables.
	Thorough bool
	// Running is the agent that runs here, "" for none: its sessions are not tried.
	Running string
}

// Need is a feature of the kernel that a configuration uses.
type Need struct {
	Feature  string
	Severity Severity
}

// checker has the state of one pass over a machine.
type checker struct {
	Input
	report
	ctx     context.Context
	common  *config.Common
	handle  *netlink.Handle
	devices map[string]netlink.Link
	// owned are the addresses of this machine.
	owned []ownAddress
}

// ownAddress is an address of this machine.
type ownAddress struct {
	netip.Prefix
	device     string
	deprecated bool
}

// Run makes all checks that concern the configuration, and returns their findings in a
// fixed order. It fails only where nothing of the machine can be read.
func Run(ctx context.Context, in Input) ([]Finding, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("checking the machine: opening a netlink socket: %w", err)
	}
	defer handle.Close()
	c := &checker{Input: in, ctx: ctx, common: in.File.Common(), handle: handle}
	if err := c.readDevices(); err != nil {
		return nil, fmt.Errorf("checking the machine: %w", err)
	}
	c.features()
	c.sysctls()
	c.interfaces()
	c.sessions()
	c.ports()
	c.locators()
	c.rules()
	c.managers()
	if in.Thorough {
		c.tables()
		if in.Running == "" {
			c.neighbours()
		}
	}
	return c.findings, nil
}

// readDevices reads the interfaces and the addresses of the machine.
func (c *checker) readDevices() error {
	links, err := c.handle.LinkList()
	if err != nil {
		return fmt.Errorf("listing devices: %w", err)
	}
	c.devices = make(map[string]netlink.Link)
	names := make(map[int]string)
	for _, link := range links {
		c.devices[link.Attrs().Name] = link
		names[link.Attrs().Index] = link.Attrs().Name
	}
	addresses, err := c.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addresses {
		ip, _ := netip.AddrFromSlice(a.IP)
		length, _ := a.Mask.Size()
		c.owned = append(c.owned, ownAddress{
			Prefix: netip.PrefixFrom(ip.Unmap(), length), device: names[a.LinkIndex],
			deprecated: a.Flags&unix.IFA_F_DEPRECATED != 0,
		})
	}
	return nil
}

// own finds an address of this machine.
func (c *checker) own(a netip.Addr) (ownAddress, bool) {
	i := slices.IndexFunc(c.owned, func(o ownAddress) bool { return o.Addr() == a.WithZone("") })
	if i < 0 {
		return ownAddress{}, false
	}
	return c.owned[i], true
}

// route asks the kernel for the way to an address, or for the entry of a table that it takes.
func (c *checker) route(to netip.Addr, options netlink.RouteGetOptions) (netlink.Route, error) {
	routes, err := c.handle.RouteGetWithOptions(net.IP(to.AsSlice()), &options)
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if err != nil {
		return netlink.Route{}, err
	}
	return routes[0], nil
}

// features reports those that this configuration needs and the kernel lacks.
func (c *checker) features() {
	for _, need := range c.Needed {
		for _, m := range c.Features.Missing {
			if m.Feature == need.Feature {
				c.add(checkFeature, need.Severity, fmt.Sprintf("the kernel lacks %s: %s", m.Feature, m.Cause), m.Consequence,
					"use a kernel that has it; docs/egress-deploy.md, \"Before you begin\", lists the options")
			}
		}
	}
}
