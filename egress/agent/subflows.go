package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/mptcp"
)

// subflows announces addresses to clients of MPTCP.
type subflows interface {
	// update takes the paths and policies as they are now.
	update(paths []api.Path, policies []api.Policy) error
	// reconsider takes note that other paths reach these clients now; without prefixes, all
	// clients.
	reconsider(prefixes []netip.Prefix)
	// setConnection takes the edge server's report on a connection.
	setConnection(api.Connection) error
	// connections lists up to limit connections of clients within a prefix; all where it is not
	// valid.
	connections(within netip.Prefix, limit int) (api.ConnectionList, error)
	// configure takes another configuration, with other paths.
	configure(*config.Server)
	// problems lists the present failures. It is called with the lock held
	// that [mptcp.Router] takes.
	problems() []string
	// close takes everything back.
	close() error
}

// newSubflows starts the management that is configured, and undoes the changes of a run that was
// killed has set for something else.
func newSubflows(ctx context.Context, c *config.Server, router mptcp.Router, log *slog.Logger) (subflows, error) {
	l, err := openLedger(c.State.Dir)
	if err != nil {
		return nil, err
	}
	if l.notes.Userspace && c.MPTCP.Mode != config.MPTCPUserspace {
		err := mptcp.TakeBack(log)
		if err == nil {
			err = l.noteUserspace(false)
		}
		if err != nil {
			log.Error("withdrawing addresses that a former run has announced to clients of MPTCP", "error", err)
		}
	}
	var s subflows
	switch c.MPTCP.Mode {
	case config.MPTCPKernel:
		s, err = newKernelSubflows(c, l)
	case config.MPTCPUserspace:
		s, err = newUserspaceSubflows(ctx, c, l, router, log)
	default:
		s, err = noSubflows{}, l.putBack()
	}
	if err != nil {
		return nil, err
	}
	return &reported{subflows: s}, nil
}

// reported counts among the problems that MPTCP was last updated in vain.
type reported struct {
	subflows
	failure atomic.Pointer[error]
}

func (r *reported) update(paths []api.Path, policies []api.Policy) error {
	err := r.subflows.update(paths, policies)
	r.failure.Store(&err)
	return err
}

func (r *reported) problems() []string {
	all := r.subflows.problems()
	if failure := r.failure.Load(); failure != nil && *failure != nil {
		all = append(all, (*failure).Error())
	}
	for i := range all {
		all[i] = "MPTCP: " + all[i]
	}
	return all
}

// noSubflows leaves MPTCP alone.
type noSubflows struct{}

func (noSubflows) update([]api.Path, []api.Policy) error { return nil }
func (noSubflows) reconsider([]netip.Prefix)             {}
func (noSubflows) configure(*config.Server)              {}
func (noSubflows) problems() []string                    { return nil }
func (noSubflows) close() error                          { return nil }
func (noSubflows) setConnection(api.Connection) error {
	return fmt.Errorf("setting an MPTCP connection while mptcp.mode is not \"userspace\": %w", api.ErrUnsupported)
}

// kernelSubflows gives all clients the same addresses.
type kernelSubflows struct {
	noSubflows
	config *config.Server
	mu     sync.Mutex
	ledger *ledger
	client *mptcp.Client // nil once closed
}

func newKernelSubflows(c *config.Server, l *ledger) (*kernelSubflows, error) {
	client, err := mptcp.Dial()
	if err != nil {
		return nil, fmt.Errorf("mptcp.mode is %q: %w", c.MPTCP.Mode, err)
	}
	err = setSysctls(c, l, mptcp.InKernel)
	if err == nil {
		err = l.setSubflows(client, int(c.MPTCP.Subflows))
	}
	if err != nil {
		return nil, errors.Join(err, client.Close(), l.putBack())
	}
	return &kernelSubflows{config: c, ledger: l, client: client}, nil
}

func (k *kernelSubflows) configure(c *config.Server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.config = c
}

func (k *kernelSubflows) update(paths []api.Path, _ []api.Policy) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		return nil
	}
	return k.ledger.setEndpoints(k.client, maxEndpoints(subflowPaths(paths), k.config))
}

// maxEndpoints bounds the addresses of each family that are announced to clients. Further
// ones are treated as if their path was down.
func maxEndpoints(paths []mptcp.Path, c *config.Server) []mptcp.Path {
	place := func(p mptcp.Path) int {
		i := slices.IndexFunc(c.Paths, func(o config.Path) bool { return o.Name == p.Name })
		if i >= 0 && c.Paths[i].Backup {
			i += len(c.Paths) // behind all that carry data
		}
		return i
	}
	slices.SortStableFunc(paths, func(a, b mptcp.Path) int { return cmp.Compare(place(a), place(b)) })
	var bounded []mptcp.Path
	announced := map[bool]int{}
	for _, p := range paths {
		beyond := mptcp.Path{Name: p.Name, State: mptcp.PathDown}
		p.Addresses = slices.DeleteFunc(slices.Clone(p.Addresses), func(a netip.Addr) bool {
			if p.State != mptcp.PathUp {
				return false
			}
			if announced[a.Is4()]++; announced[a.Is4()] > int(c.MPTCP.Addresses) {
				beyond.Addresses = append(beyond.Addresses, a)
				return true
			}
			return false
		})
		bounded = append(bounded, p, beyond)
	}
	return bounded
}

func (k *kernelSubflows) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := errors.Join(k.ledger.putBack(), k.client.Close())
	k.client = nil
	return err
}

// userspaceSubflows decides for each connection alone.
type userspaceSubflows struct {
	config   *config.Server
	compiler compiler
	manager  *mptcp.Manager
	log      *slog.Logger
	stop     context.CancelFunc
	ended    chan error

	mu     sync.Mutex
	ledger *ledger
	paths  []mptcp.Path
	closed bool
}

func newUserspaceSubflows(
	ctx context.Context, c *config.Server, l *ledger, router mptcp.Router, log *slog.Logger,
) (*userspaceSubflows, error) {
	err := errors.Join(l.putBackKernel(), l.noteUserspace(true))
	if err == nil {
		err = setSysctls(c, l, mptcp.UserSpace)
	}
	var manager *mptcp.Manager
	if err == nil {
		manager, err = mptcp.Start(mptcp.Config{Router: router, Logger: log, Bounds: mptcp.Bounds{
			Addresses: int(c.MPTCP.Addresses), Subflows: int(c.MPTCP.Subflows), Connections: int(c.Limits.Connections),
		}})
	}
	if err != nil {
		return nil, errors.Join(err, l.putBack())
	}
	// It outlives ctx, so that close can still take addresses back.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	u := &userspaceSubflows{
		config: c, compiler: compiler{ports: c.MPTCP.Ports, paths: c.Paths}, manager: manager,
		ledger: l, log: log, stop: stop, ended: make(chan error, 1),
	}
	go func() { u.ended <- manager.Run(running) }()
	return u, nil
}

func (u *userspaceSubflows) configure(c *config.Server) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.config = c
	u.compiler = compiler{ports: c.MPTCP.Ports, paths: c.Paths}
}

func (u *userspaceSubflows) update(paths []api.Path, policies []api.Policy) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil // withdrawn addresses stay withdrawn
	}
	policy, err := u.compiler.compile(policies)
	if err != nil {
		return err
	}
	u.paths = subflowPaths(paths)
	return u.manager.Update(policy, u.paths)
}

func (u *userspaceSubflows) reconsider(prefixes []netip.Prefix) {
	u.manager.Reconsider(prefixes...)
}

func (u *userspaceSubflows) setConnection(c api.Connection) error {
	hint := mptcp.Hint{
		Class: c.Class,
		Plain: c.Mode == api.Plain || c.Mode == api.Steered,
		Avoid: slices.Clone(c.Avoid),
		Full:  slices.Clone(c.Full),
	}
	for _, s := range c.Order {
		hint.Order = append(hint.Order, mptcp.Ends{Local: s.Local, Remote: s.Remote})
	}
	if c.Token != 0 {
		u.manager.SetHint(mptcp.Token(c.Token), hint)
	} else {
		u.manager.SetHintByAddress(c.Local, c.Remote, hint)
	}
	return nil
}

func (u *userspaceSubflows) problems() []string { return u.manager.Problems() }

func (u *userspaceSubflows) close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for i := range u.paths {
		u.paths[i].State = mptcp.PathDown
	}
	err := u.manager.SetPaths(u.paths)
	u.stop()
	ended := <-u.ended
	if errors.Is(ended, mptcp.ErrLost) {
		ended = mptcp.TakeBack(u.log)
	}
	return errors.Join(err, ended, u.ledger.putBack())
}

// setSysctls makes new connections follow a path manager, and lost announcements
// cost little.
func setSysctls(c *config.Server, l *ledger, manager mptcp.PathManager) error {
	if err := setPathManager(c, l, manager); err != nil || !c.Kernel.SetSysctls {
		return err
	}
	return l.setSysctl(mptcp.SysctlAddAddrTimeout, int(c.MPTCP.AddAddrTimeout/time.Second))
}

func setPathManager(c *config.Server, l *ledger, manager mptcp.PathManager) error {
	if err := l.putBackOther(mptcp.SysctlPathManager, int(manager)); err != nil {
		return err
	}
	settings, err := mptcp.ReadSettings()
	if err != nil {
		return fmt.Errorf("mptcp.mode is %q: %w", c.MPTCP.Mode, err)
	}
	if settings.PathManager == manager {
		return nil
	}
	if !c.Kernel.SetSysctls {
		return fmt.Errorf("kernel.set_sysctls is false: set net.mptcp.pm_type=%d", manager)
	}
	return l.setSysctl(mptcp.SysctlPathManager, int(manager))
}

func subflowPaths(paths []api.Path) []mptcp.Path {
	states := map[api.PathState]mptcp.PathState{
		api.Up: mptcp.PathUp, api.Draining: mptcp.PathDraining, api.Down: mptcp.PathDown,
	}
	list := make([]mptcp.Path, 0, len(paths))
	for _, p := range paths {
		list = append(list, mptcp.Path{Name: p.Name, Addresses: p.Addresses, State: states[p.State], Backup: p.Backup})
	}
	return list
}
