package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel"
)

// anchor is the device that SRv6 nexthops and endpoints hang on. It is a formality:
// packets leave by the route to their SID. But the kernel removes nexthop objects
// when their device loses its carrier, so it must not be a real one.
const anchor = "hikyaku-srv6"

// devices answers for the devices of one network namespace, and removes the agent's
// own, which package kernel marks by their group.
type devices struct {
	handle *netlink.Handle
}

func openDevices() (*devices, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	return &devices{handle: handle}, nil
}

func (d *devices) close() { d.handle.Close() }

// mtu returns the MTU of a device that a key of the configuration names, in bytes.
func (d *devices) mtu(key, name string) (uint32, error) {
	link, err := d.handle.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("finding the interface %q of `%s`: %w", name, key, err)
	}
	return uint32(link.Attrs().MTU), nil
}

// sent returns how many bytes have left by a device.
func (d *devices) sent(name string) (bytes uint64, err error) {
	link, err := d.handle.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("reading the counter of the interface %q: %w", name, err)
	}
	statistics := link.Attrs().Statistics
	if statistics == nil {
		return 0, fmt.Errorf("the interface %q has no counter", name)
	}
	return statistics.TxBytes, nil
}

// state returns the MTU of a device in bytes, and whether it is up with a carrier.
func (d *devices) state(name string) (mtu uint32, up bool, err error) {
	link, err := d.handle.LinkByName(name)
	if err != nil {
		return 0, false, err
	}
	const running = unix.IFF_UP | unix.IFF_LOWER_UP
	a := link.Attrs()
	return uint32(a.MTU), a.RawFlags&running == running, nil
}

// borderAnchor is the anchor of a server for the paths of one border. Its MTU is the path
// MTU towards that border, so that one message changes it for 200,000 routes.
func borderAnchor(border netip.Addr) string {
	return fmt.Sprintf("%s%x", borderAnchorPrefix, border.As4())
}

const borderAnchorPrefix = "hksr"

// isAnchor holds for either end of an anchor.
func isAnchor(device string) bool {
	return device == anchor || device == anchor+"p" || strings.HasPrefix(device, borderAnchorPrefix)
}

const vrfPrefix = "hkvrf"

// vrfName is the VRF device of a table.
func vrfName(table uint32) string { return fmt.Sprintf("%s%d", vrfPrefix, table) }

const pairPrefix = "hkpair"

// pairNames are the two ends of a table's pair of devices, for IPv4 without a VRF device.
func pairNames(table uint32) (enter, leave string) {
	enter = fmt.Sprintf("%s%x", pairPrefix, table)
	return enter, enter + "p"
}

// isOf reports whether a device is a table's VRF, or an end of its pair.
func isOf(table uint32, device string) bool {
	enter, leave := pairNames(table)
	return device == vrfName(table) || device == enter || device == leave
}

// isOwn recognizes our devices by the group that package kernel gives them. Another
// program may use that number, too, so the name counts as well.
func isOwn(a *netlink.LinkAttrs) bool {
	return a.Group == uint32(kernel.Protocol) &&
		(isAnchor(a.Name) || strings.HasPrefix(a.Name, vrfPrefix) || strings.HasPrefix(a.Name, pairPrefix))
}

// own returns the names of our devices.
func (d *devices) own() (map[string]bool, error) {
	links, err := d.handle.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing devices: %w", err)
	}
	names := make(map[string]bool)
	for _, link := range links {
		if attrs := link.Attrs(); isOwn(attrs) {
			names[attrs.Name] = true
		}
	}
	return names, nil
}

// remove removes all devices of ours but those to keep.
func (d *devices) remove(keep map[string]bool) error {
	links, err := d.handle.LinkList()
	if err != nil {
		return fmt.Errorf("listing devices: %w", err)
	}
	var errs []error
	for _, link := range links {
		if attrs := link.Attrs(); isOwn(attrs) && !keep[attrs.Name] {
			// The other end of a pair goes with the first.
			if err := d.handle.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
				errs = append(errs, fmt.Errorf("removing the device %s: %w", attrs.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// errNoNeighbour reports that an address is our own, or many hosts', or nobody's.
var errNoNeighbour = errors.New("it is not a neighbour's")

// route asks the kernel for the way to an address, over one interface if named.
func (d *devices) route(to net.IP, device string) (gateway net.IP, by string, err error) {
	options := &netlink.RouteGetOptions{Oif: device}
	routes, err := d.handle.RouteGetWithOptions(to, options)
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if err != nil {
		return nil, "", err
	}
	if routes[0].Type != unix.RTN_UNICAST {
		return nil, "", fmt.Errorf("%w: the route to it is of type %d (see rtnetlink(7))", errNoNeighbour, routes[0].Type)
	}
	link, err := d.handle.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return nil, "", err
	}
	return routes[0].Gw, link.Attrs().Name, nil
}
