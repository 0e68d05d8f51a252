package bmp

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	bmppacket "github.com/osrg/gobgp/v4/pkg/packet/bmp"

	"hikyaku/egress/speaker/wire"
)

// FuzzRouter has a router send the bytes of the input. Whatever they are, nothing panics, and
// notifications of a peer have their order: routes come in sessions alone.
func FuzzRouter(f *testing.F) {
	six := bgp.RF_IPv6_UC
	session := slices.Concat(encoded(f, initiation()), encoded(f, up(peerAddress, six)))
	routes := encoded(f, monitored(postPolicy, peerAddress, announced(f, client)))
	f.Add(slices.Concat(session, encoded(f, monitored(postPolicy|bmppacket.BMP_PEER_FLAG_TWO_AS, peerAddress, announced(f, client)))))
	f.Add(slices.Concat(session, encoded(f, monitored(postPolicy|bmppacket.BMP_PEER_FLAG_TWO_AS, peerAddress, ofTwoBytes(announced(f, client))))))
	end := encoded(f, bmppacket.NewBMPPeerDownNotification(header(0, peerAddress), 4, nil, nil))
	f.Add(slices.Concat(session, routes, end, routes))
	f.Add(slices.Concat(session, session, routes, encoded(f, bmppacket.NewBMPTermination(nil))))
	f.Add(slices.Concat(session, encoded(f, bmppacket.NewBMPStatisticsReport(header(0, peerAddress),
		[]bmppacket.BMPStatsTLVInterface{bmppacket.NewBMPStatsTLV64(7, 9)})), routes))
	for _, change := range spoil {
		f.Add(slices.Concat(session, change(slices.Clone(routes))))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &Station{records: make(map[netip.Addr]*record), config: Config{Logger: slog.New(slog.DiscardHandler)}, peers: make(map[key]*watched), routers: make(map[netip.Addr]*router)}
		seen := &recorder{}
		s.Add(Peer{Address: peerAddress, AS: peerAS, Families: []wire.Family{wire.IPv6Unicast}, Handler: seen})
		r := &router{station: s, log: s.config.Logger, address: localhost, peers: make(map[key]*peer), accounts: make(map[key]*account)}
		in, ctx := bufio.NewReader(bytes.NewReader(input)), context.Background()
		var buffer []byte
		for {
			kind, body, err := next(in, &buffer)
			if err == nil {
				err = r.received(ctx, kind, body)
			}
			if err != nil {
				r.lost(ctx, err)
				break
			}
		}
		up := false
		for _, line := range seen.list() {
			switch {
			case strings.HasPrefix(line, "up"):
				if up {
					t.Fatalf("a session begins in another:\n%s", strings.Join(seen.list(), "\n"))
				}
				up = true
			case strings.HasPrefix(line, "down"):
				up = false
			case !strings.HasPrefix(line, "none") && !up:
				t.Fatalf("routes outside of a session:\n%s", strings.Join(seen.list(), "\n"))
			}
		}
		if up {
			t.Fatal("the session outlives the connection")
		}
	})
}
