package session

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/wire"
)

// keepalive is the KEEPALIVE message (RFC 4271 §4.4).
var keepalive = func() []byte {
	b := wire.AppendHeader(nil, bgp.BGP_MSG_KEEPALIVE)
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)))
	return b
}()

// write sends the messages of the outbox, and keeps the session alive.
func (s *Session) write(ctx context.Context, conn *net.TCPConn, holdTime time.Duration) error {
	w := bufio.NewWriterSize(patientWriter{conn, holdTime}, writeChunk)
	var beat <-chan time.Time
	if holdTime > 0 {
		ticker := time.NewTicker(holdTime / 3)
		defer ticker.Stop()
		beat = ticker.C
	}
	ready := s.config.Outbox.Ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat:
			if _, err := w.Write(keepalive); err != nil {
				return fmt.Errorf("sending KEEPALIVE: %w", err)
			}
		case <-ready:
		}
		for messages, more := s.config.Outbox.Next(); more; messages, more = s.config.Outbox.Next() {
			if _, err := w.Write(messages); err != nil {
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

// notify sends the NOTIFICATION that ends a session: our own reason, or that we shut down,
// which makes the neighbour drop our routes. Before a restart there is none (RFC 4724 §4.2).
func (s *Session) notify(ctx context.Context, conn *net.TCPConn, err error) {
	code, subcode := uint8(bgp.BGP_ERROR_CEASE), uint8(bgp.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN)
	var data []byte
	var fault *bgp.MessageError
	switch {
	case errors.As(err, &fault) && ctx.Err() == nil:
		code, subcode, data = fault.TypeCode, fault.SubTypeCode, fault.Data
	case ceased(ctx) != nil:
		code, subcode = ceased(ctx).TypeCode, ceased(ctx).SubTypeCode
	case ctx.Err() == nil || context.Cause(ctx) == ErrRestart:
		return
	}
	if message, err := bgp.NewBGPNotificationMessage(code, subcode, data).Serialize(); err == nil {
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := conn.Write(message); err != nil {
			s.config.Logger.Debug("sending NOTIFICATION", slog.Any("error", err))
		}
	}
}
