package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
)

// backend answers the API.
type backend struct{ engine *engine }

// Status implements [api.Backend].
func (b backend) Status(context.Context) (api.Status, error) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	status := api.Status{
		Version: e.opts.Version, Role: string(e.roleName), ASN: e.common.ASN, RouterID: e.common.RouterID,
		Started: e.started, Ready: e.sessions.ready(), Features: e.featureList(), Problems: e.problems(),
		RPKICaches: e.role.rpkiCaches(),
	}
	return status, nil
}

// problems are all problems, those of sessions among them. It needs the mutex.
func (e *engine) problems() []string {
	all := e.role.problems()
	for _, s := range e.sessionList() {
		if !s.Up {
			all = append(all, fmt.Sprintf("session %s: %s", s.Name, s.Error))
		}
	}
	return all
}

// featureList lists the features that the kernel has and lacks.
func (e *engine) featureList() []api.Feature {
	has := map[string]bool{
		"NexthopObjects": e.features.NexthopObjects, "Seg6": e.features.Seg6, "EndDT6": e.features.EndDT6,
		"VRF": e.features.VRF, "EndDX4": e.features.EndDX4, "Veth": e.features.Veth, "EndDT46": e.features.EndDT46, "AddressProtocol": e.features.AddressProtocol,
		"MPTCP": e.features.MPTCP, "MPTCPUserspace": e.features.MPTCPUserspace,
		"MPTCPSchedulers": e.features.MPTCPSchedulers,
		"EBPF":            e.features.EBPF, "BTF": e.features.BTF,
	}
	var list []api.Feature
	for _, name := range slices.Sorted(maps.Keys(has)) {
		f := api.Feature{Name: name, Available: has[name]}
		for _, m := range e.features.Missing {
			if m.Feature == name {
				f.Effect = m.Consequence
			}
		}
		list = append(list, f)
	}
	return list
}

// Paths implements [api.Backend].
func (b backend) Paths(context.Context) ([]api.Path, error) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.allPaths(), nil
}

// allPaths returns the paths with the fields that only the engine knows. It needs the mutex.
func (e *engine) allPaths() []api.Path {
	paths := e.role.paths()
	for i := range paths {
		p := &paths[i]
		p.Since = e.since[p.Name]
		if drain, ok := e.settings.Drains[p.Name]; ok {
			p.Drain = &drain
		}
	}
	slices.SortFunc(paths, func(a, b api.Path) int { return strings.Compare(a.Name, b.Name) })
	return paths
}

func (e *engine) path(name string) (api.Path, error) {
	for _, p := range e.allPaths() {
		if p.Name == name {
			return p, nil
		}
	}
	return api.Path{}, fmt.Errorf("path %q: %w", name, api.ErrNotFound)
}

// Sessions implements [api.Backend].
func (b backend) Sessions(context.Context) ([]api.Session, error) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessionList(), nil
}

// Lookup implements [api.Backend].
func (b backend) Lookup(_ context.Context, client netip.Prefix) (api.Lookup, error) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.role.lookup(client), nil
}

// SetDrain implements [api.Backend].
func (b backend) SetDrain(ctx context.Context, name string, drain *api.Drain) (path api.Path, err error) {
	e := b.engine
	change := func(settings *api.Settings) error {
		delete(settings.Drains, name)
		if drain != nil {
			settings.Drains[name] = api.Drain{Reason: drain.Reason, Since: time.Now()}
		}
		_, err := e.path(name)
		return err
	}
	apply := func() (err error) {
		e.locked(func() { err = e.role.drain(name, drain != nil) })
		return err
	}
	if err := e.change(ctx, change, apply); err != nil {
		return api.Path{}, err
	}
	e.show()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.path(name)
}

// Policies implements [api.Backend].
func (b backend) Policies(context.Context) ([]api.Policy, error) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.settings.Policies), nil
}

// SetPolicy implements [api.Backend].
func (b backend) SetPolicy(ctx context.Context, policy api.Policy) error {
	return b.changePolicies(ctx, policy.Name, func(policies []api.Policy) ([]api.Policy, error) {
		for _, name := range slices.Concat(policy.Paths, policy.Backup) {
			if _, err := b.engine.path(name); err != nil {
				return nil, fmt.Errorf("policy %q names a path that is not there, %q: %w", policy.Name, name, api.ErrConflict)
			}
		}
		policies = slices.DeleteFunc(policies, func(p api.Policy) bool { return p.Name == policy.Name })
		return append(policies, policy), nil
	})
}

// DeletePolicy implements [api.Backend].
func (b backend) DeletePolicy(ctx context.Context, name string) error {
	return b.changePolicies(ctx, name, func(policies []api.Policy) ([]api.Policy, error) {
		left := slices.DeleteFunc(policies, func(p api.Policy) bool { return p.Name == name })
		if len(left) == len(policies) {
			return nil, fmt.Errorf("policy %q: %w", name, api.ErrNotFound)
		}
		return left, nil
	})
}

// changePolicies puts into force what change makes of the policies: another one of a name,
// or none.
func (b backend) changePolicies(ctx context.Context, name string, change func([]api.Policy) ([]api.Policy, error)) error {
	e := b.engine
	if !e.hasPolicies() {
		return fmt.Errorf("changing the policy %q of a border, where servers alone have policies: %w", name, api.ErrUnsupported)
	}
	return e.change(ctx, func(settings *api.Settings) error {
		policies, err := change(settings.Policies)
		slices.SortFunc(policies, func(a, b api.Policy) int { return strings.Compare(a.Name, b.Name) })
		settings.Policies = policies
		return err
	}, func() error {
		e.locked(func() { e.hub.Publish(api.Event{Policies: &api.PolicyList{Policies: e.settings.Policies}}) })
		e.role.pathsChanged()
		return nil
	})
}

// hasPolicies reports whether somebody here obeys policies: a border sends the packets to a
// SID to this SID's peer, whoever the client is.
func (e *engine) hasPolicies() bool { return e.roleName == config.RoleServer }

// change saves settings that were changed, with the mutex, and then lets the loop put
// them into force with apply, without it. The disk may take seconds: neither the loop nor
// the mutex waits for it.
func (e *engine) change(ctx context.Context, change func(*api.Settings) error, apply func() error) error {
	e.changing.Lock()
	defer e.changing.Unlock()
	var former, settings api.Settings
	var err error
	e.locked(func() {
		former = e.settings
		settings = api.Settings{Drains: maps.Clone(former.Drains), Policies: slices.Clone(former.Policies), Peers: former.Peers}
		err = change(&settings)
	})
	if err != nil {
		return err
	}
	if err := e.save(settings); err != nil {
		return err
	}
	err = e.do(ctx, func() error {
		e.locked(func() { e.settings = settings })
		return apply()
	})
	if errors.Is(err, errNotTaken) {
		// Else they would come into force with the next start.
		err = errors.Join(err, e.save(former))
	}
	return err
}

// SetConnection implements [api.Backend].
func (b backend) SetConnection(_ context.Context, connection api.Connection) error {
	server, ok := b.engine.role.(interface{ setConnection(api.Connection) error })
	if !ok {
		return fmt.Errorf("setting an MPTCP connection at a border: %w", api.ErrUnsupported)
	}
	return server.setConnection(connection)
}
