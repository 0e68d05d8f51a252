package main_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// transitArgument makes the test binary a transit's router instead: a process of its
// own, so that it lives in its namespace and can be killed.
const transitArgument = "transit"

// runTransit speaks BGP as AS args[0] with router ID args[1] and next hop args[2]. Its
// neighbour is the border at args[3] of AS args[4]; args[5:] are further addresses of
// neighbours there. It takes commands line by line, and
// answers each with the time, in Unix nanoseconds, at which it began:
//
//	announce PREFIX...
//	withdraw PREFIX...
//	bulk NUMBER          announce that many prefixes /48 from 2001:db8:8000::
//	loop PREFIX...       announce with the border's AS in the path
//	prepend PREFIX...    announce with the own AS twice in the path
//	heard                answer instead how often the border has announced something
func runTransit(args []string, in io.Reader, out io.Writer) int {
	t, err := startTransit(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "transit:", err)
		return 1
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer := time.Now().UnixNano()
		if lines.Text() == "heard" {
			answer = t.heard.Load()
		} else if err := t.command(strings.Fields(lines.Text())); err != nil {
			fmt.Fprintln(os.Stderr, "transit:", err)
			return 1
		}
		fmt.Fprintln(out, answer)
	}
	return 0
}

type transit struct {
	bgp      *server.BgpServer
	as, peer uint32
	nextHop  netip.Addr
	heard    atomic.Int64
}

func startTransit(args []string) (*transit, error) {
	as, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil {
		return nil, err
	}
	peer, err := strconv.ParseUint(args[4], 10, 32)
	if err != nil {
		return nil, err
	}
	t := &transit{bgp: server.NewBgpServer(), as: uint32(as), peer: uint32(peer), nextHop: netip.MustParseAddr(args[2])}
	go t.bgp.Serve()
	ctx := context.Background()
	if err := t.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{
		Asn: t.as, RouterId: args[1], ListenPort: 179, ListenAddresses: []string{args[2]},
	}}); err != nil {
		return nil, err
	}
	heard := func(paths []*apiutil.Path, _ time.Time) {
		for _, p := range paths {
			if !p.Withdrawal {
				t.heard.Add(1)
			}
		}
	}
	err = t.bgp.WatchEvent(ctx, server.WatchEventMessageCallbacks{OnPathUpdate: heard}, server.WatchUpdate(false, "", ""))
	if err != nil {
		return nil, err
	}
	for _, neighbor := range args[5:] {
		if err := t.add(ctx, neighbor); err != nil {
			return nil, err
		}
	}
	return t, t.add(ctx, args[3])
}

// add waits for a neighbour of the border's AS.
func (t *transit) add(ctx context.Context, neighbor string) error {
	return t.bgp.AddPeer(ctx, &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: neighbor, PeerAsn: t.peer},
		Transport: &api.Transport{PassiveMode: true},
		AfiSafis: []*api.AfiSafi{{Config: &api.AfiSafiConfig{
			Family: &api.Family{Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST}, Enabled: true,
		}}},
		GracefulRestart: &api.GracefulRestart{Enabled: true, HelperOnly: true},
	}})
}

func (t *transit) command(words []string) error {
	var prefixes []netip.Prefix
	ases := []uint32{t.as + 1000}
	switch words[0] {
	case "bulk":
		n, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		for i := range n {
			a := netip.MustParseAddr("2001:db8::").As16()
			a[2], a[3], a[4], a[5] = byte(0x40+i>>24), byte(i>>16), byte(i>>8), byte(i)
			prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom16(a), 48))
		}
	default:
		for _, word := range words[1:] {
			prefixes = append(prefixes, netip.MustParsePrefix(word))
		}
	}
	switch words[0] {
	case "loop":
		ases = append(ases, t.peer)
	case "prepend":
		ases = append([]uint32{t.as}, ases...)
	}
	for len(prefixes) > 0 {
		n := min(len(prefixes), 512)
		if err := t.send(prefixes[:n], ases, words[0] == "withdraw"); err != nil {
			return err
		}
		prefixes = prefixes[n:]
	}
	return nil
}

func (t *transit) send(prefixes []netip.Prefix, ases []uint32, withdraw bool) error {
	shared := []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(0),
		bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, ases)}),
	}
	var paths []*apiutil.Path
	for _, p := range prefixes {
		nlri, err := bgp.NewIPAddrPrefix(p)
		if err != nil {
			return err
		}
		reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, []bgp.PathNLRI{{NLRI: nlri}}, t.nextHop)
		if err != nil {
			return err
		}
		paths = append(paths, &apiutil.Path{
			Family: bgp.RF_IPv6_UC, Nlri: nlri, Withdrawal: withdraw, Attrs: append(shared[:2:2], reach),
		})
	}
	if withdraw {
		return t.bgp.DeletePath(apiutil.DeletePathRequest{Paths: paths})
	}
	_, err := t.bgp.AddPath(apiutil.AddPathRequest{Paths: paths})
	return err
}
