package kernel

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"hikyaku/egress/netnstest"
)

// manyRoutes gives n IPv6 prefixes of a full table's common lengths, all unlike.
func manyRoutes(n int, table uint32, hop NexthopID) []Route {
	routes := make([]Route, n)
	for i := range routes {
		var raw [16]byte
		binary.BigEndian.PutUint32(raw[:], 0x2a000000+uint32(i))
		binary.BigEndian.PutUint16(raw[4:], uint16(i*7919))
		bits := []int{32, 36, 40, 44, 48, 48}[i%6]
		routes[i] = Route{Prefix: netip.PrefixFrom(netip.AddrFrom16(raw), bits).Masked(), Table: table, Nexthop: hop}
	}
	return routes
}

func peerNexthop(id NexthopID, sid string) Nexthop {
	return Nexthop{ID: id, Family: IPv6, Device: anchorName, Encap: Encap, SID: addr(sid)}
}

// figures logs how long steps take. They are reported, not checked: the machine may
// be busy.
type figures struct{ t *testing.T }

func (f figures) time(what string, step func() error) {
	f.t.Helper()
	start := time.Now()
	if err := step(); err != nil {
		f.t.Fatalf("%s: %s", what, err)
	}
	f.t.Logf("%-62s %10.1f ms", what, milliseconds(time.Since(start)))
}

func (f figures) distribution(what string, took []time.Duration) {
	f.t.Helper()
	slices.Sort(took)
	f.t.Logf("%-62s %10.3f ms median, %.3f p99, %.3f max of %d", what, milliseconds(took[len(took)/2]),
		milliseconds(took[len(took)*99/100]), milliseconds(took[len(took)-1]), len(took))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// fullTable is the size that the figures are for; -short takes a tenth.
func fullTable() int {
	if testing.Short() {
		return 20_000
	}
	return 200_000
}

func TestFullTableFigures(t *testing.T) {
	n, f, ctx := fullTable(), figures{t}, t.Context()
	a := open(t, netnstest.New(t, "bulk"), Options{})
	tables, err := LoadTables(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	hop, sid := FirstNexthopID+1, Route{Prefix: prefix("fc00::1/128"), Table: MainTable, Nexthop: FirstNexthopID}
	routes := manyRoutes(n, 1001, hop)
	peer := State{Nexthops: []Nexthop{peerNexthop(hop, "fc00:1::1")}, Routes: routes}
	heap := heapBytes()
	f.time("load a table", func() error { return tables.Apply(ctx, Change{Put: peer}) })
	if got := tables.Routes(1001); got != n {
		t.Fatalf("the table has %d routes, want %d", got, n)
	}
	f.time("load it again, nothing to do", func() error { return tables.Apply(ctx, Change{Put: peer}) })
	t.Logf("memory of Tables: %.0f bytes a route", float64(heapBytes()-heap)/float64(n))

	changes := make([]time.Duration, 1000)
	for i := range changes {
		changes[i] = flip(t, tables, routes[i])
	}
	f.distribution("withdraw and add one prefix", changes)
	drops := make([]time.Duration, 100)
	endpoint := Nexthop{ID: sid.Nexthop, Family: IPv6, Device: anchorName, Local: Local{Action: EndDT6, Table: 1001}}
	for i := range drops {
		put(t, tables, State{Nexthops: []Nexthop{endpoint}, Routes: []Route{sid}})
		drops[i] = timed(t, func() error { return tables.Drop(ctx, sid) })
	}
	f.distribution("drop a peer", drops)
	whileLoading(t, f, tables, routes, sid)

	wholeTable(t, f, tables, routes)
}

// wholeTable measures the operations that concern all routes at once.
func wholeTable(t *testing.T, f figures, tables *Tables, routes []Route) {
	ctx, hop := t.Context(), routes[0].Nexthop
	f.time("repoint the table by its nexthop", func() error {
		return tables.Apply(ctx, Change{Put: State{Nexthops: []Nexthop{peerNexthop(hop, "fc00:1::2")}}})
	})
	f.time("blackhole the table by its nexthop", func() error {
		return tables.Apply(ctx, Change{Put: State{Nexthops: []Nexthop{{ID: hop, Family: IPv6, Blackhole: true}}}})
	})
	var state State
	var err error
	f.time("read two tables back", func() error { state, err = tables.applier.Read(ctx); return err })
	var ops []Op
	f.time("compare them with what is wanted", func() error { ops = Diff(state, tables.Snapshot()); return nil })
	if len(ops) > 0 {
		t.Errorf("Tables and the kernel differ: %q", commands(ops[:min(len(ops), 5)]))
	}
	f.time("remove every second route", func() error { return tables.Apply(ctx, Change{Remove: State{Routes: half(routes)}}) })
	f.time("remove both tables by their nexthops", func() error {
		return tables.Apply(ctx, Change{Remove: State{Nexthops: []Nexthop{{ID: hop}, {ID: hop + 1}}}})
	})
	for _, table := range []uint32{1001, 1002} {
		if left := tables.Routes(table); left != 0 {
			t.Errorf("table %d has %d routes left", table, left)
		}
	}
	if state := read(t, tables.applier); len(state.Routes) != 1 {
		t.Errorf("%d routes are left in the kernel, want that of the SID", len(state.Routes))
	}
}

// whileLoading measures how long others wait while a second peer's table is loaded.
func whileLoading(t *testing.T, f figures, tables *Tables, routes []Route, sid Route) {
	second := State{Nexthops: []Nexthop{peerNexthop(FirstNexthopID+2, "fc00:2::1")}}
	second.Routes = manyRoutes(len(routes), 1002, FirstNexthopID+2)
	var loading sync.WaitGroup
	done := make(chan struct{})
	loading.Go(func() {
		defer close(done)
		if err := tables.Apply(t.Context(), Change{Put: second}); err != nil {
			t.Errorf("loading a second table: %s", err)
		}
	})
	var changes, drops []time.Duration
	for i := 0; ; i++ {
		select {
		case <-done:
			loading.Wait()
			f.distribution("withdraw and add one prefix, while another table loads", changes)
			f.distribution("drop a peer, while another table loads", drops)
			return
		default:
		}
		changes = append(changes, flip(t, tables, routes[i%len(routes)]))
		start := time.Now()
		if err := tables.applier.apply(t.Context(), tables.applier.urgent, []Op{sid.Drop()}, plainly); err != nil {
			t.Fatal(err)
		}
		drops = append(drops, time.Since(start))
	}
}

// flip withdraws a route and adds it again, and gives the mean time of one change.
func flip(t *testing.T, tables *Tables, r Route) time.Duration {
	t.Helper()
	return timed(t, func() error {
		if err := tables.Apply(t.Context(), Change{Remove: State{Routes: []Route{r}}}); err != nil {
			return err
		}
		return tables.Apply(t.Context(), Change{Put: State{Routes: []Route{r}}})
	}) / 2
}

func put(t *testing.T, tables *Tables, s State) {
	t.Helper()
	if err := tables.Apply(t.Context(), Change{Put: s}); err != nil {
		t.Fatal(err)
	}
}

func timed(t *testing.T, step func() error) time.Duration {
	t.Helper()
	start := time.Now()
	if err := step(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

func half(routes []Route) []Route {
	var every []Route
	for i := 0; i < len(routes); i += 2 {
		every = append(every, routes[i])
	}
	return every
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
