package flows

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// fakeReader gives one packet a read, and one more after Detach.
type fakeReader struct {
	reads    int
	detached bool
	after    int // reads after Detach
	fails    error
}

func (r *fakeReader) Read(now time.Time, s *Sample) error {
	r.reads++
	if r.detached {
		r.after++
	}
	*s = Sample{Time: now, Records: append(s.Records[:0], Record{Delta: Counts{Packets: 1}})}
	return r.fails
}

func (r *fakeReader) Detach() error { r.detached = true; return nil }

// adder sums packets and ends the run after some.
type adder struct {
	packets uint64
	enough  uint64
	stop    context.CancelFunc
	fails   error
}

func (a *adder) Write(s *Sample) error {
	for _, r := range s.Records {
		a.packets += r.Delta.Packets
	}
	if a.stop != nil && a.packets == a.enough {
		a.stop()
	}
	return a.fails
}

func TestRunReadsOnceMoreAfterDetaching(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, sink := &fakeReader{}, &adder{enough: 3, stop: stop}
	if err := Run(ctx, reader, time.Millisecond, quiet, sink); err != nil {
		t.Fatal(err)
	}
	if !reader.detached || reader.after != 1 {
		t.Errorf("detached %t, %d reads afterwards; want one", reader.detached, reader.after)
	}
	if sink.packets != uint64(reader.reads) {
		t.Errorf("%d packets read, %d written", reader.reads, sink.packets)
	}
}

func TestRunGoesOnWithoutASinkThatFails(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	broken, sound := &adder{fails: errDiskFull}, &adder{enough: 3, stop: stop}
	if err := Run(ctx, &fakeReader{}, time.Millisecond, quiet, broken, sound); err != nil {
		t.Fatal(err)
	}
	if broken.packets != 1 || sound.packets < 3 {
		t.Errorf("the broken sink got %d packets, the sound one %d; want 1, at least 3", broken.packets, sound.packets)
	}
}

func TestRunEndsWhenNoSinkIsLeft(t *testing.T) {
	reader := &fakeReader{}
	err := Run(t.Context(), reader, time.Millisecond, quiet, &adder{fails: errDiskFull})
	if !errors.Is(err, errDiskFull) || !reader.detached {
		t.Errorf("got error %v, detached %t; want %v, true", err, reader.detached, errDiskFull)
	}
}

func TestRunWritesTheRecordsOfAFailedRead(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sink := &adder{enough: 2, stop: stop}
	if err := Run(ctx, &fakeReader{fails: errors.New("no draining")}, time.Millisecond, quiet, sink); err != nil {
		t.Fatal(err)
	}
	if sink.packets < 2 {
		t.Errorf("%d packets written", sink.packets)
	}
}

func TestRunRefusesImpossibleOptions(t *testing.T) {
	if err := Run(t.Context(), &fakeReader{}, time.Second, quiet); err == nil {
		t.Error("no sink: want an error")
	}
	if err := Run(t.Context(), &fakeReader{}, 0, quiet, &adder{}); err == nil {
		t.Error("no interval: want an error")
	}
}
