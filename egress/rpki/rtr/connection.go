package rtr

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"hikyaku/egress/rpki"
)

// silence is how long a cache may leave a query, or the rest of an answer, unsent.
const silence = 60 * time.Second

// refusedError is an error report of a cache.
type refusedError struct {
	code uint16
	text string
	// outdated: it does not know our data, so that everything must be asked for.
	outdated bool
}

func (e refusedError) Error() string {
	if e.code == noDataAvailable {
		return "the cache has no data yet"
	}
	return fmt.Sprintf("the cache reports error %d: %s", e.code, e.text)
}

// connection is one connection with a cache.
type connection struct {
	*Client
	conn net.Conn
	// answered: the cache has sent something, by which its version is known.
	answered bool
	// asking: a query waits for the end of its answer. reset: it asks for everything.
	asking, reset bool
	// responding: Cache Response has begun the answer.
	responding bool
	changes    []change
	// patience ends a query that is not answered.
	patience *time.Timer
	// next is when to ask for changes (RFC 8210 §6).
	next *time.Timer
}

// connect keeps one connection until it ends, and returns why.
func (c *Client) connect(ctx context.Context) error {
	conn, err := c.dialer().DialContext(ctx, "tcp", c.config.Address.String())
	if err != nil {
		return plain(err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	k := &connection{Client: c, conn: conn, patience: time.NewTimer(silence), next: time.NewTimer(c.refresh)}
	defer k.patience.Stop()
	defer k.next.Stop()
	if err := k.ask(!c.known); err != nil {
		return err
	}
	received, failed := make(chan pdu, 256), make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	go receive(bufio.NewReaderSize(conn, 64<<10), received, failed, done)
	err = k.converse(ctx, received, failed)
	var fault protocolError
	if errors.As(err, &fault) {
		// Data that do not fit together are asked for anew.
		c.known = false
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		conn.Write(appendErrorReport(nil, c.version, fault))
	}
	return plain(err)
}

// plain takes addresses off network errors: the port that the kernel chose is another one
// each time.
func plain(err error) error {
	var network *net.OpError
	if errors.As(err, &network) {
		return fmt.Errorf("%s: %w", network.Op, network.Err)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the cache closed the connection")
	}
	return err
}

// receive reads PDUs until that fails, or done is closed.
func receive(r *bufio.Reader, received chan<- pdu, failed chan<- error, done <-chan struct{}) {
	for {
		p, err := readPDU(r)
		if err != nil {
			select { // behind the PDUs before it
			case failed <- err:
			case <-done:
			}
			return
		}
		select {
		case received <- p:
		case <-done:
			return
		}
	}
}

func (k *connection) converse(ctx context.Context, received <-chan pdu, failed <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-received:
			if err := k.take(p); err != nil {
				return err
			}
		case err := <-failed:
			for len(received) > 0 {
				if err := k.take(<-received); err != nil {
					return err
				}
			}
			return err
		case <-k.next.C:
			if !k.asking {
				if err := k.ask(!k.known); err != nil {
					return err
				}
			}
		case <-k.patience.C:
			if k.asking {
				return errors.New("the cache does not answer")
			}
		case <-k.expiry.C:
			k.drop()
		}
	}
}

// ask sends a query, for everything or for changes.
func (k *connection) ask(reset bool) error {
	k.asking, k.reset, k.responding, k.changes = true, reset, false, nil
	query := appendResetQuery(nil, k.version)
	if !reset {
		query = appendSerialQuery(nil, k.version, k.session, k.serial)
	}
	k.patience.Reset(silence)
	k.conn.SetWriteDeadline(time.Now().Add(silence))
	_, err := k.conn.Write(query)
	return err
}

// take takes a PDU of the cache.
func (k *connection) take(p pdu) error {
	if err := k.agree(p); err != nil {
		return err
	}
	switch p.kind {
	case errorReport:
		// A cache that has restarted refuses the session (RFC 8210 §5.1).
		outdated := k.asking && !k.reset && p.session != noDataAvailable
		k.known = k.known && !outdated
		return refusedError{p.session, p.text, outdated}
	case serialNotify:
		if !k.asking {
			return k.ask(!k.known || p.session != k.session)
		}
	case cacheReset:
		if !k.asking || k.responding || k.reset {
			return faulty(corruptData, nil, "a Cache Reset that answers nothing")
		}
		return k.ask(true)
	case cacheResponse:
		return k.begin(p)
	case ipv4Prefix, ipv6Prefix:
		if !k.responding {
			return faulty(corruptData, nil, "a prefix outside of an answer")
		}
		if k.patience.Reset(silence); len(k.changes) >= maxVRPs {
			return faulty(corruptData, nil, "more than %d prefixes", maxVRPs)
		}
		k.changes = append(k.changes, change{p.vrp, p.announced})
	case endOfData:
		return k.end(p)
	}
	return nil
}

// agree settles the version (RFC 8210 §7).
func (k *connection) agree(p pdu) error {
	if p.kind == errorReport && p.session == unsupportedVersion && k.version > 0 && !k.answered {
		k.version = 0
		return errOldVersion
	}
	if p.version != k.version && p.kind != errorReport {
		if k.answered || p.version > k.version {
			return faulty(unexpectedVersion, nil, "a PDU of version %d in a connection of version %d", p.version, k.version)
		}
		k.version = p.version
	}
	k.answered = true
	return nil
}

// begin takes Cache Response (RFC 8210 §5.5).
func (k *connection) begin(p pdu) error {
	switch {
	case !k.asking || k.responding:
		return faulty(corruptData, nil, "a Cache Response that answers nothing")
	case !k.reset && p.session != k.session:
		return faulty(corruptData, nil, "session %d instead of %d", p.session, k.session)
	}
	k.session, k.responding = p.session, true
	k.patience.Reset(silence)
	return nil
}

// end takes End of Data (RFC 8210 §5.8).
func (k *connection) end(p pdu) error {
	if !k.responding || p.session != k.session {
		return faulty(corruptData, nil, "an End of Data that ends no answer")
	}
	var before []rpki.VRP
	if !k.reset {
		before = k.vrps
	}
	vrps, changed := k.vrps, len(k.changes) > 0
	if changed || k.reset {
		var err error
		if vrps, err = apply(before, k.changes); err != nil {
			return err
		}
		changed = !slices.Equal(vrps, k.vrps)
	}
	k.asking, k.responding, k.changes = false, false, nil
	k.commit(p, vrps, changed)
	k.next.Reset(k.refresh)
	return nil
}
