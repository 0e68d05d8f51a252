package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
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

// reversePathFilter reports a strict filter that drops IPv4 packets behind a veth pair: their
// source is not reached by that device.
func (c *checker) reversePathFilter() {
	if !c.ByPair {
		return
	}
	if value, err := readSysctl("net/ipv4/conf/all/rp_filter"); err == nil && value == "1" {
		c.add(checkReversal, Error, "net.ipv4.conf.all.rp_filter is 1 (strict)",
			"without VRF devices, IPv4 packets of servers pass a pair of devices that no route to the servers uses; they are dropped there",
			"sysctl -w net.ipv4.conf.all.rp_filter=0, and set 1 on the single interfaces that shall have it")
	}
}

func readSysctl(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/proc/sys", file))
	return strings.TrimSpace(string(text)), err
}
