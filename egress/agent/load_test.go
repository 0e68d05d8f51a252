package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

// BenchmarkServerLoad is a content server that takes the tables of four peers from a
// reflector and plans all routes, with everything but the kernel. gobgpd 3.10 sends each
// route in an UPDATE of its own, FRR many in one. The reflector's own share is left
// out of the times but for the garbage collector's, to which it gives little to do.
func BenchmarkServerLoad(b *testing.B) {
	for _, c := range []sending{
		{name: "gobgpd", perMessage: 1, pause: 30 * time.Microsecond},
		{name: "one a message", perMessage: 1},
		{name: "FRR", perMessage: loadShared},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				load(b, c)
			}
		})
	}
}

const (
	loadPaths  = 4
	loadRoutes = 200_000 // a path
	loadShared = 50      // that follow each other have the same attributes
	loadAS     = 64500
)

var loadBorder = netip.MustParseAddr("192.0.2.1")

// sending is how a reflector sends its routes.
type sending struct {
	name       string
	perMessage int
	pause      time.Duration // between messages, in which it computes
}

func load(b *testing.B, way sending) {
	r := listenAsReflector(b)
	c := loadConfig(r.listener.Addr())
	s := &Server{config: c, subflows: noSubflows{}}
	s.engine = newEngine(&c.Common, config.RoleServer, Options{Log: slog.New(slog.DiscardHandler)}, s)
	put := &putRoutes{all: make(chan struct{})}
	s.tables = put
	s.load(kernel.State{}, nil)
	spoken, err := speakerConfig(&c.Common, s.log)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	before := cpuTime(b, unix.RUSAGE_SELF)
	started, err := speaker.Start(ctx, spoken)
	if err != nil {
		b.Fatal(err)
	}
	s.bgp = started
	ended := make(chan error, 1)
	go func() { ended <- s.loop(ctx) }()
	begin := time.Now()
	reflector := r.serve(b, way)
	select {
	case <-put.all:
	case <-time.After(10 * time.Minute):
		b.Fatalf("%d routes are planned after 10 minutes", put.n)
	}
	took, cpu := time.Since(begin), cpuTime(b, unix.RUSAGE_SELF)-before-<-reflector
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(took.Seconds(), "s/loaded")
	b.ReportMetric(cpu.Seconds(), "cpu-s/loaded")
	b.ReportMetric(float64(memory.HeapSys-memory.HeapReleased)/1e6, "MB/heap")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	started.Close()
}

func loadConfig(reflector net.Addr) *config.Server {
	at := reflector.(*net.TCPAddr).AddrPort()
	c := &config.Server{}
	c.ASN, c.RouterID = loadAS, netip.MustParseAddr("192.0.2.11")
	c.BGP.StaleTime, c.BGP.ConnectRetry = time.Hour, time.Second
	c.Reflectors = []config.Reflector{{Session: config.Session{
		Name: "rr", Address: at.Addr(), Port: at.Port(), HoldTime: 90 * time.Second,
	}}}
	c.Limits.RoutesPerPath = 2 * loadRoutes
	for i := range loadPaths {
		rd, rt := loadTarget(i)
		c.Paths = append(c.Paths, config.Path{
			Name: fmt.Sprint("path", i), RD: rd, RT: rt, Mark: uint32(i + 1), Table: uint32(i + 100),
		})
	}
	return c
}

// putRoutes stands for the kernel's tables.
type putRoutes struct {
	unchanging
	n   int
	all chan struct{}
}

func (p *putRoutes) Apply(_ context.Context, change kernel.Change) error {
	before := p.n
	if p.n += len(change.Put.Routes); before < loadPaths*loadRoutes && p.n >= loadPaths*loadRoutes {
		close(p.all)
	}
	return nil
}

func cpuTime(b *testing.B, who int) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(who, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
