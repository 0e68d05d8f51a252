package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"hikyaku/egress/agent"
	"hikyaku/egress/config"
	"hikyaku/egress/flows"
)

const flowsUsage = `Usage: hikyaku-egress flows --config FILE [--check]

SRv6 FlowStats: counts what leaves by SID and inner 5-tuple, in bytes and packets as on
the wire. Writes differences to where the section [flows] says; on a terminal it
also shows a live view.

Options:
  --config FILE  configuration of a server; its section [flows] counts. Of a border,
                 too, with flows.interfaces: it takes SRv6 off, so packets leave it
                 without a SID, and are counted by 5-tuple where flows.plain is true
  --check        check the configuration and exit

SIGHUP opens the files of json and csv anew.
`

// runFlows counts flows until ctx ends.
func runFlows(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("flows", flowsUsage, out)
	file := flags.String("config", "", "")
	check := flags.Bool("check", false, "")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	loaded, err := load(*file, "")
	if err != nil {
		return err
	}
	c := loaded.Common().Flows
	if len(c.Interfaces) == 0 {
		return fmt.Errorf("counting flows as %s says: %w", *file, errNothingToCount)
	}
	if *check {
		fmt.Fprintf(out, "%s: the configuration is right\n", *file)
		return nil
	}
	settings := loaded.Common().Log
	log := logger(settings.Format, agent.Levels[settings.Level], errs)
	if loaded.Border != nil && !c.Plain {
		log.Warn("flows.plain is false: of what leaves a border only packets to other borders' SIDs are counted")
	}
	sinks, closeSinks, err := flowSinks(ctx, c, out)
	if err != nil {
		return err
	}
	defer closeSinks()
	if len(sinks) == 0 {
		return errors.New("nothing to write to: set flows.json, flows.csv or flows.metrics, or run it on a terminal")
	}
	counters, err := attach(c)
	if err != nil {
		return err
	}
	results := make(chan error, len(counters))
	for _, counter := range counters {
		go func() {
			results <- errors.Join(flows.Run(ctx, counter, c.Interval, log, sinks...), counter.Close())
		}()
	}
	for range counters {
		err = errors.Join(err, <-results)
	}
	return err
}

// errNothingToCount is a border's: a server always has an interface.
var errNothingToCount = errors.New("a border takes SRv6 off, so that packets leave it without a SID: " +
	"count on the servers, or set `flows.interfaces` to those of the egress peers and `flows.plain` to true, " +
	"which counts by 5-tuple")

// attach begins to count on every interface, or on none.
func attach(c config.Flows) ([]*flows.Counter, error) {
	var counters []*flows.Counter
	for _, name := range c.Interfaces {
		counter, err := flows.Attach(flows.Options{
			Interface: name, MaxFlows: int(c.MaxFlows), Idle: c.Idle, Plain: c.Plain,
		})
		if err != nil {
			for _, attached := range counters {
				err = errors.Join(err, attached.Close())
			}
			return nil, err // it names the interface
		}
		counters = append(counters, counter)
	}
	return counters, nil
}

// flowSinks opens the outputs that the configuration names, and a live view on a terminal.
// Opened outputs are closed again where the rest cannot be opened.
func flowSinks(ctx context.Context, c config.Flows, out io.Writer) ([]flows.Sink, func(), error) {
	var files []*output
	closeAll := func() {
		for _, f := range files {
			f.close()
		}
	}
	var sinks []flows.Sink
	for _, kind := range []struct {
		to     config.Output
		header string // of a file
		sink   func(io.Writer) flows.Sink
		stdout func(io.Writer) flows.Sink
	}{
		{c.JSON, "", jsonSink, jsonSink},
		{c.CSV, flows.CSVHeader, csvRowsSink, csvSink},
	} {
		switch kind.to {
		case config.OutputOff:
		case config.OutputStdout:
			sinks = append(sinks, &shared{sink: kind.stdout(out)})
		default:
			f, err := openOutput(ctx, kind.to.File(), kind.header)
			if err != nil {
				closeAll()
				return nil, nil, err
			}
			files = append(files, f)
			sinks = append(sinks, &shared{sink: kind.sink(f)})
		}
	}
	if c.Metrics.IsValid() {
		metrics, err := flowMetrics(ctx, c.Metrics.String())
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		sinks = append(sinks, metrics)
	}
	if c.JSON != config.OutputStdout && c.CSV != config.OutputStdout && isTerminal(os.Stdout) {
		sinks = append(sinks, &shared{sink: flows.NewTerminal(os.Stdout)})
	}
	return sinks, closeAll, nil
}

func jsonSink(w io.Writer) flows.Sink    { return flows.NewJSONLines(w) }
func csvSink(w io.Writer) flows.Sink     { return flows.NewCSV(w) }
func csvRowsSink(w io.Writer) flows.Sink { return flows.NewCSVRows(w) }

// flowMetrics serves totals on an address until ctx ends.
func flowMetrics(ctx context.Context, address string) (flows.Sink, error) {
	registry := prometheus.NewRegistry()
	metrics, err := flows.NewMetrics(registry)
	if err == nil {
		err = serveMetrics(ctx, address, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	}
	return &shared{sink: metrics}, err
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// shared lets several interfaces write to one sink.
type shared struct {
	mu   sync.Mutex
	sink flows.Sink
}

// Write implements [flows.Sink].
func (s *shared) Write(sample *flows.Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sink.Write(sample)
}

// output is a file that is opened anew on SIGHUP, so that it can be rotated.
type output struct {
	path   string
	header string // comes first in each file
	mu     sync.Mutex
	file   *os.File
	begun  bool // something was written to file
}

func openOutput(ctx context.Context, path, header string) (*output, error) {
	o := &output{path: path, header: header}
	if err := o.reopen(); err != nil {
		return nil, err
	}
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangUps)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangUps:
				// The old file stays in use when the new one cannot be opened.
				if err := o.reopen(); err != nil {
					fmt.Fprintln(os.Stderr, "error:", err)
				}
			}
		}
	}()
	return o, nil
}

func (o *output) reopen() error {
	file, err := os.OpenFile(o.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("opening %s for flows: %w", o.path, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		o.file.Close()
	}
	o.file, o.begun = file, false
	return nil
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var header string
	if o.header != "" && o.isNew() {
		header = o.header
	}
	o.begun = true
	// At once, so that a reader of the file never sees rows without their header.
	n, err := o.file.Write(append([]byte(header), p...))
	return max(n-len(header), 0), err
}

// isNew reports whether nothing is in the file: a former run may have written to it, and
// somebody may have cut it to nothing. Pipes and terminals have no size to go by.
func (o *output) isNew() bool {
	info, err := o.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return !o.begun
	}
	return info.Size() == 0
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.file.Close()
}

// serveMetrics answers /metrics until ctx ends.
func serveMetrics(ctx context.Context, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go server.Serve(listener) // ends with ctx
	return nil
}
