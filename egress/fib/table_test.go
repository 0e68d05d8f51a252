package fib_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
)

func hop(n int) kernel.MainHop {
	return kernel.MainHop{Device: "eth0", Gateway: netip.MustParseAddr(fmt.Sprintf("fe80::%d", n))}
}

func route(prefix string, metric uint32, hops ...int) kernel.MainRoute {
	r := kernel.MainRoute{Prefix: netip.MustParsePrefix(prefix), Metric: metric}
	for _, n := range hops {
		r.Hops = append(r.Hops, hop(n))
	}
	return r
}

// show is the table as text: each prefix with the last digits of its gateways.
func show(t *fib.Table) string {
	var lines []string
	t.Within(netip.MustParsePrefix("::/0"), func(p netip.Prefix, hops *fib.Hops) bool {
		line := p.String()
		for _, h := range hops.List {
			line += " " + strings.TrimPrefix(h.Gateway.String(), "fe80::")
		}
		lines = append(lines, line)
		return true
	})
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func TestTableFollowsTheKernel(t *testing.T) {
	const a, b = "2001:db8:a::/48", "2001:db8:b::/48"
	for _, test := range []struct {
		name  string
		steps func(*fib.Table)
		want  string
		// changed are the prefixes that the steps after a Take have changed.
		changed string
	}{
		{"a route", func(t *fib.Table) { t.Put(route(a, 20, 1), false) }, a + " 1", a},
		{"replaced", func(t *fib.Table) { t.Put(route(a, 20, 1), false); t.Take(); t.Put(route(a, 20, 2), true) }, a + " 2", a},
		{"replaced by the same", func(t *fib.Table) { t.Put(route(a, 20, 1, 2), false); t.Take(); t.Put(route(a, 20, 2, 1), true) }, a + " 1 2", ""},
		{"beside an equal one", func(t *fib.Table) { t.Put(route(a, 20, 1), false); t.Put(route(a, 20, 2), false) }, a + " 1 2", a},
		{"a next hop of two goes", func(t *fib.Table) { t.Put(route(a, 20, 1, 2), false); t.Delete(route(a, 20, 1)) }, a + " 2", a},
		{"it goes", func(t *fib.Table) { t.Put(route(a, 20, 1), false); t.Delete(route(a, 20, 1)) }, "", a},
		{"a better one comes and goes", func(t *fib.Table) {
			t.Put(route(a, 20, 1), false)
			t.Put(route(a, 10, 2), false)
			t.Delete(route(a, 10, 2))
		}, a + " 1", a},
		{"a worse one changes nothing", func(t *fib.Table) { t.Put(route(a, 20, 1), false); t.Take(); t.Put(route(a, 30, 2), false) }, a + " 1", ""},
		{"one that was never there goes", func(t *fib.Table) {
			t.Put(route(a, 20, 1), false)
			t.Delete(route(b, 20, 1))
			t.Delete(route(a, 30, 1))
		}, a + " 1", a},
		{"a route that drops", func(t *fib.Table) { t.Put(route(a, 20), false) }, a, a},
		{"read again, without one", func(t *fib.Table) {
			t.Put(route(a, 20, 1), false)
			t.Put(route(b, 20, 1), false)
			t.Put(route(b, 30, 3), false)
			t.Take()
			t.Begin(kernel.IPv6)
			t.Put(route(b, 20, 2), false) // silently another
			t.End(kernel.IPv6)
		}, b + " 2", a + ", " + b},
		{"a reading of the other family", func(t *fib.Table) {
			t.Put(route(a, 20, 1), false)
			t.Take()
			t.Begin(kernel.IPv4)
			t.End(kernel.IPv4)
		}, a + " 1", ""},
	} {
		table := fib.New()
		test.steps(table)
		if got := show(table); got != test.want {
			t.Errorf("%s: the table is [%s], want [%s]", test.name, got, test.want)
		}
		changed, many := table.Take()
		var texts []string
		for _, p := range changed {
			texts = append(texts, p.String())
		}
		slices.Sort(texts)
		if got := strings.Join(texts, ", "); got != test.changed || many {
			t.Errorf("%s: changed are [%s], want [%s]", test.name, got, test.changed)
		}
	}
}

func TestSameNextHopsAreOne(t *testing.T) {
	table := fib.New()
	table.Put(route("2001:db8:a::/48", 20, 1, 2), false)
	table.Put(route("2001:db8:b::/48", 30, 2, 1), false)
	_, first, _ := table.Longest(netip.MustParsePrefix("2001:db8:a::1/128"))
	prefix, second, ok := table.Longest(netip.MustParsePrefix("2001:db8:b::/64"))
	if !ok || first != second || prefix.Bits() != 48 {
		t.Errorf("%p and %p by %s are the next hops of both", first, second, prefix)
	}
}

// BenchmarkMemory is a table of a million IPv4 and 250,000 IPv6 prefixes.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		table := fib.New()
		for n := range 1_000_000 {
			a := netip.AddrFrom4([4]byte{byte(1 + n>>16), byte(n >> 8), byte(n), 0})
			table.Put(kernel.MainRoute{Prefix: netip.PrefixFrom(a, 24), Metric: 20, Hops: []kernel.MainHop{hop(n % 8)}}, false)
		}
		for n := range 250_000 {
			a := netip.AddrFrom16([16]byte{0x20, 1, byte(n >> 16), byte(n >> 8), byte(n)})
			table.Put(kernel.MainRoute{Prefix: netip.PrefixFrom(a, 48), Metric: 20, Hops: []kernel.MainHop{hop(n % 8)}}, false)
		}
		if table.Len() != 1_250_000 {
			b.Fatal(table.Len())
		}
		routes := float64(table.Len())
		b.ReportMetric(float64(held(table))/routes, "B/route")
	}
}

// held returns the bytes that only the table holds.
func held(table *fib.Table) uint64 {
	var with, without runtime.MemStats
	table.Take()
	runtime.GC()
	runtime.ReadMemStats(&with)
	runtime.KeepAlive(table)
	*table = fib.Table{}
	runtime.GC()
	runtime.ReadMemStats(&without)
	return with.HeapAlloc - without.HeapAlloc
}
