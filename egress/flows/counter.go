package flows

import (
	"context"
	"errors"
	"log/slog"
	"time"
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

// Defaults of [Options].
const (
	DefaultMaxFlows = 1 << 17
	DefaultIdle     = 60 * time.Second
	DefaultInterval = 100 * time.Millisecond
)

// ErrInUse reports that another process counts on the interface.
var ErrInUse = errors.New("flows of this interface are already counted by another process")

// Options of [Attach]. Only Interface is required.
type Options struct {
	// Interface is the name of the physical interface, in the network
	// namespace of the calling thread.
	Interface string
	// MaxFlows is the number of flows that are surely kept apart at a time; the
	// table has at least twice as many places, 64 bytes each. Default
	// [DefaultMaxFlows] (16 MiB).
	MaxFlows int
	// Idle is how long a flow keeps its place without a packet. Default
	// [DefaultIdle]; an eighth of it while the table is over three quarters full.
	Idle time.Duration
	// Plain counts packets without SRv6, too (with the zero SID), so that the
	// sum of everything is what the interface sent.
	Plain bool
	// Hook is where to attach. Default [HookAuto].
	Hook Hook
}

// Counter is an attached program and its table. It is not safe for concurrent
// use.
type Counter struct{}

// Attach loads the program and attaches it to the interface's egress. It needs
// CAP_BPF and CAP_NET_ADMIN. It fails with [ErrInUse] while another process
// counts there; what a crashed one left is replaced, filters of others are
// never touched.
func Attach(opts Options) (*Counter, error) { panic("not yet written") }

// Hook returns where the program is attached: [HookTCX] or [HookClsact].
func (c *Counter) Hook() Hook { panic("not yet written") }

// Read fills s with what grew since the read before. It reuses s.Records.
func (c *Counter) Read(now time.Time, s *Sample) error { panic("not yet written") }

// Detach takes the program off the interface and waits until no CPU runs it, so
// that the next Read is the last that can find anything.
func (c *Counter) Detach() error { panic("not yet written") }

// Close detaches and gives the table back.
func (c *Counter) Close() error { panic("not yet written") }

// Reader is what [Run] reads from: a [Counter].
type Reader interface {
	Read(now time.Time, s *Sample) error
	Detach() error
}

// Run reads at each interval and writes to all sinks until ctx is done; then it
// detaches, reads once more, so that nothing is missing, and returns nil. A sink
// that fails is logged and left out from then on; when none is left, Run
// returns its error.
func Run(ctx context.Context, r Reader, interval time.Duration, log *slog.Logger, sinks ...Sink) error {
	panic("not yet written")
}
