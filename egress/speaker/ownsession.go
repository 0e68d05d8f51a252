package speaker

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// ownSession is our end of a session with a route reflector that carries VPN
// routes alone, or with an egress peer. GoBGP needs 500 bytes for each route
// received and 900 for each announced, on every session; this keeps none of the
// former, since the VPN table or the reader of events has them, and shares the
// latter ([outTable]).
//
// It only opens connections: what a neighbour opens itself is refused, so that no
// two connections ever collide (RFC 4271 §6.8). Neighbours that must open them are
// GoBGP's, see [Neighbor.Passive].
type ownSession struct {
	speaker  *Speaker
	neighbor Neighbor
	log      *slog.Logger
	// live: the session is established, so that changes go to its outbox.
	// owes: its End-of-RIB is held back, see [Speaker.AnnouncedAll]. Both are
	// guarded by the speaker's announcing.
	live, owes bool
	// wasUp: a session was there before, and what was announced on it holds still.
	wasUp bool
	// reason is why the last attempt has failed, "" after a session.
	reason string
	// Of the present session:
	conn     *net.TCPConn
	families []Family
	local    netip.Addr
	outbox   *outbox
	withheld *withheld // from a reflector
	backlog  *backlog  // of an egress peer
	gathered gathering
	// fail ends the session for an error; guarded as live is.
	fail context.CancelCauseFunc

	cancel context.CancelFunc
	done   chan struct{}
}

// keepalive is the KEEPALIVE message (RFC 4271 §4.4).
var keepalive = func() []byte {
	b := appendHeader(nil, bgp.BGP_MSG_KEEPALIVE)
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)))
	return b
}()

// run keeps the session up until ctx ends.
func (v *ownSession) run(ctx context.Context) {
	defer close(v.done)
	for ctx.Err() == nil {
		up, err := v.once(ctx)
		if ctx.Err() != nil {
			return
		}
		v.tell(ctx, up, err)
		// RFC 4271 §10: up to a quarter less, so that routers do not move in step.
		wait := v.neighbor.ConnectRetry - rand.N(v.neighbor.ConnectRetry/4)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// tell tells of an attempt that has failed: by a warning and an event where the one
// before has not failed alike. up tells that there was a session, whose end is told
// otherwise.
func (v *ownSession) tell(ctx context.Context, up bool, err error) {
	// The port that the kernel chose is another one each time.
	reason := err.Error()
	var network *net.OpError
	if errors.As(err, &network) {
		reason = network.Err.Error()
	}
	level := slog.LevelDebug
	if !up && reason != v.reason {
		level = slog.LevelWarn
		v.report(ctx, sessionReport{none: reason})
	}
	if v.reason = reason; up {
		v.reason = ""
	}
	v.log.Log(ctx, level, "no session with neighbour", slog.Any("error", err), slog.Duration("again_in", v.neighbor.ConnectRetry))
}

// once is one connection's life. It tells whether there was a session.
func (v *ownSession) once(ctx context.Context) (up bool, err error) {
	conn, err := v.dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	// Ends reading and writing, and leaves the connection to a last word.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	r := bufio.NewReaderSize(&burstReader{Conn: conn}, 64<<10)
	agreed, err := v.open(conn, r)
	if up = err == nil; up {
		err = v.established(ctx, conn, r, agreed)
	}
	v.lastWord(ctx, conn, err)
	return up, err
}

// established exchanges routes until the session ends, and returns why.
func (v *ownSession) established(ctx context.Context, conn *net.TCPConn, r *bufio.Reader, agreed opened) error {
	local := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	up := PeerUp{
		Peer: v.neighbor.Name, Address: v.neighbor.Address, AS: v.neighbor.AS,
		RouterID: agreed.routerID, LocalAddress: local, Families: agreed.families,
	}
	if !v.report(ctx, sessionReport{up: &up}) {
		return ctx.Err()
	}
	v.wasUp = true
	v.backlog = newBacklog()
	v.gathered = gathering{from: fromPeer}
	if v.reflects() {
		v.gathered.from = fromReflector
	}
	// What fails beside reading ends that, too.
	reading, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	v.speaker.goLive(v, conn, agreed.families, local, fail)
	defer context.AfterFunc(reading, func() { conn.SetReadDeadline(time.Now()) })()
	working, cancel := context.WithCancel(ctx)
	wrote, digested := make(chan struct{}), make(chan struct{})
	begin := func(ended chan<- struct{}, work func() error) {
		defer close(ended)
		if err := work(); err != nil && working.Err() == nil {
			fail(err)
		}
	}
	go begin(wrote, func() error { return v.write(working, conn, v.outbox, agreed, local) })
	go begin(digested, func() error { return v.digest(working) })
	err := v.read(reading, conn, r, agreed)
	interrupted := errors.Is(err, errQuiet) || errors.Is(err, net.ErrClosed) || reading.Err() == err
	if cause := context.Cause(reading); cause != nil && interrupted {
		err = cause
	}
	cancel()
	v.lost(ctx, endingBy(err))
	interrupt(conn, wrote)
	<-digested
	v.speaker.goDead(v)
	return err
}

// lost says that the session has ended, past all that waits for the dispatcher.
// Nothing of the session is reported later but one update at most, which the
// dispatcher drops.
func (v *ownSession) lost(ctx context.Context, why ending) {
	if ctx.Err() != nil {
		return // we have ended it
	}
	s, address := v.speaker, v.neighbor.Address
	s.dispatcher.inbox.post(func(ctx context.Context) {
		s.dispatcher.sessionReported(ctx, &sessionReport{address: address, down: why})
	})
	s.callPeerDown(address, why)
}

// interrupt ends a write that waits for the neighbour.
func interrupt(conn *net.TCPConn, wrote <-chan struct{}) {
	for {
		conn.SetWriteDeadline(time.Now())
		select {
		case <-wrote:
			return
		case <-time.After(10 * time.Millisecond): // it had just set a deadline of its own
		}
	}
}

// read takes messages until the session ends.
func (v *ownSession) read(ctx context.Context, conn *net.TCPConn, r *bufio.Reader, agreed opened) error {
	buffer := make([]byte, v.longestToUs())
	for {
		if agreed.holdTime > 0 && r.Buffered() < headerLength {
			if err := conn.SetReadDeadline(time.Now().Add(agreed.holdTime)); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err // the deadline of AfterFunc may just have been overwritten
		}
		kind, body, err := nextMessage(r, buffer)
		if err != nil {
			if timedOut(err) {
				return errQuiet
			}
			if errors.Is(err, io.EOF) {
				return errors.New("the neighbour closed the connection")
			}
			return err
		}
		if err := v.received(ctx, kind, body); err != nil {
			return err
		}
		if v.reflects() && !hasMessage(r) {
			v.reportUpdate(ctx, v.gathered.take())
		}
	}
}

// received takes one message.
func (v *ownSession) received(ctx context.Context, kind byte, body []byte) error {
	switch kind {
	case bgp.BGP_MSG_UPDATE:
		switch {
		case !v.reflects():
			v.backlog.add(ctx, body)
		case v.speaker.config.AnnounceOnly && len(body) > longestEndOfRIB:
		default:
			return v.update(ctx, body)
		}
	case bgp.BGP_MSG_NOTIFICATION:
		return notified(body)
	case bgp.BGP_MSG_ROUTE_REFRESH:
		v.speaker.refresh(v) // RFC 2918 §4; of all families, which does no harm
	case bgp.BGP_MSG_KEEPALIVE:
	default:
		return bgp.NewMessageError(bgp.BGP_ERROR_MESSAGE_HEADER_ERROR, bgp.BGP_ERROR_SUB_BAD_MESSAGE_TYPE, []byte{kind},
			fmt.Sprintf("message of type %d in a session", kind))
	}
	return nil
}

// update reads the body of an UPDATE, and reports what is complete.
func (v *ownSession) update(ctx context.Context, body []byte) error {
	done, err := v.gathered.add(body)
	v.reportUpdate(ctx, done)
	if err != nil {
		v.reportUpdate(ctx, v.gathered.take())
		return notification(err)
	}
	return nil
}

// reportUpdate reports what was gathered, nil for nothing.
func (v *ownSession) reportUpdate(ctx context.Context, u *routeUpdate) {
	if u != nil {
		v.report(ctx, sessionReport{update: u})
	}
}

// write sends what is in the outbox, and keeps the session alive.
func (v *ownSession) write(ctx context.Context, conn *net.TCPConn, box *outbox, agreed opened, local netip.Addr) error {
	w := bufio.NewWriterSize(patientWriter{conn, agreed.holdTime}, writeChunk)
	var beat <-chan time.Time
	if agreed.holdTime > 0 {
		ticker := time.NewTicker(agreed.holdTime / 3)
		defer ticker.Stop()
		beat = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat:
			if _, err := w.Write(keepalive); err != nil {
				return fmt.Errorf("sending KEEPALIVE: %w", err)
			}
		case <-box.bell:
		}
		for p, more := v.speaker.next(box); more; p, more = v.speaker.next(box) {
			if _, err := w.Write(v.encode(p, local, agreed.longest)); err != nil {
				return fmt.Errorf("sending routes: %w", err)
			}
		}
		if err := w.Flush(); err != nil {
			return fmt.Errorf("sending: %w", err)
		}
	}
}

// writeChunk is how much a neighbour must take within the hold time, in bytes.
const writeChunk = 64 << 10

// patientWriter writes as slowly as the neighbour reads: a whole table may take
// longer than the hold time, but each chunk shows that it lives. Without a hold
// time it waits for ever.
type patientWriter struct {
	conn     net.Conn
	holdTime time.Duration
}

func (w patientWriter) Write(p []byte) (written int, err error) {
	for chunk := range slices.Chunk(p, writeChunk) {
		if w.holdTime > 0 {
			if err := w.conn.SetWriteDeadline(time.Now().Add(w.holdTime)); err != nil {
				return written, err
			}
		}
		n, err := w.conn.Write(chunk)
		written += n
		if timedOut(err) {
			return written, errUntaken
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// lastWord tells the neighbour why the session ends: our own reason, or that we
// stop, which makes it drop our routes. Before a restart it gets none, so that it
// keeps them (RFC 4724 §4.2).
func (v *ownSession) lastWord(ctx context.Context, conn *net.TCPConn, err error) {
	code, subcode := uint8(bgp.BGP_ERROR_CEASE), uint8(bgp.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN)
	var data []byte
	var fault *bgp.MessageError
	switch {
	case errors.As(err, &fault) && ctx.Err() == nil:
		code, subcode, data = fault.TypeCode, fault.SubTypeCode, fault.Data
	case ctx.Err() == nil || v.speaker.leaving.Load():
		return
	}
	if message, err := bgp.NewBGPNotificationMessage(code, subcode, data).Serialize(); err == nil {
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := conn.Write(message); err != nil {
			v.log.Debug("telling the neighbour that the session ends", slog.Any("error", err))
		}
	}
}

// report hands something over to the dispatcher, in order; false when ctx ended.
func (v *ownSession) report(ctx context.Context, r sessionReport) bool {
	r.address = v.neighbor.Address
	select {
	case v.speaker.dispatcher.reports <- report{session: &r}:
		return true
	case <-ctx.Done():
		return false
	}
}
