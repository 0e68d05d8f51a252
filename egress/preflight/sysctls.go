package preflight

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hikyaku/egress/config"
)

// sysctls reports those that are not as the agent needs them, unless it sets them itself.
func (c *checker) sysctls() {
	for _, s := range c.Sysctls {
		value, err := readSysctl(s.File)
		path := filepath.Join("/proc/sys", s.File)
		switch {
		case err != nil:
			c.add(checkSysctl, Error, fmt.Sprintf("the sysctl %s cannot be read: %s", s.Key, err),
				"the agent needs it and does not start without", "build the part of the kernel in, or load its module")
		case value == s.Want:
		case !c.SetSysctls:
			c.add(checkSysctl, Error, fmt.Sprintf("%s is %s, and kernel.set_sysctls is false", s.Key, value),
				fmt.Sprintf("the agent needs %s and does not start without", s.Want), fmt.Sprintf("sysctl -w %s=%s", s.Key, s.Want))
		case unix.Access(path, unix.W_OK) != nil:
			c.add(checkSysctl, Error, fmt.Sprintf("%s is %s, and this process may not set it", s.Key, value),
				fmt.Sprintf("the agent needs %s and sets it at its start", s.Want),
				fmt.Sprintf("sysctl -w %s=%s, or no ProtectKernelTunables in the unit", s.Key, s.Want))
		}
	}
	c.reversePathFilter()
}

// reversePathFilter reports strict filters that drop IPv4 packets whose source is not reached by
// the device that they come in by.
func (c *checker) reversePathFilter() {
	if s := c.File.Server; s != nil {
		c.filteringServer(s)
	}
	if !c.ByPair {
		return
	}
	if value, err := readSysctl("net/ipv4/conf/all/rp_filter"); err == nil && value == "1" {
		c.add(checkReversal, Error, "net.ipv4.conf.all.rp_filter is 1 (strict)",
			"without VRF devices, IPv4 packets of servers pass a pair of devices that no route to the servers uses; they are dropped there",
			"sysctl -w net.ipv4.conf.all.rp_filter=0, and set 1 on the single interfaces that shall have it")
	}
}

// filteringServer reports a filter that drops packets to an IPv4 EPE address. By the rules of its
// path, the way back to a client is by the agent's device, which 1 (strict) forbids. There is
// none to the gateway that asks for the address by ARP, which 2 (loose) forbids as well.
func (c *checker) filteringServer(s *config.Server) {
	hasIPv4 := slices.ContainsFunc(s.Paths, func(p config.Path) bool {
		return slices.ContainsFunc(p.Addresses, netip.Addr.Is4)
	})
	own, err := readSysctl(filepath.Join("net/ipv4/conf", s.SRv6.Interface, "rp_filter"))
	all, _ := readSysctl("net/ipv4/conf/all/rp_filter")
	if !hasIPv4 || err != nil || max(own, all) == "0" { // the kernel takes the larger of both
		return
	}
	c.add(checkReversal, Error, fmt.Sprintf("the reverse path filter of %s is on: net.ipv4.conf.%[1]s.rp_filter is %s, that of all %s", s.SRv6.Interface, own, all),
		"it drops packets to IPv4 EPE addresses, from the ARP request of the gateway on",
		fmt.Sprintf("sysctl -w net.ipv4.conf.%s.rp_filter=0 net.ipv4.conf.all.rp_filter=0", s.SRv6.Interface))
}

func readSysctl(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/proc/sys", file))
	return strings.TrimSpace(string(text)), err
}
