package session

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pieces is a connection on which so many bytes come at a time, 0 for a pause of a second.
type pieces struct {
	net.Conn
	left []int
}

func (c *pieces) Read(p []byte) (int, error) {
	n := c.left[0]
	if c.left = c.left[1:]; n == 0 {
		time.Sleep(time.Second)
		return c.Read(p)
	}
	return min(n, len(p)), nil
}

func TestBurstReader(t *testing.T) {
	const (
		full  = 50_000
		flood = 2 * floodRate / 1000 // in burstTime
	)
	for name, c := range map[string]struct {
		pieces []int
		took   time.Duration
	}{
		"the first comes at once":        {[]int{1}, 0},
		"small ones wait for more":       {[]int{1, 1, 1}, 2 * burstTime},
		"where there is more it is read": {[]int{full, full, 1}, 0},
		"after a pause it comes at once": {[]int{1, 0, 1}, time.Second + burstTime},
		"many wait longer":               {[]int{1, flood, 1}, burstTime + floodTime},
		"as long as they are many":       {[]int{1, flood, 10 * flood, 1, 1}, burstTime + 2*floodTime + burstTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, begin := burstReader{Conn: &pieces{left: c.pieces}}, time.Now()
			for i := range c.pieces {
				if c.pieces[i] == 0 {
					continue
				}
				if _, err := r.Read(make([]byte, full)); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begin); took != c.took {
				t.Errorf("%s: it took %s, want %s", name, took, c.took)
			}
		})
	}
}
