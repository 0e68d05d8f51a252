package bpf

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

func parsed(t *testing.T) *ebpf.CollectionSpec {
	t.Helper()
	spec, err := Spec()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// The Go structs must be those of the C header: both sides map the same memory.
func TestLayoutIsThatOfTheObject(t *testing.T) {
	spec := parsed(t)
	var flow Flow
	var sid SID
	var marks Marks
	var batch Batch
	cases := []struct {
		table string
		size  uintptr
		want  map[string]uintptr
	}{
		{FlowTable, unsafe.Sizeof(flow), map[string]uintptr{
			"key":     unsafe.Offsetof(flow.Key),
			"state":   unsafe.Offsetof(flow.State),
			"packets": unsafe.Offsetof(flow.Packets),
			"bytes":   unsafe.Offsetof(flow.Bytes),
		}},
		{BatchTable, unsafe.Sizeof(batch), map[string]uintptr{
			"busy":    unsafe.Offsetof(batch.Busy),
			"waiting": unsafe.Offsetof(batch.Waiting),
		}},
		{MarkTable, unsafe.Sizeof(marks), map[string]uintptr{"group": 0}},
		{SIDTable, unsafe.Sizeof(sid), map[string]uintptr{
			"address":          unsafe.Offsetof(sid.Address),
			"state":            unsafe.Offsetof(sid.State),
			"overflow_packets": unsafe.Offsetof(sid.OverflowPackets),
			"overflow_bytes":   unsafe.Offsetof(sid.OverflowBytes),
			"opaque_packets":   unsafe.Offsetof(sid.OpaquePackets),
			"opaque_bytes":     unsafe.Offsetof(sid.OpaqueBytes),
		}},
	}
	for _, c := range cases {
		compareLayout(t, spec, c.table, c.size, c.want)
	}
}

func compareLayout(t *testing.T, spec *ebpf.CollectionSpec, name string, size uintptr, want map[string]uintptr) {
	t.Helper()
	table := spec.Maps[name]
	if table == nil {
		t.Fatalf("%s: not in the object", name)
	}
	entry, ok := btf.UnderlyingType(table.Value).(*btf.Struct)
	if !ok || uintptr(entry.Size) != size || uintptr(table.ValueSize) != size {
		t.Fatalf("%s: entry is %v of %d bytes, Go has %d", name, table.Value, table.ValueSize, size)
	}
	found := 0
	for _, member := range entry.Members {
		offset, named := want[member.Name]
		if !named {
			continue
		}
		found++
		if got := uintptr(member.Offset.Bytes()); got != offset {
			t.Errorf("%s.%s: at %d in C, at %d in Go", name, member.Name, got, offset)
		}
	}
	if found != len(want) {
		t.Errorf("%s: %d of %d fields found in C", name, found, len(want))
	}
}

func TestConstantsAreThoseOfTheObject(t *testing.T) {
	spec := parsed(t)
	if got := spec.Maps[SIDTable].MaxEntries; got != SIDSlots {
		t.Errorf("SID table has %d entries, Go says %d", got, SIDSlots)
	}
	for name, size := range map[string]uint32{VarHashKeys: 8 * HashKeys, VarFlowMask: 4, VarLinkHeader: 4, VarCountPlain: 1} {
		if v := spec.Variables[name]; v == nil || v.Size() != size {
			t.Errorf("variable %s: want one of %d bytes, got %v", name, size, v)
		}
	}
}

// The verifier accepts a million instructions; staying far below it leaves room
// for kernels whose verifier prunes less.
func TestVerifierAcceptsWithRoomToSpare(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: loading an eBPF program needs root")
	}
	coll, err := ebpf.NewCollection(parsed(t))
	var refused *ebpf.VerifierError
	if errors.As(err, &refused) {
		t.Fatalf("%+v", refused)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer coll.Close()
	info, err := coll.Programs[Program].Info()
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := info.VerifiedInstructions(); ok && n > 250_000 {
		t.Errorf("verifier walked %d instructions, want at most 250,000", n)
	}
}

func TestObjectIsBuiltFromItsSource(t *testing.T) {
	if _, err := exec.LookPath("clang-14"); err != nil {
		t.Skip("SKIPPED: clang-14 is not installed")
	}
	if out, err := exec.Command("./build.sh", "check").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
