package session

import (
	"context"
	"testing"
)

func TestBacklogIsBoundedAndInOrder(t *testing.T) {
	b := newBacklog()
	const size = 1000
	messages := maxBacklog/(size+2) + 1 // the last one fills it
	body := make([]byte, size)
	for i := range messages {
		body[0], body[1] = byte(i>>8), byte(i)
		b.add(t.Context(), body)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	b.add(ended, body) // must not wait, and not be taken
	added := make(chan struct{})
	go func() {
		defer close(added)
		b.add(t.Context(), []byte{'l', 'a', 's', 't'})
	}()
	count := 0
	for pending := b.take(); len(pending) > 0; count++ {
		var one []byte
		one, pending = cutBody(pending)
		if len(one) != size || one[0] != byte(count>>8) || one[1] != byte(count) {
			t.Fatalf("message %d is another one", count)
		}
	}
	if count != messages {
		t.Errorf("%d messages came out, want %d", count, messages)
	}
	<-added
	if last, _ := cutBody(b.take()); string(last) != "last" {
		t.Errorf("the message that waited for room came out as %q", last)
	}
}
