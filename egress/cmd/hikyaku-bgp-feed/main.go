// Command hikyaku-bgp-feed is a BGP neighbour for experiments. It executes commands from
// standard input, reports when it did, and needs no memory for the routes that it
// announces. The lab measures with it (hikyaku lab run); it is of no use on a network.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const usage = `usage: hikyaku-bgp-feed --local ADDRESS --as N --router-id ID --neighbor ADDRESS --neighbor-as N

Waits on port 179 of ADDRESS for the neighbour, and takes a command a line on standard
input. Each is answered by a line: when it began and when it was done, in nanoseconds
of the monotonic clock, or "error: " and why.

  wait                       until the session is up and the neighbour listens
  announce PREFIX...
  withdraw PREFIX...
  load FIRST COUNT           announces COUNT prefixes that follow each other
  churn FIRST COUNT RATE DURATION FILE
                             withdraws and announces them again at RATE updates a second,
                             and writes when to FILE: TIME announce|withdraw PREFIX
  close                      ends the TCP connection without NOTIFICATION; open ends that

`

// A neighbour does the commands. A speaker that cannot do one says so.
type neighbour interface {
	io.Closer
	wait(ctx context.Context) error
	announce(prefixes []netip.Prefix) error
	withdraw(prefixes []netip.Prefix) error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hikyaku-bgp-feed:", err)
		os.Exit(1)
	}
}

// settings are those of the session.
type settings struct {
	local, neighbour, id netip.Addr
	as, neighbourAS      uint32
	port                 uint16
	speaker              string
}

func parse(args []string) (settings, error) {
	var s settings
	var as, neighbourAS, port uint
	flags := flag.NewFlagSet("hikyaku-bgp-feed", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage); flags.PrintDefaults() }
	flags.TextVar(&s.local, "local", netip.Addr{}, "own address, also the next hop")
	flags.TextVar(&s.neighbour, "neighbor", netip.Addr{}, "the neighbour's address")
	flags.TextVar(&s.id, "router-id", netip.Addr{}, "own BGP identifier")
	flags.UintVar(&as, "as", 0, "own AS number")
	flags.UintVar(&neighbourAS, "neighbor-as", 0, "the neighbour's AS number")
	flags.UintVar(&port, "port", 179, "port to wait on")
	flags.StringVar(&s.speaker, "speaker", "lean", "`lean`, which keeps no route, or `gobgp`, a daemon's own way: announce, withdraw and wait alone")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	s.as, s.neighbourAS, s.port = uint32(as), uint32(neighbourAS), uint16(port)
	switch {
	case !s.local.Is6() || !s.neighbour.Is6():
		return s, errors.New("--local and --neighbor are needed, and are IPv6 addresses")
	case !s.id.Is4():
		return s, errors.New("--router-id is needed, and is written as an IPv4 address")
	case s.as == 0 || s.neighbourAS == 0:
		return s, errors.New("--as and --neighbor-as are needed")
	}
	return s, nil
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	var n neighbour
	switch s.speaker {
	case "lean":
		n, err = listen(ctx, s)
	case "gobgp":
		n, err = startGoBGP(ctx, s)
	default:
		err = fmt.Errorf("--speaker %q: neither `lean` nor `gobgp`", s.speaker)
	}
	if err != nil {
		return err
	}
	defer n.Close()
	// A signal ends the reading, too.
	context.AfterFunc(ctx, func() { os.Stdin.Close() })
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		began := now()
		if err := obey(ctx, n, strings.Fields(lines.Text())); err != nil {
			fmt.Fprintln(out, "error:", err)
			continue
		}
		fmt.Fprintln(out, int64(began), int64(now()))
	}
	return nil
}

// now is the monotonic clock, which all processes of a machine share.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(t.Nano())
}
