package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// batchSize bounds the messages in one system call. It thereby bounds how long one change
// waits for another: a route takes the kernel some 5 to 10 µs.
const batchSize = 256

// Options of an [Applier].
type Options struct {
	// Protocol marks our state; [Protocol] when 0. Two agents in one network
	// namespace need two numbers, or each removes the other's objects.
	Protocol uint8
	// Addresses are ours even without the mark. A kernel without
	// [Features.AddressProtocol] needs those that the agent adds.
	Addresses []netip.Addr
}

// Applier reads and writes the kernel's state in the network namespace where it was
// opened. It is safe for concurrent use; operations of one call stay in order.
type Applier struct {
	protocol  uint8
	addresses []netip.Addr
	// A long read or load holds its socket; urgent is for single messages.
	reading, writing, urgent, watching, noticing, following *rtnl.Conn
	seg6                                                    tunnelSourceConn
}

// Open returns an applier for the calling thread's network namespace. It needs
// CAP_NET_ADMIN there.
func Open(opts Options) (_ *Applier, err error) {
	a := &Applier{protocol: opts.Protocol, addresses: opts.Addresses}
	if a.protocol == 0 {
		a.protocol = Protocol
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	for _, conn := range []**rtnl.Conn{&a.reading, &a.writing, &a.urgent, &a.watching, &a.noticing, &a.following} {
		if *conn, err = rtnl.Dial(unix.NETLINK_ROUTE); err != nil {
			return nil, err
		}
	}
	if a.seg6.conn, err = rtnl.Dial(unix.NETLINK_GENERIC); err != nil {
		return nil, err
	}
	return a, nil
}

// Close frees the sockets. Applied state stays. End [Applier.WatchLinks],
// [Applier.WatchLosses] and [Applier.WatchMain] first.
func (a *Applier) Close() error {
	var errs []error
	for _, conn := range []*rtnl.Conn{a.reading, a.writing, a.urgent, a.watching, a.noticing, a.following, a.seg6.conn} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	return errors.Join(errs...)
}

// Print writes the ip(8) commands that do the work of Apply: a dry run.
func (a *Applier) Print(w io.Writer, ops []Op) error {
	for _, op := range ops {
		if _, err := fmt.Fprintln(w, op.Command(a.protocol)); err != nil {
			return fmt.Errorf("printing operations: %w", err)
		}
	}
	return nil
}

// Apply executes ops in order, many in each system call. At the first run of alike
// operations in which some failed it stops and returns an [*ApplyError].
func (a *Applier) Apply(ctx context.Context, ops []Op) error {
	return a.apply(ctx, a.writing, ops, plainly)
}

// sender has the kernel execute operations that may go in one system call, and returns
// those that failed.
type sender func([]Op) ([]Failure, error)

func plainly(ops []Op, send sender) ([]Failure, error) { return send(ops) }

// apply has do send each batch.
func (a *Applier) apply(ctx context.Context, conn *rtnl.Conn, ops []Op, do func([]Op, sender) ([]Failure, error)) error {
	result := &ApplyError{}
	e := a.encoder()
	for first := 0; first < len(ops); {
		if len(result.Failed) > 0 && !alike(ops[first-1], ops[first]) {
			break
		}
		if err := ctx.Err(); err != nil {
			result.Stopped = err
			break
		}
		batch := ops[first : first+batchLength(ops[first:])]
		failed, err := do(batch, func(ops []Op) ([]Failure, error) { return a.batch(conn, e, ops, first) })
		result.Attempted = first + len(batch)
		result.Failed = append(result.Failed, failed...)
		if err != nil {
			result.Lost = err
			break
		}
		first += len(batch)
	}
	if len(result.Failed) == 0 && result.Lost == nil && result.Stopped == nil {
		return nil
	}
	return result
}

// batchLength is how many of ops may go in one system call. The kernel goes on
// after a failure, which only routes may: nothing is built on a single one.
func batchLength(ops []Op) int {
	n := 1
	for n < min(len(ops), batchSize) && alike(ops[n-1], ops[n]) {
		n++
	}
	return n
}

func alike(a, b Op) bool {
	_, isRoute := a.Object.(Route)
	_, areRoutes := b.Object.(Route)
	return isRoute && areRoutes && (a.Verb == Delete) == (b.Verb == Delete)
}

// batch executes ops, which start at first of the whole.
func (a *Applier) batch(conn *rtnl.Conn, e *encoder, ops []Op, first int) ([]Failure, error) {
	if source, ok := ops[0].Object.(TunnelSource); ok {
		if err := a.seg6.set(source); err != nil {
			return []Failure{{Index: first, Op: ops[0], Err: err}}, nil
		}
		return nil, nil
	}
	e.batch.Reset()
	for _, op := range ops {
		if err := e.add(op); err != nil {
			// Only operations that go alone can fail here.
			if op.Verb == Delete && errors.Is(err, unix.ENODEV) {
				return nil, nil // gone with its device
			}
			return []Failure{{Index: first, Op: op, Err: err}}, nil
		}
	}
	if slices.ContainsFunc(ops, leavesSockets) {
		e.wakeSockets()
	}
	refused, err := conn.Do(&e.batch)
	var failed []Failure
	for _, r := range refused {
		if r.Index >= len(ops) {
			continue // of wakeSockets, which has done its work even if it collides
		}
		if op := ops[r.Index]; op.Verb != Delete || !isGone(r.Err.Errno) {
			failed = append(failed, Failure{Index: first + r.Index, Op: op, Err: explain(op, r.Err)})
		}
	}
	return failed, err
}

// leavesSockets reports whether sockets may go on using the route that op has removed. IPv4 makes
// them look again by itself.
func leavesSockets(op Op) bool {
	if op.Verb != Delete {
		return false
	}
	switch o := op.Object.(type) {
	case Route:
		return FamilyOf(o.Prefix.Addr()) == IPv6
	case Nexthop:
		return o.Family != IPv4 // unset in a [Change.Remove] by ID
	default:
		return false
	}
}

// isGone holds for the kernel's answers when there is nothing to delete: routes,
// rules and nexthops, addresses.
func isGone(errno unix.Errno) bool {
	return errno == unix.ESRCH || errno == unix.ENOENT || errno == unix.EADDRNOTAVAIL
}

func explain(op Op, err *rtnl.Error) error {
	if op.Verb == Add && err.Errno == unix.EEXIST {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return err
}

// encoder returns one that asks the kernel for each device at most once.
func (a *Applier) encoder() *encoder {
	known := make(map[string]uint32)
	return &encoder{protocol: a.protocol, device: func(name string) (uint32, error) {
		if index, ok := known[name]; ok {
			return index, nil
		}
		link, err := a.link(name)
		if err != nil {
			return 0, err
		}
		known[name] = link.index
		return link.index, nil
	}}
}
