package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/mptcp"
)

// subflows tells clients of MPTCP which addresses there are.
type subflows interface {
	// update takes the paths and policies as they are now.
	update(paths []api.Path, policies []api.Policy) error
	// reconsider takes note that other paths reach these clients now.
	reconsider(prefixes []netip.Prefix)
	// tell takes what the edge server says of a connection.
	tell(api.Connection) error
	// close takes everything back.
	close() error
}

// newSubflows starts what the configuration asks for.
func newSubflows(ctx context.Context, c *config.Server, router mptcp.Router, log *slog.Logger) (subflows, error) {
	switch c.MPTCP.Mode {
	case config.MPTCPKernel:
		return newKernelSubflows(c)
	case config.MPTCPUserspace:
		return newUserspaceSubflows(ctx, c, router, log)
	default:
		return noSubflows{}, nil
	}
}

// noSubflows leaves MPTCP alone.
type noSubflows struct{}

func (noSubflows) update([]api.Path, []api.Policy) error { return nil }
func (noSubflows) reconsider([]netip.Prefix)             {}
func (noSubflows) close() error                          { return nil }
func (noSubflows) tell(api.Connection) error {
	return fmt.Errorf("telling of an MPTCP connection while mptcp.mode is not \"userspace\": %w", api.ErrUnsupported)
}

// kernelSubflows gives all clients the same addresses.
type kernelSubflows struct {
	noSubflows
	mu     sync.Mutex
	client *mptcp.Client
	paths  []mptcp.Path
}

func newKernelSubflows(c *config.Server) (*kernelSubflows, error) {
	if err := setPathManager(c, mptcp.InKernel); err != nil {
		return nil, err
	}
	client, err := mptcp.Dial()
	if err != nil {
		return nil, err
	}
	limits, err := client.Limits()
	if err == nil {
		limits.Subflows = uint32(c.MPTCP.Subflows)
		err = client.SetLimits(limits)
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &kernelSubflows{client: client}, nil
}

func (k *kernelSubflows) update(paths []api.Path, _ []api.Policy) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.paths = subflowPaths(paths)
	return k.apply()
}

func (k *kernelSubflows) apply() error {
	have, err := k.client.Endpoints()
	if err != nil {
		return err
	}
	for _, op := range mptcp.PlanEndpoints(have, k.paths) {
		if err := k.client.ApplyEndpoint(op); err != nil {
			return err
		}
	}
	return nil
}

func (k *kernelSubflows) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.paths {
		k.paths[i].State = mptcp.PathDown
	}
	return errors.Join(k.apply(), k.client.Close())
}

// userspaceSubflows decides for each connection alone.
type userspaceSubflows struct {
	config   *config.Server
	compiler compiler
	manager  *mptcp.Manager
	paths    []mptcp.Path
	stop     context.CancelFunc
	ended    chan struct{}
}

func newUserspaceSubflows(ctx context.Context, c *config.Server, router mptcp.Router, log *slog.Logger) (*userspaceSubflows, error) {
	if err := setPathManager(c, mptcp.UserSpace); err != nil {
		return nil, err
	}
	manager, err := mptcp.Start(mptcp.Config{Router: router, Logger: log})
	if err != nil {
		return nil, errors.Join(err, leavePathManager(c))
	}
	// It outlives ctx, so that close can still take addresses back.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	u := &userspaceSubflows{config: c, compiler: compiler{ports: c.MPTCP.Ports, paths: c.Paths}, manager: manager, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(u.ended)
		if err := manager.Run(running); err != nil {
			log.Error("managing MPTCP connections", "error", err)
		}
	}()
	return u, nil
}

func (u *userspaceSubflows) update(paths []api.Path, policies []api.Policy) error {
	policy, changed, err := u.compiler.compile(policies)
	if err != nil {
		return err
	}
	if changed {
		u.manager.SetPolicy(policy)
	}
	u.paths = subflowPaths(paths)
	return u.manager.SetPaths(u.paths)
}

func (u *userspaceSubflows) reconsider(prefixes []netip.Prefix) {
	if len(prefixes) > 0 {
		u.manager.Reconsider(prefixes...)
	}
}

func (u *userspaceSubflows) tell(c api.Connection) error {
	told := mptcp.Told{
		Class: c.Class,
		Plain: c.Mode == api.Plain || c.Mode == api.Steered,
		Avoid: slices.Clone(c.Avoid),
	}
	var err error
	if c.Token != 0 {
		err = u.manager.Tell(mptcp.Token(c.Token), told)
	} else {
		err = u.manager.TellByAddress(c.Local, c.Remote, told)
	}
	if errors.Is(err, mptcp.ErrUnknownConnection) {
		return fmt.Errorf("%w: %w", err, api.ErrNotFound)
	}
	return err
}

func (u *userspaceSubflows) close() error {
	for i := range u.paths {
		u.paths[i].State = mptcp.PathDown
	}
	err := u.manager.SetPaths(u.paths)
	u.stop()
	<-u.ended
	return errors.Join(err, leavePathManager(u.config))
}

// setPathManager makes new connections follow a path manager.
func setPathManager(c *config.Server, manager mptcp.PathManager) error {
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
	settings.PathManager = manager
	return settings.Apply()
}

// leavePathManager gives new connections back to the kernel, unless the operator sets sysctls.
func leavePathManager(c *config.Server) error {
	if !c.Kernel.SetSysctls {
		return nil
	}
	return setPathManager(c, mptcp.InKernel)
}

func subflowPaths(paths []api.Path) []mptcp.Path {
	states := map[api.PathState]mptcp.PathState{
		api.Up: mptcp.PathUp, api.Draining: mptcp.PathDraining, api.Down: mptcp.PathDown,
	}
	list := make([]mptcp.Path, 0, len(paths))
	for _, p := range paths {
		list = append(list, mptcp.Path{Name: p.Name, Addresses: p.Addresses, State: states[p.State]})
	}
	return list
}
