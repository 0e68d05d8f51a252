package speaker

import (
	"net"
	"time"
)

// burstReader reads a connection at most once in burstTime, unless there is more than
// fits: gobgpd sends each route by itself, and to be woken by each costs more than to take
// it. What comes after a pause is read at once.
type burstReader struct {
	net.Conn
	next time.Time // the earliest time of the next read
}

// burstTime is how much later than it could a route may be read.
const burstTime = time.Millisecond

func (r *burstReader) Read(p []byte) (n int, err error) {
	time.Sleep(time.Until(r.next))
	n, err = r.Conn.Read(p)
	if n < len(p) {
		r.next = time.Now().Add(burstTime)
	}
	return n, err
}
