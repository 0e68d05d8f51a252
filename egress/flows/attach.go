package flows

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hikyaku/egress/bpf"
)

// filterName marks our tc filter: by it a start finds the filter that a crash left.
const filterName = "hikyaku-flows"

// Our filter's place among those of others. Filters run in order of priority, ours last of
// all, so that it counts the packets that the others let pass. Handle 1 is the only one at
// a priority of our own.
const (
	lastPriority = 0xffff
	filterHandle = 1
)

// attachment is a program in its place.
type attachment interface{ detach() error }

func isInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// attachProgram attaches at the hook and then removes filters of ours that a
// crash left, in this order, so that no packet passes uncounted.
func attachProgram(on netlink.Link, coll *ebpf.Collection, hook Hook) (attachment, Hook, error) {
	program := coll.Programs[bpf.Program]
	if hook == HookAuto || hook == HookTCX {
		attached, err := attachTCX(on, program)
		if err == nil {
			if err := removeLeftovers(on); err != nil {
				return nil, hook, errors.Join(err, attached.detach())
			}
			return attached, HookTCX, nil
		}
		if hook == HookTCX || !errors.Is(err, ebpf.ErrNotSupported) {
			return nil, hook, fmt.Errorf("attaching by tcx: %w", err)
		}
	}
	attached, err := attachClsact(on, program)
	if err != nil {
		return nil, hook, fmt.Errorf("attaching by clsact: %w", err)
	}
	return attached, HookClsact, nil
}

// tcxLink ends with its file descriptor, thus with the process at the latest.
type tcxLink struct{ link.Link }

func attachTCX(on netlink.Link, program *ebpf.Program) (attachment, error) {
	l, err := link.AttachTCX(link.TCXOptions{
		Interface: on.Attrs().Index,
		Program:   program,
		Attach:    ebpf.AttachTCXEgress,
		Anchor:    link.Tail(),
	})
	if err != nil {
		return nil, err
	}
	return tcxLink{l}, nil
}

func (l tcxLink) detach() error { return l.Close() }

// clsactFilter is our tc filter. Its netlink handle stays in the network
// namespace of the interface, wherever detach is called.
type clsactFilter struct {
	handle *netlink.Handle
	filter *netlink.BpfFilter
}

func attachClsact(on netlink.Link, program *ebpf.Program) (attachment, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	filter, err := replaceFilter(handle, on, program)
	if err != nil {
		handle.Close()
		return nil, err
	}
	return &clsactFilter{handle: handle, filter: filter}, nil
}

// replaceFilter adds our filter, or puts the program into the one that a crash
// left, which the kernel does without a gap.
func replaceFilter(handle *netlink.Handle, on netlink.Link, program *ebpf.Program) (*netlink.BpfFilter, error) {
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: on.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := handle.QdiscAdd(qdisc); err != nil && !errors.Is(err, syscall.EEXIST) {
		return nil, fmt.Errorf("adding the clsact qdisc: %w", err)
	}
	others, ours, err := egressFilters(handle, on)
	if err != nil {
		return nil, err
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: on.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS,
			Handle: filterHandle, Protocol: unix.ETH_P_ALL, Priority: freePriority(others),
		},
		Fd: program.FD(), Name: filterName, DirectAction: true,
	}
	if len(ours) > 0 {
		filter.Handle, filter.Priority = ours[0].Handle, ours[0].Priority
	}
	if err := handle.FilterReplace(filter); err != nil {
		return nil, fmt.Errorf("adding the filter at priority %d: %w", filter.Priority, err)
	}
	return filter, nil
}

// freePriority returns the last priority that no other filter has.
func freePriority(others []netlink.Filter) uint16 {
	taken := make(map[uint16]bool)
	for _, other := range others {
		taken[other.Attrs().Priority] = true
	}
	priority := uint16(lastPriority)
	for taken[priority] {
		priority--
	}
	return priority
}

// egressFilters lists the interface's filters, ours apart.
func egressFilters(handle *netlink.Handle, on netlink.Link) (others []netlink.Filter, ours []*netlink.BpfFilter, err error) {
	all, err := handle.FilterList(on, netlink.HANDLE_MIN_EGRESS)
	if err != nil {
		return nil, nil, fmt.Errorf("listing filters: %w", err)
	}
	for _, filter := range all {
		if b, ok := filter.(*netlink.BpfFilter); ok && b.Name == filterName {
			ours = append(ours, b)
			continue
		}
		others = append(others, filter)
	}
	return others, ours, nil
}

// removeLeftovers removes filters of ours. The clsact qdisc stays: removing it
// would remove filters that others add at that moment.
func removeLeftovers(on netlink.Link) error {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("opening a netlink socket: %w", err)
	}
	defer handle.Close()
	_, ours, err := egressFilters(handle, on)
	if err != nil {
		return err
	}
	for _, filter := range ours {
		if err := handle.FilterDel(filter); err != nil {
			return fmt.Errorf("removing the filter that a crash left: %w", err)
		}
	}
	return nil
}

func (f *clsactFilter) detach() error {
	err := f.handle.FilterDel(f.filter)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EINVAL) {
		err = nil // gone with its qdisc or interface
	}
	f.handle.Close()
	return err
}
