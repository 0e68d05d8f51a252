package speaker

import (
	"context"
	"sync"
)

// inbox is work for one goroutine. Posting never waits, since those who post are
// GoBGP's sessions, timers, and callers that may be the reader of events.
type inbox struct {
	mu   sync.Mutex
	list []func(context.Context)
	// bell has a value while there may be work.
	bell chan struct{}
}

func newInbox() *inbox { return &inbox{bell: make(chan struct{}, 1)} }

func (b *inbox) post(f func(context.Context)) {
	b.mu.Lock()
	b.list = append(b.list, f)
	b.mu.Unlock()
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

// work does all that was posted, in order.
func (b *inbox) work(ctx context.Context) {
	b.mu.Lock()
	list := b.list
	b.list = nil
	b.mu.Unlock()
	for _, f := range list {
		f(ctx)
	}
}
