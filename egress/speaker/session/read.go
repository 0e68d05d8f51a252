package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/wire"
)

// read takes messages until the session ends.
func (s *Session) read(ctx context.Context, conn *net.TCPConn, r *bufio.Reader, holdTime time.Duration) error {
	buffer := make([]byte, s.maxReceived())
	for {
		if holdTime > 0 && r.Buffered() < wire.HeaderLength {
			if err := conn.SetReadDeadline(time.Now().Add(holdTime)); err != nil {
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
		if err := s.received(ctx, kind, body); err != nil {
			return err
		}
		if s.reflects() && !hasMessage(r) {
			s.handOver(ctx, s.gathered.Take())
		}
	}
}

// received takes one message.
func (s *Session) received(ctx context.Context, kind byte, body []byte) error {
	switch kind {
	case bgp.BGP_MSG_UPDATE:
		switch {
		case !s.reflects():
			s.backlog.add(ctx, body)
		case s.config.AnnounceOnly && len(body) > wire.MaxEndOfRIB:
		default:
			return s.update(ctx, body)
		}
	case bgp.BGP_MSG_NOTIFICATION:
		return notified(body)
	case bgp.BGP_MSG_ROUTE_REFRESH:
		s.config.Outbox.Refresh() // RFC 2918 §4; of all families, which does no harm
	case bgp.BGP_MSG_KEEPALIVE:
	default:
		return bgp.NewMessageError(bgp.BGP_ERROR_MESSAGE_HEADER_ERROR, bgp.BGP_ERROR_SUB_BAD_MESSAGE_TYPE, []byte{kind},
			fmt.Sprintf("message of type %d in a session", kind))
	}
	return nil
}

// update decodes the body of an UPDATE, and hands over complete updates.
func (s *Session) update(ctx context.Context, body []byte) error {
	done, err := s.gathered.Add(body)
	s.handOver(ctx, done)
	if err != nil {
		s.handOver(ctx, s.gathered.Take())
		return wire.Notification(err)
	}
	return nil
}

// handOver hands an update to the handler; nil for none.
func (s *Session) handOver(ctx context.Context, u *wire.Update) {
	if u != nil {
		s.config.Handler.Update(ctx, u)
	}
}
