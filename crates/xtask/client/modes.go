package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Simultaneous handshakes: enough to keep a server busy, but few enough that it sends no Retry.
const opening = 64

// Collects the answers of several goroutines.
type tally struct {
	options *options
	// Requests so far.
	begun atomic.Int64

	lock    sync.Mutex
	report  report
	samples []uint32
}

// Sends a request and counts its answer. Its time counts from `since`.
func (t *tally) request(c *connection, number int64, since time.Time) {
	size, err := fetch(c, t.options, number)
	took := micros(time.Since(since))
	t.lock.Lock()
	defer t.lock.Unlock()
	t.report.Requests++
	t.report.BodyBytes += size
	t.samples = append(t.samples, took)
	if err != nil {
		t.fail(err)
	}
}

func (t *tally) fail(err error) {
	t.report.Failed++
	if t.report.Fault == "" {
		t.report.Fault = err.Error()
	}
}

func fetch(c *connection, o *options, number int64) (int64, error) {
	request, err := http.NewRequest(http.MethodGet, address(o, number), nil)
	if err != nil {
		return 0, err
	}
	response, err := c.trip(request)
	if err != nil {
		return 0, err
	}
	size, err := io.Copy(io.Discard, response.Body)
	err = errors.Join(err, response.Body.Close())
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("status %d", response.StatusCode))
	}
	if o.size >= 0 && size != o.size {
		err = errors.Join(err, fmt.Errorf("%d bytes, not %d", size, o.size))
	}
	return size, err
}

// The URL of a request: each run takes the same files in the same order.
func address(o *options, number int64) string {
	if o.files == 1 {
		return strings.Replace(o.url, "{}", "0", 1)
	}
	file := rand.New(rand.NewPCG(1, uint64(number))).IntN(o.files)
	return strings.Replace(o.url, "{}", strconv.Itoa(file), 1)
}

// Opens the connections, some at a time.
func openAll(d *dialer, count int) ([]*connection, error) {
	connections, faults := make([]*connection, count), make([]error, count)
	var group sync.WaitGroup
	gate := make(chan struct{}, opening)
	for number := range count {
		gate <- struct{}{}
		group.Go(func() {
			connections[number], faults[number] = d.open()
			<-gate
		})
	}
	group.Wait()
	return connections, errors.Join(faults...)
}

// Sends requests over open connections. It reports their number first, and begins when a line comes
// on standard input.
func load(o *options) error {
	d, err := newDialer(o)
	if err != nil {
		return err
	}
	connections, err := openAll(d, o.connections)
	if err != nil {
		return fmt.Errorf("opening connections: %w", err)
	}
	if err := say(opened{len(connections)}); err != nil {
		return err
	}
	waitForInput()
	t := tally{options: o, samples: make([]uint32, 0, o.requests)}
	cpu, began := cpuTime(), time.Now()
	if o.rate > 0 {
		t.openLoop(connections, began)
	} else {
		t.closedLoop(connections)
	}
	t.report.ElapsedMicros = time.Since(began).Microseconds()
	t.report.CPUMicros = (cpuTime() - cpu).Microseconds()
	t.report.Connections = len(connections)
	t.report.Latency = summarise(t.samples)
	return say(t.report)
}

// Each stream sends its next request when the one before is answered.
func (t *tally) closedLoop(connections []*connection) {
	var group sync.WaitGroup
	for _, c := range connections {
		for range t.options.streams {
			group.Go(func() {
				for {
					number := t.begun.Add(1) - 1
					if number >= int64(t.options.requests) {
						return
					}
					t.request(c, number, time.Now())
				}
			})
		}
	}
	group.Wait()
}

// Requests begin at fixed times, and their answers' times count from then, even where the client or
// a connection was busy. So a server that halts for a while pays for every request of that while.
func (t *tally) openLoop(connections []*connection, began time.Time) {
	free := make(chan *connection, len(connections)*t.options.streams)
	for range t.options.streams {
		for _, c := range connections {
			free <- c
		}
	}
	var group sync.WaitGroup
	for number := range int64(t.options.requests) {
		due := began.Add(time.Duration(float64(number) / t.options.rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		group.Go(func() {
			c := <-free
			t.request(c, number, due)
			free <- c
		})
	}
	group.Wait()
}

// Opens connections one after the other, with one request each.
func connect(o *options) error {
	d, err := newDialer(o)
	if err != nil {
		return err
	}
	t := tally{options: o}
	if o.resume {
		d.config.ClientSessionCache = sessions()
		// The first has no session to take up.
		if err := t.connectOnce(d); err != nil {
			return err
		}
		t = tally{options: o}
	}
	if err := say(opened{0}); err != nil {
		return err
	}
	waitForInput()
	cpu, began := cpuTime(), time.Now()
	for range o.requests {
		if err := t.connectOnce(d); err != nil {
			return err
		}
	}
	t.report.ElapsedMicros = time.Since(began).Microseconds()
	t.report.CPUMicros = (cpuTime() - cpu).Microseconds()
	t.report.Latency = summarise(t.samples)
	return say(t.report)
}

func sessions() tls.ClientSessionCache {
	return tls.NewLRUClientSessionCache(1)
}

func (t *tally) connectOnce(d *dialer) error {
	began := time.Now()
	c, err := d.open()
	if err != nil {
		return fmt.Errorf("opening a connection: %w", err)
	}
	t.report.Connections++
	if c.resumed {
		t.report.Resumed++
	}
	t.request(c, 0, began)
	return c.close()
}

// Opens connections with one request each, and holds them until standard input ends. It reports the
// number that is open before and after.
func hold(o *options) error {
	d, err := newDialer(o)
	if err != nil {
		return err
	}
	connections, err := openAll(d, o.connections)
	if err != nil {
		return fmt.Errorf("opening connections: %w", err)
	}
	if err := answering(connections, o); err != nil {
		return err
	}
	if err := say(opened{len(connections)}); err != nil {
		return err
	}
	waitForInput()
	// A closed connection answers nothing.
	if err := answering(connections, o); err != nil {
		return err
	}
	return say(opened{len(connections)})
}

func answering(connections []*connection, o *options) error {
	for number, c := range connections {
		if _, err := fetch(c, o, 0); err != nil {
			return fmt.Errorf("connection %d: %w", number, err)
		}
	}
	return nil
}
