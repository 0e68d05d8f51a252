// Command bench-client is a load generator by Go's net/http over HTTP/1.1 and HTTP/2, and by
// quic-go over HTTP/3. `cargo xtask bench` starts it.
//
//	bench-client load -http 3 -connections 32 -streams 4 -requests 100000 URL
//	bench-client load -http 2 -rate 5000 -requests 50000 URL
//	bench-client connect -http 3 -resume -requests 500 URL
//	bench-client hold -http 2 -connections 10000 URL
//
// Each mode reports on standard output, a JSON line a report. Faults go to standard error.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"
)

// The command line after the mode.
type options struct {
	http        string
	connections int
	streams     int
	requests    int
	rate        float64
	files       int
	size        int64
	resume      bool
	url         string
}

// A number of open connections.
type opened struct {
	Open int `json:"open"`
}

// The result of a load, by the answers of the server.
type report struct {
	Requests  int   `json:"requests"`
	Failed    int   `json:"failed"`
	BodyBytes int64 `json:"body_bytes"`
	// From the first request to the last answer.
	ElapsedMicros int64 `json:"elapsed_us"`
	Connections   int   `json:"connections"`
	// Connections that took up an earlier TLS session.
	Resumed int     `json:"resumed"`
	Latency latency `json:"latency_us"`
	// CPU time of this program since its connections were open.
	CPUMicros int64 `json:"cpu_us"`
	// The first fault.
	Fault string `json:"fault,omitempty"`
}

var modes = map[string]func(*options) error{"load": load, "connect": connect, "hold": hold}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench-client:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("name a mode: load, connect or hold")
	}
	mode, found := modes[arguments[0]]
	if !found {
		return fmt.Errorf("%q is no mode: take load, connect or hold", arguments[0])
	}
	options, err := parse(arguments[0], arguments[1:])
	if err != nil {
		return err
	}
	return mode(options)
}

func parse(mode string, arguments []string) (*options, error) {
	var o options
	flags := flag.NewFlagSet(mode, flag.ContinueOnError)
	flags.StringVar(&o.http, "http", "", "1, 2 or 3")
	flags.IntVar(&o.connections, "connections", 1, "connections")
	flags.IntVar(&o.streams, "streams", 1, "simultaneous requests of a connection")
	flags.IntVar(&o.requests, "requests", 1, "requests in all, or connections of `connect`")
	flags.Float64Var(&o.rate, "rate", 0, "requests a second, begun at fixed times whether or not earlier ones are answered; 0 is as fast as answers come")
	flags.IntVar(&o.files, "files", 1, "files; {} in the URL becomes the number of one, from 0")
	flags.Int64Var(&o.size, "size", -1, "bytes that each answer has; -1 takes any")
	flags.BoolVar(&o.resume, "resume", false, "connections of `connect` take up the session of the one before")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if flags.NArg() != 1 {
		return nil, errors.New("name one URL, after the options")
	}
	o.url = flags.Arg(0)
	if o.connections < 1 || o.streams < 1 || o.requests < 1 || o.files < 1 {
		return nil, errors.New("-connections, -streams, -requests and -files begin at 1")
	}
	if o.rate < 0 {
		return nil, errors.New("-rate begins at 0")
	}
	if o.http == "1" && o.streams > 1 {
		return nil, errors.New("HTTP/1.1 has one stream a connection: raise -connections in place of -streams")
	}
	return &o, raiseFileLimit(o.connections)
}

// Every connection over TCP needs a descriptor.
func raiseFileLimit(connections int) error {
	needed := uint64(connections) + 100
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur >= needed {
		return err
	}
	limit.Cur, limit.Max = needed, max(limit.Max, needed)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d connections need %d file descriptors: raise `ulimit -n`: %w", connections, needed, err)
	}
	return nil
}

func say(what any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(line))
	return err
}

// Waits for a line on standard input, or its end.
func waitForInput() {
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// CPU time of this program so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
