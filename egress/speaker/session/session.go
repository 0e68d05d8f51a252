// Package session keeps up BGP sessions that are opened from here. The neighbours are route
// reflectors that carry VPN routes alone, routers that send the routes of their peers by
// ADD-PATH, and egress peers.
//
// GoBGP needs 500 bytes for each route received and 900 for each announced, on every
// session. A session of this package keeps none: received UPDATEs go to a [Handler] as they
// come, and an [Outbox] has the messages to send.
//
// Connections that a neighbour opens are refused, so that no two connections ever collide
// (RFC 4271 §6.8). Neighbours that must open them are GoBGP's, see [Neighbor.Passive].
package session

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/wire"
)

// Handler is notified of the events of a session, one call at a time and in order. Ended
// alone may come while another call waits; of the calls that follow it in that session
// there is one at most, of Update.
type Handler interface {
	// Established is called when the session is up and its outbox has begun. It waits until
	// that is handed over, and returns false when ctx ended before.
	Established(ctx context.Context, terms wire.Terms) bool
	// Update takes the contents of one or more UPDATEs. It may wait until ctx ends.
	Update(ctx context.Context, u *wire.Update)
	// Failed is called when an attempt to open a session has failed for another reason
	// than the attempt before.
	Failed(ctx context.Context, reason string)
	// Ended is called the moment a session ends that we have not ended. It must not wait.
	Ended(end End)
}

// Outbox has the messages to send on sessions with one neighbour.
type Outbox interface {
	// Begin fills it for a new session. full is to be called, with the number of routes
	// that wait, when the neighbour leaves too many unread: it ends the session.
	Begin(terms wire.Terms, full func(waiting int))
	// End empties it.
	End()
	// Refresh queues everything again (RFC 2918 §4).
	Refresh()
	// Ready has a value while there may be something to send, from Begin to End.
	Ready() <-chan struct{}
	// Next returns encoded messages, and false when nothing waits. They may be empty
	// although more waits.
	Next() (messages []byte, ok bool)
}

// Config has the settings that a session needs.
type Config struct {
	// AS and RouterID are our own.
	AS       uint32
	RouterID netip.Addr
	Neighbor Neighbor
	// AnnounceOnly skips the routes of reflectors, malformed or not.
	AnnounceOnly bool
	// Restarting returns whether the neighbour is to keep our former routes.
	Restarting func() bool
	Outbox     Outbox
	Handler    Handler
	// Logger is for lines about this neighbour.
	Logger *slog.Logger
}

// ErrRestart is the cause to cancel the context of [Session.Run] with before a restart. The
// neighbour then gets no NOTIFICATION, so that it keeps our routes (RFC 4724 §4.2).
var ErrRestart = errors.New("restarting")

// TooManyPrefixes returns the cause to cancel the context of [Session.Run] with when the
// neighbour sends more routes than it may (RFC 4486 §3). The end of the session is reported.
func TooManyPrefixes(reason string) error {
	return bgp.NewMessageError(bgp.BGP_ERROR_CEASE, bgp.BGP_ERROR_SUB_MAXIMUM_NUMBER_OF_PREFIXES_REACHED, nil, reason)
}

// ceased is the NOTIFICATION that the context was cancelled with, nil for none.
func ceased(ctx context.Context) *bgp.MessageError {
	var fault *bgp.MessageError
	errors.As(context.Cause(ctx), &fault)
	return fault
}

// Session is our end of the sessions with one neighbour.
type Session struct {
	config Config
	// wasUp: there was a session before, whose announcements still hold.
	wasUp bool
	// reason is why the last attempt has failed, "" after a session.
	reason string
	// Of the present session:
	backlog  *backlog // of an egress peer
	gathered *wire.Gatherer
}

// New returns a session that is not up. [Session.Run] opens it.
func New(config Config) *Session { return &Session{config: config} }

// reflects reports whether the neighbour is a router of our own AS, as route reflectors are.
func (s *Session) reflects() bool { return s.config.Neighbor.AS == s.config.AS }

// source is the kind of the neighbour.
func (s *Session) source() wire.Source {
	switch {
	case s.config.Neighbor.AddPath:
		return wire.FromAddPath
	case s.reflects() && s.config.Neighbor.TakesBest():
		return wire.FromReflectorWithBest
	case s.reflects():
		return wire.FromReflector
	}
	return wire.FromPeer
}

// Run keeps the session up until ctx ends.
func (s *Session) Run(ctx context.Context) {
	for ctx.Err() == nil {
		up, err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		s.notUp(ctx, up, err)
		// RFC 4271 §10: up to a quarter less, so that routers do not move in step.
		wait := s.config.Neighbor.ConnectRetry
		select {
		case <-ctx.Done():
		case <-time.After(wait - rand.N(wait/4)):
		}
	}
}

// notUp logs that there is no session, and notifies the handler of a failed attempt whose
// reason is new. up: the attempt had led to a session, whose end is reported by Ended.
func (s *Session) notUp(ctx context.Context, up bool, err error) {
	// The port that the kernel chose is another one each time.
	reason := err.Error()
	var network *net.OpError
	if errors.As(err, &network) {
		reason = network.Err.Error()
	}
	level := slog.LevelDebug
	if !up && reason != s.reason {
		level = slog.LevelWarn
		s.config.Handler.Failed(ctx, reason)
	}
	if s.reason = reason; up {
		s.reason = ""
	}
	s.config.Logger.Log(ctx, level, "no session with neighbour",
		slog.Any("error", err), slog.Duration("again_in", s.config.Neighbor.ConnectRetry))
}

// once is one connection's life. up: it came to a session.
func (s *Session) once(ctx context.Context) (up bool, err error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	// Ends reading and writing, and leaves the connection to a NOTIFICATION.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	r := bufio.NewReaderSize(&burstReader{Conn: conn}, 64<<10)
	terms, err := s.open(conn, r)
	if up = err == nil; up {
		err = s.established(ctx, conn, r, terms)
	}
	s.notify(ctx, conn, err)
	return up, err
}

// established exchanges routes until the session ends, and returns why.
func (s *Session) established(ctx context.Context, conn *net.TCPConn, r *bufio.Reader, terms wire.Terms) error {
	// A failure beside reading ends that, too.
	reading, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// Whoever hears of the session from the handler may ask the outbox at once.
	s.config.Outbox.Begin(terms, func(waiting int) {
		fail(unread(waiting))
		conn.Close()
	})
	defer s.config.Outbox.End()
	if !s.config.Handler.Established(ctx, terms) {
		return ctx.Err()
	}
	s.wasUp = true
	s.backlog = newBacklog()
	s.gathered = wire.NewGatherer(s.source())
	defer context.AfterFunc(reading, func() { conn.SetReadDeadline(time.Now()) })()
	working, cancel := context.WithCancel(ctx)
	wrote, digested := make(chan struct{}), make(chan struct{})
	begin := func(ended chan<- struct{}, work func() error) {
		defer close(ended)
		if err := work(); err != nil && working.Err() == nil {
			fail(err)
		}
	}
	go begin(wrote, func() error { return s.write(working, conn, terms.HoldTime) })
	go begin(digested, func() error { return s.digest(working) })
	err := s.read(reading, conn, r, terms.HoldTime)
	interrupted := errors.Is(err, errQuiet) || errors.Is(err, net.ErrClosed) || reading.Err() == err
	cause := context.Cause(reading)
	if cause == nil {
		// The connection's deadline may pass before ctx has ended reading.
		cause = context.Cause(ctx)
	}
	if cause != nil && interrupted {
		err = cause
	}
	cancel()
	if ctx.Err() == nil || ceased(ctx) != nil { // else we have ended it for good
		s.config.Handler.Ended(endOf(err))
	}
	interrupt(conn, wrote)
	<-digested
	return err
}
