package session

import (
	"net"
	"time"
)

// burstReader reads a connection at most once in burstTime, or in floodTime while much
// comes, unless there is more than fits. gobgpd sends each route by itself, and to be woken
// by each costs more than to take it. Messages after a pause are read at once.
type burstReader struct {
	net.Conn
	last time.Time // when something was read
	next time.Time // the earliest time of the next read
}

// How much later than it could a route may be read.
const (
	burstTime = time.Millisecond
	// floodTime is for whole tables, which are there sooner where the reflector has the
	// CPU for itself. Of two CPUs it is the difference between 13 and 10 s for 800,000
	// routes of gobgpd's.
	floodTime = 10 * time.Millisecond
	// floodRate is that of ten routes in a millisecond, in bytes a second: twice what
	// churns in a large network.
	floodRate = 2_000_000
)

func (r *burstReader) Read(p []byte) (n int, err error) {
	time.Sleep(time.Until(r.next))
	n, err = r.Conn.Read(p)
	now := time.Now()
	if n < len(p) {
		r.next = now.Add(interval(n, now.Sub(r.last)))
	}
	r.last = now
	return n, err
}

// interval is the time until the next read where n bytes have come since the last one.
func interval(n int, since time.Duration) time.Duration {
	if float64(n) >= floodRate*since.Seconds() {
		return floodTime
	}
	return burstTime
}
