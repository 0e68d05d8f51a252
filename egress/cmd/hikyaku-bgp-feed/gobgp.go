package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// daemon is a router made of GoBGP: commands go through its table and its timers.
type daemon struct {
	settings
	bgp *server.BgpServer
	// ready is closed when the session is up.
	ready chan struct{}
}

func startGoBGP(ctx context.Context, s settings) (*daemon, error) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	d := &daemon{settings: s, bgp: server.NewBgpServer(server.LoggerOption(quiet, nil)), ready: make(chan struct{})}
	go d.bgp.Serve()
	if err := d.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{
		Asn: s.as, RouterId: s.id.String(), ListenPort: int32(s.port), ListenAddresses: []string{s.local.String()},
	}}); err != nil {
		return nil, fmt.Errorf("starting GoBGP: %w", err)
	}
	if err := d.watch(ctx); err != nil {
		return nil, fmt.Errorf("watching the session: %w", err)
	}
	family := &api.Family{Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST}
	err := d.bgp.AddPeer(ctx, &api.AddPeerRequest{Peer: &api.Peer{
		Conf:            &api.PeerConf{NeighborAddress: s.neighbour.String(), PeerAsn: s.neighbourAS},
		Transport:       &api.Transport{PassiveMode: true},
		AfiSafis:        []*api.AfiSafi{{Config: &api.AfiSafiConfig{Family: family, Enabled: true}}},
		GracefulRestart: &api.GracefulRestart{Enabled: true, HelperOnly: true},
	}})
	if err != nil {
		return nil, fmt.Errorf("adding the neighbour: %w", err)
	}
	return d, nil
}

// watch closes ready when the session is up and the neighbour has sent all its routes.
func (d *daemon) watch(ctx context.Context) error {
	var once sync.Once
	return d.bgp.WatchEvent(ctx, server.WatchEventMessageCallbacks{
		OnPathEor: func(*apiutil.Path, time.Time) { once.Do(func() { close(d.ready) }) },
	}, server.WatchEor(false))
}

func (d *daemon) Close() error {
	d.bgp.Stop()
	return nil
}

func (d *daemon) wait(ctx context.Context) error {
	select {
	case <-d.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *daemon) announce(prefixes []netip.Prefix) error {
	paths, err := d.paths(prefixes)
	if err != nil {
		return err
	}
	if _, err := d.bgp.AddPath(apiutil.AddPathRequest{Paths: paths}); err != nil {
		return fmt.Errorf("announcing %s: %w", prefixes, err)
	}
	return nil
}

func (d *daemon) withdraw(prefixes []netip.Prefix) error {
	paths, err := d.paths(prefixes)
	if err != nil {
		return err
	}
	if err := d.bgp.DeletePath(apiutil.DeletePathRequest{Paths: paths}); err != nil {
		return fmt.Errorf("withdrawing %s: %w", prefixes, err)
	}
	return nil
}

// paths are own routes, whose AS path GoBGP begins.
func (d *daemon) paths(prefixes []netip.Prefix) ([]*apiutil.Path, error) {
	var paths []*apiutil.Path
	for _, p := range prefixes {
		nlri, err := pathNLRI([]netip.Prefix{p})
		if err != nil {
			return nil, err
		}
		reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, nlri, d.local)
		if err != nil {
			return nil, err
		}
		paths = append(paths, &apiutil.Path{
			Family: bgp.RF_IPv6_UC, Nlri: nlri[0].NLRI,
			Attrs: []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP), reach},
		})
	}
	return paths, nil
}
