package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
)

// Peers implements [api.Backend].
func (b backend) Peers(context.Context) ([]api.Peer, error) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	border, ok := e.role.(*Border)
	if !ok {
		return nil, errNoPeers
	}
	var list []api.Peer
	for _, p := range border.config.Peers {
		one := api.Peer{Name: p.Name, Number: p.Number, Address: p.Address, ASN: p.ASN, Source: "file"}
		if _, added := e.settings.Peers[p.Name]; added {
			one.Source = "api"
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b api.Peer) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

var errNoPeers = fmt.Errorf("%w: borders alone have egress peers", api.ErrUnsupported)

// SetPeer implements [api.Backend].
func (b backend) SetPeer(_ context.Context, name string, settings api.PeerSettings) ([]string, error) {
	e := b.engine
	e.changing.Lock()
	defer e.changing.Unlock()
	if _, ok := e.role.(*Border); !ok {
		return nil, errNoPeers
	}
	if e.opts.Source == nil {
		return nil, errNoSource
	}
	var former api.Settings
	var inFile bool
	e.locked(func() {
		former = e.settings
		inFile = entry(e.role.(*Border).config.Peers, name, peerName) != nil && former.Peers[name] == nil
	})
	next := former
	next.Peers = maps.Clone(former.Peers)
	switch {
	case inFile:
		return nil, fmt.Errorf("%w: peer `%s` is in %s: change it there, and reload", api.ErrConflict, name, e.opts.Source.Path)
	case settings != nil:
		if next.Peers == nil {
			next.Peers = make(map[string]api.PeerSettings)
		}
		next.Peers[name] = settings
	case former.Peers[name] == nil:
		return nil, fmt.Errorf("%w: there is no peer `%s`", api.ErrNotFound, name)
	default:
		delete(next.Peers, name)
	}
	return e.setPeers(former, next)
}

// setPeers takes the configuration with other peers. It keeps them first: a crash must not lose a
// peer that has begun to carry packets.
func (e *engine) setPeers(former, next api.Settings) ([]string, error) {
	source := *e.opts.Source
	source.Peers = next.Peers
	if _, err := source.Parse(); err != nil {
		kind := api.ErrInvalid
		if errors.Is(err, config.ErrInFile) {
			kind = api.ErrConflict
		}
		return nil, fmt.Errorf("%w: %w", kind, err)
	}
	if err := e.save(next); err != nil {
		return nil, err
	}
	changes, err := e.reconfigure(e.life, source)
	if err != nil {
		return nil, errors.Join(refused(err), e.save(former))
	}
	e.locked(func() { e.settings = next })
	return changes, nil
}
