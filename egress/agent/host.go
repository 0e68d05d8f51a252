package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"hikyaku/egress/kernel"
)

// host makes devices and sysctls as a role needs them, or prints how in a dry run.
type host struct {
	ctx     context.Context
	applier *kernel.Applier
	devices *devices
	dry     io.Writer
	// made are the devices that this run needs.
	made map[string]bool
}

// sysctl is a kernel parameter by its name in sysctl(8): a dot that is part of an
// interface's name is a slash there.
type sysctl struct{ key, value string }

// sysctlRoot is where the kernel has its parameters as files.
const sysctlRoot = "/proc/sys/"

func (s sysctl) path() string {
	return sysctlRoot + strings.NewReplacer(".", "/", "/", ".").Replace(s.key)
}

// ofInterface is a parameter of one interface.
func ofInterface(family, device, name, value string) sysctl {
	return sysctl{"net." + family + ".conf." + strings.ReplaceAll(device, ".", "/") + "." + name, value}
}

// sysctls sets sysctls that are not as needed, or reports them where it may not.
func (h *host) sysctls(set bool, wanted []sysctl) error {
	var wrong []string
	for _, s := range wanted {
		path := s.path()
		value, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading sysctl %s: %w", s.key, err)
		}
		switch {
		case strings.TrimSpace(string(value)) == s.value:
		case h.dry != nil:
			fmt.Fprintf(h.dry, "sysctl -w %s=%s\n", s.key, s.value)
		case !set:
			wrong = append(wrong, s.key+"="+s.value)
		default:
			if err := os.WriteFile(path, []byte(s.value), 0); err != nil {
				return fmt.Errorf("setting sysctl %s to %s: %w", s.key, s.value, err)
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("kernel.set_sysctls is false and these are not as needed: set %s", strings.Join(wrong, " "))
	}
	return nil
}

// restoreSource gives the tunnel source back that was there.
func (h *host) restoreSource(ctx context.Context, source kernel.TunnelSource) error {
	now, err := h.applier.TunnelSource()
	if err != nil || now == source {
		return err
	}
	if !source.IsValid() {
		source.Addr = netip.IPv6Unspecified()
	}
	return h.applier.Apply(ctx, []kernel.Op{{Verb: kernel.Replace, Object: source}})
}

func (h *host) anchor(name string, mtu uint32) error {
	h.made[name] = true
	h.made[name+"p"] = true
	if h.dry != nil {
		fmt.Fprintf(h.dry, "# make the device %s with MTU %d, for SRv6 nexthops\n", name, mtu)
		return nil
	}
	return h.applier.EnsureAnchor(h.ctx, name, mtu)
}

// vrf makes a table's VRF device. Its sysctls are set whatever kernel.set_sysctls says, since
// nobody else uses the device. The reverse path filter would look for the way back to a server
// among the routes of the peer.
func (h *host) vrf(table uint32) error {
	name := vrfName(table)
	h.made[name] = true
	if h.dry != nil {
		fmt.Fprintf(h.dry, "ip link add %s up type vrf table %d\n", name, table)
		return nil
	}
	if err := h.applier.EnsureVRF(h.ctx, name, table); err != nil {
		return err
	}
	return h.sysctls(true, vrfSysctls(name))
}

func vrfSysctls(name string) []sysctl {
	return []sysctl{
		ofInterface("ipv6", name, "disable_ipv6", "0"), ofInterface("ipv6", name, "forwarding", "1"),
		ofInterface("ipv4", name, "forwarding", "1"), ofInterface("ipv4", name, "rp_filter", "0"),
	}
}

// pair makes a table's pair of devices. Their sysctls are set whatever kernel.set_sysctls says,
// since nobody else uses the devices.
func (h *host) pair(table uint32) error {
	enter, leave := pairNames(table)
	h.made[enter], h.made[leave] = true, true
	if h.dry != nil {
		fmt.Fprintf(h.dry, "ip link add %s type veth peer name %s  # up, without ARP, with one address\n", enter, leave)
		return nil
	}
	if err := h.applier.EnsurePair(h.ctx, enter, table, loopbackMTU); err != nil {
		return err
	}
	return h.sysctls(true, []sysctl{
		ofInterface("ipv6", enter, "disable_ipv6", "0"), ofInterface("ipv6", leave, "disable_ipv6", "0"),
		ofInterface("ipv6", leave, "forwarding", "1"), ofInterface("ipv4", leave, "forwarding", "1"),
		ofInterface("ipv4", leave, "rp_filter", "0"),
	})
}

// missing is the error of features that are needed and not there.
func missing(f kernel.Features, needed ...string) error {
	var errs []error
	for _, m := range f.Missing {
		for _, name := range needed {
			if m.Feature == name {
				errs = append(errs, errors.New(m.String()))
			}
		}
	}
	return fmt.Errorf("this kernel lacks what is needed here: %w", errors.Join(errs...))
}
