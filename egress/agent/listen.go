package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
)

// ListenError says which key of the configuration names an address that cannot be
// listened on.
type ListenError struct {
	Key string
	Err error
}

// Error names the key.
func (e *ListenError) Error() string { return fmt.Sprintf("listening as `%s` says: %s", e.Key, e.Err) }

// Unwrap gives the cause.
func (e *ListenError) Unwrap() error { return e.Err }

// listeners are the sockets for requests to the agent, and the lock of its network namespace;
// nil for an absent one.
type listeners struct {
	lock, api, metrics net.Listener
}

func (l listeners) close() {
	for _, listener := range []net.Listener{l.api, l.metrics, l.lock} {
		if listener != nil {
			listener.Close()
		}
	}
}

// listen takes the lock, and opens the API's socket and the metrics' port. They come
// first: another agent that runs already must be found out before its state is touched.
// A dry run takes the lock alone: neighbours would end the agent's sessions for its own.
func (e *engine) listen() (l listeners, err error) {
	if err := e.loadSettings(); err != nil {
		return l, err
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.lock, err = lockNamespace(e.roleName, e.common); err != nil {
		return l, err
	}
	if e.opts.DryRun != nil {
		return l, nil
	}
	a := e.common.API
	if l.api, err = (api.Socket{Path: a.Socket, Mode: a.Mode, Group: a.Group}).Listen(); err != nil {
		return l, err
	}
	if a.Metrics.IsValid() {
		if l.metrics, err = net.Listen("tcp", a.Metrics.String()); err != nil {
			return l, &ListenError{"api.metrics", err}
		}
	}
	return l, nil
}

// loadSettings reads settings made through the API before. A file may have policies where
// nobody obeys any, as after a server has become a border: to list them would be a lie.
func (e *engine) loadSettings() (err error) {
	if e.settings, err = api.LoadSettings(e.common.State.Dir); err == nil && !e.hasPolicies() {
		e.settings.Policies = nil
	}
	return err
}

// tryBGP reports whether the addresses of bgp.listen can be listened on, which is done
// only after the kernel has been changed.
func tryBGP(b config.BGP) error {
	var errs []error
	for _, address := range b.Listen {
		listener, err := net.Listen("tcp", netip.AddrPortFrom(address, b.Port).String())
		if err != nil {
			errs = append(errs, &ListenError{"bgp.listen", err})
			continue
		}
		listener.Close()
	}
	return errors.Join(errs...)
}
