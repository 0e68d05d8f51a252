package session

import (
	"context"
	"encoding/binary"
	"sync"
)

// backlog is a queue of UPDATE messages of an egress peer, from the goroutine that reads
// them to the one that decodes them. The connection is read whatever the reader of events
// is doing. So the loss of a peer is noticed at once, not behind its last routes.
type backlog struct {
	mu sync.Mutex
	// pending has bodies, each behind its length in two bytes.
	pending []byte
	// bell has a value while there may be messages, room while there may be room.
	bell, room chan struct{}
}

// maxBacklog bounds pending, in bytes; beyond it the peer must wait. A table of 200,000
// routes has some 5 MB.
const maxBacklog = 8 << 20

func newBacklog() *backlog {
	return &backlog{bell: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// add appends a message. It waits for room until ctx ends.
func (b *backlog) add(ctx context.Context, body []byte) {
	for !b.append(body) {
		select {
		case <-b.room:
		case <-ctx.Done():
			return
		}
	}
	wake(b.bell)
}

func (b *backlog) append(body []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) >= maxBacklog {
		return false
	}
	b.pending = binary.BigEndian.AppendUint16(b.pending, uint16(len(body)))
	b.pending = append(b.pending, body...)
	return true
}

// take returns all pending messages.
func (b *backlog) take() (pending []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pending, b.pending = b.pending, nil
	wake(b.room)
	return pending
}

// wake leaves a value in a channel that has room for one.
func wake(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// digest decodes the backlog until ctx ends. It fails where an UPDATE must end the
// session.
func (s *Session) digest(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.backlog.bell:
		}
		for pending := s.backlog.take(); len(pending) > 0 && ctx.Err() == nil; {
			body, rest := cutBody(pending)
			if err := s.update(ctx, body); err != nil {
				return err
			}
			pending = rest
		}
		s.handOver(ctx, s.gathered.Take())
	}
}

// cutBody takes the first body off the pending ones.
func cutBody(pending []byte) (body, rest []byte) {
	n := 2 + int(binary.BigEndian.Uint16(pending))
	return pending[2:n], pending[n:]
}
