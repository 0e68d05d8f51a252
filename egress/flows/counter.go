package flows

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"
)

// Hook says where the program is attached.
type Hook uint8

const (
	// HookAuto takes tcx where the kernel has it, else clsact.
	HookAuto Hook = iota
	// HookTCX is a tcx link: it goes with the process, however that ends.
	HookTCX
	// HookClsact is a tc filter in direct-action mode. It outlives a crash and
	// is replaced by the next start.
	HookClsact
)

// String returns the hook's name.
func (h Hook) String() string {
	switch h {
	case HookAuto:
		return "auto"
	case HookTCX:
		return "tcx"
	case HookClsact:
		return "clsact"
	}
	return "invalid"
}

// Defaults and bounds of [Options], and the interval of [Run].
const (
	DefaultMaxFlows = 1 << 17
	LargestMaxFlows = 1 << 23
	DefaultIdle     = 60 * time.Second
	ShortestIdle    = ageEvery
	DefaultInterval = 100 * time.Millisecond
)

// ErrInUse reports that another process counts on the interface.
var ErrInUse = errors.New("flows of this interface are already counted by another process: stop that one first")

// Options of [Attach]. Only Interface is required.
type Options struct {
	// Interface is the name of the physical interface, in the network
	// namespace of the calling thread.
	Interface string
	// MaxFlows is the number of flows that are kept apart at a time; the table
	// has at least twice as many places, 64 bytes each. Default
	// [DefaultMaxFlows] (16 MiB), at most [LargestMaxFlows] (1 GiB).
	MaxFlows int
	// Idle is how long a flow keeps its place without a packet. Default
	// [DefaultIdle]; an eighth of it while the table is over three quarters full.
	Idle time.Duration
	// Plain counts packets without SRv6, too (with the zero SID), so that the
	// sum of everything is the traffic that the interface sent.
	Plain bool
	// Hook is where to attach. Default [HookAuto].
	Hook Hook
}

// withDefaults fills in options that are not set, and refuses those that cannot work.
func (o Options) withDefaults() (Options, error) {
	if o.MaxFlows == 0 {
		o.MaxFlows = DefaultMaxFlows
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	if o.MaxFlows < 1 || o.MaxFlows > LargestMaxFlows {
		return o, fmt.Errorf("counting at most %d flows: choose 1 to %d", o.MaxFlows, LargestMaxFlows)
	}
	if o.Idle < ageEvery {
		return o, fmt.Errorf("forgetting flows idle for %v: choose at least %v", o.Idle, ageEvery)
	}
	return o, nil
}

// Counter is an attached program and its table. It is not safe for concurrent
// use.
type Counter struct {
	name     string
	program  *program
	table    *table
	attached attachment // nil once detached
	hook     Hook
	lock     net.Listener
	lastRead time.Time
}

// Attach loads the program and attaches it to the interface's egress. It needs
// CAP_BPF and CAP_NET_ADMIN. It fails with [ErrInUse] while another process
// counts there; the program of a crashed one is replaced, filters of others are
// never touched.
//
// The program runs after all other tcx programs (or filters), before the
// interface's queueing discipline: packets that it drops are counted.
func Attach(opts Options) (*Counter, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := attach(opts)
	if err != nil {
		return nil, fmt.Errorf("counting flows on %s: %w", opts.Interface, err)
	}
	return c, nil
}

func attach(opts Options) (*Counter, error) {
	link, err := netlink.LinkByName(opts.Interface)
	if err != nil {
		return nil, fmt.Errorf("finding the interface: %w", err)
	}
	header, err := linkHeader(link)
	if err != nil {
		return nil, err
	}
	c := &Counter{name: opts.Interface, lastRead: time.Now()}
	if c.lock, err = lockInterface(link); err != nil {
		return nil, err
	}
	if c.program, err = load(opts, header); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.table = newTable(c.program.flows, c.program.marks, c.program.sids, opts.Idle, c.program)
	if c.attached, c.hook, err = attachProgram(link, c.program.coll, opts.Hook); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// linkHeader returns the length of the interface's link header.
func linkHeader(link netlink.Link) (uint32, error) {
	switch kind := link.Attrs().EncapType; kind {
	case "ether", "loopback":
		return 14, nil
	case "none":
		return 0, nil
	default:
		return 0, fmt.Errorf("link type %q is not supported: Ethernet or raw IP is", kind)
	}
}

// lockInterface takes an abstract socket's name: it is per network namespace,
// and the kernel gives it back however the process ends.
func lockInterface(link netlink.Link) (net.Listener, error) {
	lock, err := net.Listen("unix", fmt.Sprintf("@hikyaku-flows/%d", link.Attrs().Index))
	if isInUse(err) {
		return nil, ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("locking the interface against a second counter: %w", err)
	}
	return lock, nil
}

// Hook returns where the program is attached: [HookTCX] or [HookClsact].
func (c *Counter) Hook() Hook { return c.hook }

// Read fills s with the flows that grew since the read before. It reuses s.Records. What
// was read before an error is in s all the same.
func (c *Counter) Read(now time.Time, s *Sample) error {
	if c.table == nil {
		return fmt.Errorf("reading flows of %s: the counter is closed", c.name)
	}
	records, err := c.table.read(now, s.Records[:0])
	*s = Sample{
		Time: now, Elapsed: now.Sub(c.lastRead), Interface: c.name, Records: records,
		Flows: c.table.used, Capacity: len(c.table.flows),
	}
	c.lastRead = now
	if err != nil {
		return fmt.Errorf("reading flows of %s: %w", c.name, err)
	}
	return nil
}

// Detach takes the program off the interface and waits until no CPU runs it. So the next
// Read is the last that can find anything.
func (c *Counter) Detach() error {
	if c.attached == nil {
		return nil
	}
	if err := c.attached.detach(); err != nil {
		return fmt.Errorf("detaching the flows program from %s: %w", c.name, err)
	}
	c.attached = nil
	c.table.finish()
	return c.program.settle()
}

// Close detaches and gives the table back. Closing again is no error.
func (c *Counter) Close() error {
	errs := []error{c.Detach()}
	if c.table != nil {
		c.table.close()
	}
	if c.program != nil {
		errs = append(errs, c.program.close())
	}
	if c.lock != nil {
		errs = append(errs, c.lock.Close())
	}
	c.program, c.table, c.lock = nil, nil, nil
	return errors.Join(errs...)
}
