package flows

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"hikyaku/egress/bpf"
)

// program is the loaded program with its tables mapped.
type program struct {
	coll    *ebpf.Collection
	flows   []bpf.Flow
	batches []bpf.Batch
	marks   []bpf.Marks
	sids    []bpf.SID
	mapped  [][]byte
	barrier *barrier
}

// load loads the program for an interface whose link header is that long.
func load(opts Options, linkHeader uint32) (*program, error) {
	spec, err := bpf.Spec()
	if err != nil {
		return nil, err
	}
	if err := configure(spec, opts, linkHeader); err != nil {
		return nil, err
	}
	// Kernels before 5.11 account tables as locked memory; later ones do not
	// care, so that failing is no error yet.
	_ = rlimit.RemoveMemlock()
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("loading the flows program (needs CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and Linux 5.14 with CONFIG_BPF_EVENTS): %w", err)
	}
	p := &program{coll: coll}
	if err := p.mapTables(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// placesOfMarks is how many places one entry of the table of marks stands for.
const placesOfMarks = bpf.GroupPlaces * groupsOfMarks

// configure sets table size and constants.
func configure(spec *ebpf.CollectionSpec, opts Options, linkHeader uint32) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("counting CPUs: %w", err)
	}
	places := uint32(1) << bits.Len32(uint32(2*opts.MaxFlows-1))
	spec.Maps[bpf.FlowTable].MaxEntries = places
	spec.Maps[bpf.MarkTable].MaxEntries = max(1, places/uint32(placesOfMarks))
	spec.Maps[bpf.BatchTable].MaxEntries = uint32(cpus)
	var keys [bpf.HashKeys]uint64
	var random [8 * bpf.HashKeys]byte
	if _, err := rand.Read(random[:]); err != nil {
		return fmt.Errorf("reading random hash keys: %w", err)
	}
	for i := range keys {
		keys[i] = binary.NativeEndian.Uint64(random[8*i:])
	}
	var plain uint8
	if opts.Plain {
		plain = 1
	}
	for name, value := range map[string]any{
		bpf.VarHashKeys: keys, bpf.VarFlowMask: places - 1, bpf.VarLinkHeader: linkHeader,
		bpf.VarCountPlain: plain,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s of the flows program: %w", name, err)
		}
	}
	return nil
}

func (p *program) mapTables() error {
	var err error
	if p.flows, err = mapEntries[bpf.Flow](p, bpf.FlowTable); err != nil {
		return err
	}
	if p.batches, err = mapEntries[bpf.Batch](p, bpf.BatchTable); err != nil {
		return err
	}
	if p.marks, err = mapEntries[bpf.Marks](p, bpf.MarkTable); err != nil {
		return err
	}
	if p.sids, err = mapEntries[bpf.SID](p, bpf.SIDTable); err != nil {
		return err
	}
	p.barrier, err = newBarrier()
	return err
}

// mapEntries maps a table into this process's memory.
func mapEntries[T any](p *program, name string) ([]T, error) {
	m := p.coll.Maps[name]
	size := int(m.MaxEntries()) * int(m.ValueSize())
	memory, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the table %s (%d bytes): %w", name, size, err)
	}
	p.mapped = append(p.mapped, memory)
	// The mapping is page-aligned and T has the entry's size: the layout test
	// compares both with the object's BTF.
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), m.MaxEntries()), nil
}

// drain has the packets that wait on all CPUs added to their flows. Those of a CPU that is
// offline, and so adds none, wait on, unless the program is detached: last says so.
func (p *program) drain(last bool) error {
	for cpu := range p.batches {
		if atomic.LoadUint32(&p.batches[cpu].Waiting) == 0 {
			continue
		}
		err := p.drainCPU(cpu, runOnCPU)
		if errors.Is(err, unix.ENXIO) {
			if !last {
				continue
			}
			err = p.drainCPU(cpu, 0)
		}
		if err != nil {
			return fmt.Errorf("adding packets that wait on CPU %d to their flows: %w", cpu, err)
		}
	}
	return nil
}

const (
	// runOnCPU is BPF_F_TEST_RUN_ON_CPU: run in an interrupt of the CPU.
	runOnCPU = 1 << 0
	// drainTries is how often a CPU is interrupted that is counting a packet each time.
	// Counting takes some hundredths of its time at most.
	drainTries = 1000
)

func (p *program) drainCPU(cpu int, flags uint32) error {
	run := &ebpf.RunOptions{Context: uint64(cpu), CPU: uint32(cpu), Flags: flags}
	if flags&runOnCPU == 0 {
		run.CPU = 0
	}
	for range drainTries {
		busy, err := p.coll.Programs[bpf.DrainProgram].Run(run)
		if err != nil || busy == 0 {
			return err
		}
	}
	return fmt.Errorf("interrupted %d times while it counts a packet: the next reading has them", drainTries)
}

func (p *program) close() error {
	var errs []error
	for _, memory := range p.mapped {
		errs = append(errs, unix.Munmap(memory))
	}
	if p.barrier != nil {
		errs = append(errs, p.barrier.close())
	}
	p.coll.Close()
	p.mapped, p.flows, p.batches, p.marks, p.sids = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// settle waits until no CPU runs the program as it was entered before.
func (p *program) settle() error { return p.barrier.wait() }

// barrier waits for running programs. The kernel promises that after the update of a map of
// maps no program still uses the old value. Its kernel/bpf/syscall.c waits "for any running
// BPF programs to complete". It does so "so that userspace, when we return to it, knows that
// all programs that could be running use the new map value". Programs entered before the
// update have then ended.
type barrier struct{ outer, inner *ebpf.Map }

func newBarrier() (*barrier, error) {
	small := ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	inner, err := ebpf.NewMap(&small)
	if err != nil {
		return nil, fmt.Errorf("creating the inner map of the barrier: %w", err)
	}
	outer, err := ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: &small,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating the barrier: %w", err), inner.Close())
	}
	return &barrier{outer: outer, inner: inner}, nil
}

func (b *barrier) wait() error {
	if err := b.outer.Put(uint32(0), b.inner); err != nil {
		return fmt.Errorf("waiting for running programs: %w", err)
	}
	return nil
}

func (b *barrier) close() error { return errors.Join(b.outer.Close(), b.inner.Close()) }
