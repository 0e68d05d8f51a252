package rtr

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"hikyaku/egress/rpki"
)

// Config is how to reach a cache. Intervals must be set.
type Config struct {
	// Name is for the log.
	Name string
	// Address of the cache, with its port.
	Address netip.AddrPort
	// LocalAddress to connect from; unset: the kernel's choice.
	LocalAddress netip.Addr
	// ConnectRetry is the time between attempts to connect.
	ConnectRetry time.Duration
	// Refresh, Retry and Expire are the intervals of RFC 8210 §6. They are for a cache that
	// does not name its own, since it knows version 0 alone or has no data yet.
	Refresh, Retry, Expire time.Duration
	// Changed is called with the cache's VRPs, sorted by [rpki.Compare], whenever they have
	// changed. They may not be written to.
	Changed func([]rpki.VRP)
	// Notify is called when the status has changed, after Changed.
	Notify func()
	Log    *slog.Logger
}

// Status is the state of the connection with a cache, and of the data from it.
type Status struct {
	// Up: the connection stands, and the cache has answered.
	Up bool
	// Version of the protocol.
	Version uint8
	// VRPs that the cache has given and that have not expired.
	VRPs int
	// Serial is the version of the data, by the cache's count.
	Serial uint32
	// Updated is when the data were last confirmed, zero without any.
	Updated time.Time
	// Expires is when the data are dropped unless they are confirmed before.
	Expires time.Time
	// Error is why there is no connection, empty while it is up.
	Error string
}

// Client gets the VRPs of one cache.
type Client struct {
	config Config
	// The fields below belong to Run's goroutine.
	version uint8
	// session and serial name the data for a Serial Query; known: they are there.
	session uint16
	serial  uint32
	known   bool
	vrps    []rpki.VRP
	// refresh, retry and expire are the intervals in force.
	refresh, retry, expire time.Duration
	// expiry ends the use of data that were not confirmed.
	expiry *time.Timer

	mu     sync.Mutex
	status Status
}

// New returns a client without data. [Client.Run] gets them.
func New(config Config) *Client {
	expiry := time.NewTimer(time.Hour)
	expiry.Stop()
	return &Client{
		config: config, version: newestVersion, expiry: expiry,
		refresh: config.Refresh, retry: config.Retry, expire: config.Expire,
		status: Status{Error: "the cache has not answered yet"},
	}
}

// Status returns the present state.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// update changes the status, and reports that.
func (c *Client) update(change func(*Status)) {
	c.mu.Lock()
	change(&c.status)
	c.mu.Unlock()
	c.config.Notify()
}

// Run keeps the data up to date until ctx ends. Data of a cache that is away stay until they
// expire.
func (c *Client) Run(ctx context.Context) {
	defer c.expiry.Stop()
	for ctx.Err() == nil {
		was := c.version
		err := c.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := c.pauseAfter(err)
		level := slog.LevelDebug
		if c.version == 0 && c.Status().Up {
			c.version = newestVersion // the cache may be another one next time
		}
		if reason := err.Error(); reason != c.Status().Error && wait > 0 {
			level = slog.LevelWarn
			c.update(func(s *Status) { s.Up, s.Error = false, reason })
		}
		c.config.Log.Log(ctx, level, "no connection with RPKI cache", "cache", c.config.Name,
			"error", err, "version", was, "again_in", wait)
		c.pause(ctx, wait)
	}
}

// errOldVersion ends a connection with a cache that knows version 0 alone.
var errOldVersion = errors.New("the cache does not know version 1")

// pauseAfter is how long to wait after the end of a connection. A cache that refuses a query
// gets the next one after the retry interval (RFC 8210 §6); one that restarts sooner.
func (c *Client) pauseAfter(err error) time.Duration {
	var refused refusedError
	var fault protocolError
	switch {
	case errors.Is(err, errOldVersion):
		return 0
	case errors.As(err, &refused) && refused.outdated:
	case errors.As(err, &refused), errors.As(err, &fault):
		return c.retry
	}
	return c.config.ConnectRetry
}

// pause waits, and lets data expire meanwhile.
func (c *Client) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-c.expiry.C:
			c.drop()
		}
	}
}

// drop forgets data that have expired (RFC 8210 §6).
func (c *Client) drop() {
	c.config.Log.Warn("the data of an RPKI cache have expired", "cache", c.config.Name, "vrps", len(c.vrps))
	c.vrps, c.known = nil, false
	c.config.Changed(nil)
	c.update(func(s *Status) { s.VRPs, s.Updated, s.Expires = 0, time.Time{}, time.Time{} })
}

// commit takes the data that a cache has confirmed by End of Data.
func (c *Client) commit(end pdu, vrps []rpki.VRP, changed bool) {
	c.session, c.serial, c.known = end.session, end.serial, true
	if end.version > 0 {
		// The ranges of RFC 8210 §6.
		c.refresh = clamp(end.refresh, time.Second, 24*time.Hour)
		c.retry = clamp(end.retry, time.Second, 2*time.Hour)
		c.expire = max(clamp(end.expire, 10*time.Minute, 48*time.Hour), c.refresh, c.retry)
	}
	now := time.Now()
	c.expiry.Reset(c.expire)
	if changed {
		c.vrps = vrps
		c.config.Changed(vrps)
		c.config.Log.Info("RPKI cache has new data", "cache", c.config.Name, "vrps", len(vrps), "serial", end.serial)
	}
	c.update(func(s *Status) {
		s.Up, s.Error, s.Version = true, "", end.version
		s.VRPs, s.Serial, s.Updated, s.Expires = len(vrps), end.serial, now, now.Add(c.expire)
	})
}

func clamp(d, least, most time.Duration) time.Duration { return min(max(d, least), most) }

// dialer connects from the address that is configured.
func (c *Client) dialer() *net.Dialer {
	d := &net.Dialer{Timeout: silence, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}}
	if c.config.LocalAddress.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.config.LocalAddress, 0))
	}
	return d
}
