package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/rpki"
	"hikyaku/egress/rpki/rtr"
)

// caches gets the VRPs of all RPKI caches, and joins them: a route is valid that any cache
// has a VRP for.
type caches struct {
	ctx     context.Context
	log     *slog.Logger
	changed func(*rpki.Table)
	// bell has a value while the VRPs may be others than the last table's.
	bell chan struct{}

	mu   sync.Mutex
	list []*cache
}

// cache is the client of one cache, with its VRPs.
type cache struct {
	config config.RPKICache
	client *rtr.Client
	cancel context.CancelFunc
	vrps   []rpki.VRP
}

// newCaches joins VRPs until ctx ends. changed gets each new table, one at a time.
func newCaches(ctx context.Context, log *slog.Logger, changed func(*rpki.Table)) *caches {
	c := &caches{ctx: ctx, log: log, changed: changed, bell: make(chan struct{}, 1)}
	go c.join()
	return c
}

// set takes the caches of a configuration. Those that are as before keep their connections
// and data.
func (c *caches) set(list []config.RPKICache, connectRetry time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var kept []*cache
	for _, one := range c.list {
		if slices.Contains(list, one.config) {
			kept = append(kept, one)
		} else {
			one.cancel()
		}
	}
	for _, wanted := range list {
		if !slices.ContainsFunc(kept, func(k *cache) bool { return k.config == wanted }) {
			kept = append(kept, c.start(wanted, connectRetry))
		}
	}
	c.list = kept
	c.ring()
}

func (c *caches) start(wanted config.RPKICache, connectRetry time.Duration) *cache {
	ctx, cancel := context.WithCancel(c.ctx)
	one := &cache{config: wanted, cancel: cancel}
	one.client = rtr.New(rtr.Config{
		Name: wanted.Name, Address: netip.AddrPortFrom(wanted.Address, wanted.Port), LocalAddress: wanted.LocalAddress,
		ConnectRetry: connectRetry, Refresh: wanted.Refresh, Retry: wanted.Retry, Expire: wanted.Expire,
		Changed: func(vrps []rpki.VRP) {
			c.mu.Lock()
			one.vrps = vrps
			c.mu.Unlock()
			c.ring()
		},
		Notify: func() {}, Log: c.log,
	})
	go one.client.Run(ctx)
	return one
}

func (c *caches) ring() {
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

// join makes a table whenever VRPs have changed.
func (c *caches) join() {
	had := false
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.bell:
		}
		c.mu.Lock()
		lists := make([][]rpki.VRP, 0, len(c.list))
		for _, one := range c.list {
			lists = append(lists, one.vrps)
		}
		c.mu.Unlock()
		if union := rpki.Union(lists...); len(union) > 0 || had {
			had = true
			c.changed(rpki.NewTable(union))
		}
	}
}

// states are the states of all caches, in the configuration's order.
func (c *caches) states() []api.RPKICache {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]api.RPKICache, 0, len(c.list))
	for _, one := range c.list {
		s := one.client.Status()
		list = append(list, api.RPKICache{
			Name: one.config.Name, Address: netip.AddrPortFrom(one.config.Address, one.config.Port), Up: s.Up,
			Version: s.Version, VRPs: s.VRPs, Serial: s.Serial, Updated: s.Updated, Expires: s.Expires, Error: s.Error,
		})
	}
	return list
}

// problems are sentences on caches that are away, and on routes that nothing validates.
func (c *caches) problems() (problems []string) {
	states := c.states()
	vrps := 0
	for _, s := range states {
		vrps += s.VRPs
		if !s.Up && s.VRPs > 0 {
			problems = append(problems, "RPKI cache "+s.Name+": no connection, its data are used until they expire: "+s.Error)
		} else if !s.Up {
			problems = append(problems, "RPKI cache "+s.Name+": no connection, and no data: "+s.Error)
		}
	}
	if len(states) > 0 && vrps == 0 {
		problems = append(problems, "no RPKI cache has data: origins of routes are not validated, and invalid ones are taken")
	}
	return problems
}
