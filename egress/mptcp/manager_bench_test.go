package mptcp

import (
	"net/netip"
	"testing"
	"time"
)

// BenchmarkPathDown takes a path from 10,000 connections and gives it back;
// the kernel's share is not in it.
func BenchmarkPathDown(b *testing.B) {
	k := newFakeKernel()
	p, err := NewPolicy(nil, []Rule{{Name: "all", Mode: Aggregated}})
	must(b, err)
	var count int
	m, err := newManager(Config{Policy: p, Paths: labPaths(PathUp, PathUp), Router: bestA,
		OnCommand: func(Command, error) { count++ }}, k, k)
	must(b, err)
	for i := range 10_000 {
		e := settled
		e.Token = Token(i + 1)
		e.Remote = netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 14: byte(i >> 8), 15: byte(i)}), 40000)
		m.onEvent(e, time.Now())
	}
	for b.Loop() {
		k.commands, count = k.commands[:0], 0
		must(b, m.SetPaths(labPaths(PathUp, PathDown)))
		must(b, m.SetPaths(labPaths(PathUp, PathUp)))
		if count != 20_000 {
			b.Fatalf("%d commands, want 20,000", count)
		}
	}
}

// BenchmarkReconsider decides anew for a batch of 1,024 prefixes, each of which holds
// 20 of 200,000 clients.
func BenchmarkReconsider(b *testing.B) {
	k := newFakeKernel()
	p, err := NewPolicy(nil, []Rule{{Name: "all", Mode: Aggregated}})
	must(b, err)
	m, err := newManager(Config{Policy: p, Paths: labPaths(PathUp, PathUp), Router: bestA}, k, k)
	must(b, err)
	client := func(i int) netip.Addr {
		prefix := i / 20
		return netip.AddrFrom16([16]byte{0x2a, 1, byte(prefix >> 10), 4: byte(prefix >> 8), 5: byte(prefix), 15: byte(i % 20)})
	}
	for i := range 200_000 {
		e := settled
		e.Token, e.Remote = Token(i+1), netip.AddrPortFrom(client(i), 40000)
		m.onEvent(e, time.Now())
	}
	var prefixes []netip.Prefix
	for i := range 1024 {
		prefix, err := client(20 * i).Prefix(48)
		must(b, err)
		prefixes = append(prefixes, prefix)
	}
	for b.Loop() {
		m.Reconsider(prefixes...)
		m.again.notBefore = time.Time{}
		m.reconsider()
	}
}
