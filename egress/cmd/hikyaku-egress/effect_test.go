package main_test

import (
	"context"
	"testing"
	"time"

	"hikyaku/egress/api"
)

// TestDrainTakesEffect prints how long after its request a border's drain is known
// at the server, by BGP.
func TestDrainTakesEffect(t *testing.T) {
	t.Parallel()
	l := running(t)
	ctx, border := context.Background(), api.NewClient(l.borderAPI)
	var took []time.Duration
	for i := range 40 {
		want, change := api.Draining, func() error { _, err := border.Drain(ctx, path(0), "test"); return err }
		if i%2 == 1 {
			want, change = api.Up, func() error { _, err := border.Undrain(ctx, path(0)); return err }
		}
		began := time.Now()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		l.soon("the server knows of the drain and its end", func() bool { return l.state(l.serverAPI, path(0)) == want })
		took = append(took, time.Since(began))
	}
	t.Logf("drain at the border known at the server after %s", distribution(took))
}

// soon is eventually with more frequent checks, for measured times.
func (l *lab) soon(what string, cond func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited in vain until %s", what)
		}
	}
}
