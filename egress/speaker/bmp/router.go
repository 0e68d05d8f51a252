package bmp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"

	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/wire"
)

// router is a connection with one.
type router struct {
	station *Station
	log     *slog.Logger
	address netip.Addr
	conn    *net.TCPConn
	cancel  context.CancelFunc
	done    chan struct{}
	begun   bool // its Initiation came
	// peers are those that it reports as up and that are configured.
	peers map[key]*peer
	// accounts are of all that it reports; the station's lock guards them.
	accounts map[key]*account
	// last is the peer whose updates are gathered.
	last *peer
}

// peer is one of a router's peers.
type peer struct {
	*watched
	gathered *wire.Gatherer
	// prePolicy and postPolicy: such routes came.
	prePolicy, postPolicy bool
}

// read takes messages until the connection ends.
func (r *router) read(ctx context.Context) error {
	in := bufio.NewReaderSize(r.conn, 64<<10)
	var buffer []byte
	for {
		if in.Buffered() == 0 {
			r.flush(ctx)
		}
		kind, body, err := next(in, &buffer)
		if errors.Is(err, io.EOF) {
			return errors.New("it closed the connection")
		}
		if err != nil {
			return err
		}
		if err := r.received(ctx, kind, body); err != nil {
			return err
		}
	}
}

// received takes one message.
func (r *router) received(ctx context.Context, kind uint8, body []byte) error {
	if !r.begun && kind != bmp.BMP_MSG_INITIATION {
		return fmt.Errorf("%w: type %d before Initiation (RFC 7854 §4.3)", errMessage, kind)
	}
	switch kind {
	case bmp.BMP_MSG_INITIATION:
		r.begun = true
		return r.initiated(ctx, body)
	case bmp.BMP_MSG_TERMINATION:
		return errors.New("it ended the connection (Termination)")
	case bmp.BMP_MSG_STATISTICS_REPORT, bmp.BMP_MSG_ROUTE_MIRRORING:
		_, _, err := cutPeer(body)
		return err
	case bmp.BMP_MSG_ROUTE_MONITORING, bmp.BMP_MSG_PEER_UP_NOTIFICATION, bmp.BMP_MSG_PEER_DOWN_NOTIFICATION:
	default:
		return nil // RFC 7854 §4.1: types of later versions
	}
	h, rest, err := cutPeer(body)
	if err != nil {
		return err
	}
	if h.PeerType != bmp.BMP_PEER_TYPE_GLOBAL || h.IsAdjRIBOut() {
		return nil // of a VRF, of the router's own choice, or what it sends
	}
	k := key{h.PeerAddress, h.PeerAS}
	switch kind {
	case bmp.BMP_MSG_PEER_UP_NOTIFICATION:
		return r.up(ctx, k, h, rest)
	case bmp.BMP_MSG_PEER_DOWN_NOTIFICATION:
		return r.down(ctx, k, rest)
	default:
		return r.monitoring(ctx, r.peers[k], h, rest)
	}
}

// initiated takes the router's description of itself.
func (r *router) initiated(ctx context.Context, body []byte) error {
	var message bmp.BMPInitiation
	if err := message.ParseBody(nil, body); err != nil {
		return fmt.Errorf("%w: Initiation: %w", errMessage, err)
	}
	var words []string
	for _, info := range message.Info {
		if text, ok := info.(*bmp.BMPInfoTLVString); ok {
			words = append(words, text.Value)
		}
	}
	description := strings.Join(words, ", ")
	r.log.Info("a BMP router describes itself", "description", description)
	r.station.describe(r, description)
	r.station.failed(ctx, fmt.Sprintf("BMP router %s does not report it", r.address))
	return nil
}

// up takes a peer into use.
func (r *router) up(ctx context.Context, k key, h bmp.BMPPeerHeader, body []byte) error {
	up, err := parsePeerUp(body, h.Flags&bmp.BMP_PEER_FLAG_IPV6 != 0)
	if err != nil {
		return err
	}
	if before := r.peers[k]; before != nil {
		r.end(ctx, k, session.End{Cause: session.EndConnection, Reason: "the router reports a new session"})
	}
	m := r.station.claim(k, r)
	if m == nil {
		r.log.Debug("a peer of a BMP router is left out: it is not configured, or another router reports it", "peer", k.address, "asn", k.as)
		return nil
	}
	families := up.families(m.Families)
	if len(families) == 0 {
		r.station.release(m)
		reason := fmt.Sprintf("the session of BMP router %s with it has none of its `families`", r.address)
		r.station.note(k, r, reason)
		m.Handler.Failed(ctx, reason)
		return nil
	}
	p := &peer{watched: m, gathered: wire.NewGatherer(wire.FromMonitor)}
	r.peers[k] = p
	m.Handler.Established(ctx, wire.Terms{RouterID: h.PeerBGPID, Local: up.local, Families: families})
	return nil
}

// down takes a peer out of use.
func (r *router) down(ctx context.Context, k key, body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("%w: Peer Down without a reason", errMessage)
	}
	reason, known := downReasons[body[0]]
	if !known {
		reason = fmt.Sprintf("the router reports reason %d", body[0])
	}
	cause := session.EndConnection
	if body[0] == bmp.BMP_PEER_DOWN_REASON_REMOTE_BGP_NOTIFICATION {
		cause = session.EndNotification
	}
	r.end(ctx, k, session.End{Cause: cause, Reason: reason})
	r.station.gone(k, r, reason)
	return nil
}

// monitoring takes an UPDATE that the router has received from a peer.
func (r *router) monitoring(ctx context.Context, p *peer, h bmp.BMPPeerHeader, body []byte) error {
	update, _, err := cutBGP(body, bgp.BGP_MSG_UPDATE)
	if err != nil || p == nil {
		return err
	}
	switch {
	case !h.IsPostPolicy():
		if !p.prePolicy && !p.postPolicy {
			p.prePolicy = true
			r.station.note(key{p.Address.WithZone(""), p.AS}, r, "its routes come before the router's import policy, and do not count: "+
				"configure the router to monitor them post-policy")
			r.log.Warn("a BMP router reports a peer's routes before its import policy; those do not count: "+
				"configure it to monitor them post-policy", "peer", p.Address)
		}
		return nil
	case h.Flags&bmp.BMP_PEER_FLAG_TWO_AS != 0 && !hasFourByteASes(update):
		return fmt.Errorf("routes of peer %s have AS numbers of two bytes, which are not taken (RFC 6793)", p.Address)
	}
	if p.prePolicy && !p.postPolicy {
		r.station.note(key{p.Address.WithZone(""), p.AS}, r, "")
	}
	p.postPolicy = true
	if r.last != p {
		r.flush(ctx)
		r.last = p
	}
	done, err := p.gathered.Add(update)
	r.handOver(ctx, p, done)
	if err != nil {
		r.flush(ctx)
		return fmt.Errorf("%w: an UPDATE of peer %s: %w", errMessage, p.Address, err)
	}
	return nil
}

func (r *router) flush(ctx context.Context) {
	if r.last != nil {
		r.handOver(ctx, r.last, r.last.gathered.Take())
	}
}

func (r *router) handOver(ctx context.Context, p *peer, u *wire.Update) {
	if u != nil && r.station.isWanted(p.watched) {
		p.Handler.Update(ctx, u)
	}
}

// end reports the end of a peer's session.
func (r *router) end(ctx context.Context, k key, end session.End) {
	p := r.peers[k]
	if p == nil {
		return
	}
	r.flush(ctx)
	if r.last == p {
		r.last = nil
	}
	delete(r.peers, k)
	if r.station.isWanted(p.watched) {
		p.Handler.Ended(end)
	}
	r.station.release(p.watched)
}

// lost ends all peers: without the router nobody says what they withdraw. A station that is
// stopped reports nothing, as [session.Session] does.
func (r *router) lost(ctx context.Context, why error) {
	stopped := ctx.Err() != nil
	for k, p := range r.peers {
		if stopped {
			r.station.release(p.watched)
			continue
		}
		r.end(ctx, k, session.End{Cause: session.EndConnection, Reason: fmt.Sprintf("BMP router %s: %s", r.address, why)})
		if r.station.isWanted(p.watched) {
			p.Handler.Failed(ctx, fmt.Sprintf("BMP router %s is not connected", r.address))
		}
	}
}
