package agent

import (
	"context"
	"fmt"
	"net/netip"

	"hikyaku/egress/api"
	"hikyaku/egress/mptcp"
)

// Connections implements [api.Backend].
func (b backend) Connections(_ context.Context, within netip.Prefix, limit int) (api.ConnectionList, error) {
	server, ok := b.engine.role.(interface {
		connections(netip.Prefix, int) (api.ConnectionList, error)
	})
	if !ok {
		return api.ConnectionList{}, fmt.Errorf("listing MPTCP connections at a border: %w", api.ErrUnsupported)
	}
	return server.connections(within, limit)
}

func (s *Server) connections(within netip.Prefix, limit int) (api.ConnectionList, error) {
	return s.subflows.connections(within, limit)
}

func (noSubflows) connections(netip.Prefix, int) (api.ConnectionList, error) {
	return api.ConnectionList{}, fmt.Errorf("listing MPTCP connections while mptcp.mode is not \"userspace\": %w", api.ErrUnsupported)
}

func (u *userspaceSubflows) connections(within netip.Prefix, limit int) (api.ConnectionList, error) {
	explained, total := u.manager.Explained(within, limit)
	list := api.ConnectionList{Total: total}
	for _, e := range explained {
		list.Connections = append(list.Connections, managedConnection(e))
	}
	return list, nil
}

func managedConnection(e mptcp.Explained) api.ManagedConnection {
	c := api.ManagedConnection{
		Token: uint32(e.Token), Local: unmapped(e.Local), Remote: unmapped(e.Remote), Since: e.Since, Class: e.Hint.Class,
		Mode: api.Plain, Reason: e.Decision.Reason,
	}
	if e.Decision.Mode == mptcp.Aggregated {
		c.Mode = api.Aggregated
	}
	if e.First != nil {
		c.Reason += fmt.Sprintf(", data go by %s alone, which the edge server puts first", unmapped(e.First.Local))
	}
	for i, s := range e.Subflows {
		c.Subflows = append(c.Subflows, api.ManagedSubflow{
			Local: unmapped(s.Local), Remote: unmapped(s.Remote), Path: e.Paths[i], Backup: s.LocalBackup, ClientBackup: s.PeerBackup,
		})
	}
	return c
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
