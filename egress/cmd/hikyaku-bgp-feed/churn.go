package main

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"
)

// churn changes one route at a time, at times that do not depend on how long each takes. A
// prefix is withdrawn, and announced again about a second later. It ends with all
// announced.
func (l *lean) churn(ctx context.Context, r prefixRange, rate int, duration time.Duration, file string) error {
	s, err := l.current()
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("creating the log: %w", err)
	}
	defer out.Close()
	c := churner{lean: l, session: s, prefixes: r, log: bufio.NewWriter(out), away: max(1, min(rate/2, r.count-1))}
	began := time.Now()
	total := int(float64(rate) * duration.Seconds())
	for i := range total {
		due := began.Add(time.Duration(float64(i) / float64(rate) * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := c.next(); err != nil {
			return err
		}
	}
	for len(c.gone) > 0 {
		if err := c.restore(); err != nil {
			return err
		}
	}
	return c.log.Flush()
}

// churner knows which prefix is next.
type churner struct {
	*lean
	session  *session
	prefixes prefixRange
	log      *bufio.Writer
	// away is how many prefixes are withdrawn at a time.
	away int
	// gone are those, the oldest first.
	gone []int
	turn int
}

// next withdraws a prefix, or announces the one that has been gone longest.
func (c *churner) next() error {
	if len(c.gone) >= c.away {
		return c.restore()
	}
	// A step without a common divisor meets every prefix before any comes again.
	i := c.turn
	c.turn = (c.turn + 1) % c.prefixes.count
	c.gone = append(c.gone, i)
	prefix := c.prefixes.at(i)
	m, err := withdrawal([]netip.Prefix{prefix})
	if err != nil {
		return err
	}
	c.record("withdraw", prefix)
	return c.session.send(m)
}

func (c *churner) restore() error {
	i := c.gone[0]
	c.gone = c.gone[1:]
	prefix := c.prefixes.at(i)
	m, err := announcement(c.local, c.pathOf(i), []netip.Prefix{prefix})
	if err != nil {
		return err
	}
	c.record("announce", prefix)
	return c.session.send(m)
}

func (c *churner) record(what string, prefix netip.Prefix) {
	fmt.Fprintln(c.log, int64(now()), what, prefix)
}
