package mptcp

import (
	"fmt"
	"slices"
)

// EndpointOpKind is an operation on an endpoint.
type EndpointOpKind uint8

const (
	// EndpointAdd adds an endpoint, of a path that is up.
	EndpointAdd EndpointOpKind = iota + 1
	// EndpointDelete deletes one by its ID.
	EndpointDelete
	// EndpointChange sets or clears the backup flag.
	EndpointChange
)

// EndpointOp is one operation of the in-kernel path manager, as data.
type EndpointOp struct {
	Kind     EndpointOpKind
	Endpoint Endpoint
}

// String prints the operation as an `ip mptcp` command.
func (o EndpointOp) String() string {
	switch o.Kind {
	case EndpointAdd:
		s := fmt.Sprintf("ip mptcp endpoint add %s id %d signal", o.Endpoint.Addr, o.Endpoint.ID)
		if o.Endpoint.Backup {
			s += " backup"
		}
		return s
	case EndpointDelete:
		return fmt.Sprintf("ip mptcp endpoint delete id %d", o.Endpoint.ID)
	case EndpointChange:
		if o.Endpoint.Backup {
			return fmt.Sprintf("ip mptcp endpoint change %s backup", o.Endpoint.Addr)
		}
		return fmt.Sprintf("ip mptcp endpoint change %s nobackup", o.Endpoint.Addr)
	}
	return fmt.Sprintf("endpoint operation %d", o.Kind)
}

// ApplyEndpoint executes one operation.
func (c *Client) ApplyEndpoint(o EndpointOp) error {
	switch o.Kind {
	case EndpointAdd:
		return c.AddEndpoint(o.Endpoint)
	case EndpointDelete:
		return c.DeleteEndpoint(o.Endpoint)
	case EndpointChange:
		return c.SetEndpointBackup(o.Endpoint.Addr, o.Endpoint.Backup)
	}
	return fmt.Errorf("unknown operation on MPTCP endpoints: %d", o.Kind)
}

// PlanEndpoints returns the operations that give every path that is up a signalling
// endpoint. They make the endpoints of draining and of backup paths backup and delete those
// of paths that are down. Endpoints cannot carry a mark of their owner, so only those with
// a path's address are touched. An endpoint of a path that is configured no more goes when
// that is named as down. The deletion makes clients close their subflows, the addition
// opens new ones. Subflows from before the path was away would idle for seconds in TCP's
// back-off.
func PlanEndpoints(have []Endpoint, paths []Path) []EndpointOp {
	var add, change, remove []EndpointOp
	free := freeIDs(have)
	for _, path := range paths {
		for _, addr := range path.Addresses {
			i := slices.IndexFunc(have, func(e Endpoint) bool { return e.Addr == addr && e.Port == 0 })
			present := i >= 0
			backup := path.Backup || path.State == PathDraining
			switch {
			case path.State == PathDown && present:
				remove = append(remove, EndpointOp{EndpointDelete, have[i]})
			case path.State == PathUp && !present:
				e := Endpoint{ID: free(), Addr: addr, Signal: true, Backup: backup}
				add = append(add, EndpointOp{EndpointAdd, e})
			case present && path.State != PathDown && have[i].Backup != backup:
				e := have[i]
				e.Backup = backup
				change = append(change, EndpointOp{EndpointChange, e})
			}
		}
	}
	// Room first: the kernel takes eight endpoints in all.
	return slices.Concat(remove, add, change)
}

func freeIDs(have []Endpoint) func() uint8 {
	var taken [256]bool
	for _, e := range have {
		taken[e.ID] = true
	}
	return func() uint8 {
		for id := 1; id < len(taken); id++ {
			if !taken[id] {
				taken[id] = true
				return uint8(id)
			}
		}
		return 0 // the kernel chooses, or says why it cannot
	}
}
