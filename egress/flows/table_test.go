package flows

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"hikyaku/egress/bpf"
)

// fakeKernel stands for the program on other CPUs.
type fakeKernel struct {
	settling func() error
	drained  error
}

func (k fakeKernel) drain(bool) error { return k.drained }

func (k fakeKernel) settle() error {
	if k.settling == nil {
		return nil
	}
	return k.settling()
}

var start = time.Unix(1_000_000, 0)

// fakeTable has four places; place 1 is a flow that sent one packet.
func fakeTable(idle time.Duration, k kernel) *table {
	t := newTable(make([]bpf.Flow, 4), make([]bpf.Marks, 1), make([]bpf.SID, bpf.SIDSlots), idle, k)
	t.flows[1] = bpf.Flow{Key: [5]uint64{1, 2, 3, 4, 6<<56 | 6<<48}, State: bpf.StateLive, Packets: 1, Bytes: 100}
	return t
}

func mustRead(t *testing.T, table *table, after time.Duration) []Record {
	t.Helper()
	records, err := table.read(start.Add(after), nil)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// awaitSettled returns once the next read finds that CPUs have settled.
func awaitSettled(table *table) {
	for table.settled != nil && len(table.settled) == 0 {
		runtime.Gosched()
	}
}

func deltas(records []Record) []Counts {
	var all []Counts
	for _, r := range records {
		all = append(all, r.Delta)
	}
	return all
}

func TestReadGivesDifferencesAndTotals(t *testing.T) {
	table := fakeTable(time.Minute, fakeKernel{})
	if got := deltas(mustRead(t, table, 0)); !slices.Equal(got, []Counts{{1, 100}}) {
		t.Errorf("first read: got %v", got)
	}
	if got := mustRead(t, table, time.Second); len(got) != 0 {
		t.Errorf("nothing grew: got %v", got)
	}
	table.flows[1].Packets, table.flows[1].Bytes = 4, 350
	got := mustRead(t, table, 2*time.Second)
	if len(got) != 1 || got[0].Delta != (Counts{3, 250}) || got[0].Total != (Counts{4, 350}) {
		t.Errorf("after growth: got %+v", got)
	}
}

// All places are read once a second. In between, only those that marks name are read.
func TestReadLooksAtMarkedGroups(t *testing.T) {
	table := newTable(make([]bpf.Flow, 2*placesOfMarks), make([]bpf.Marks, 2), make([]bpf.SID, bpf.SIDSlots), time.Minute, fakeKernel{})
	mustRead(t, table, 0)
	grow := func(place int) {
		table.flows[place] = bpf.Flow{State: bpf.StateLive, Packets: table.flows[place].Packets + 1}
	}
	steps := []struct {
		name  string
		place int
		mark  func()
		want  int
		used  int
	}{
		{"no mark", 70, func() {}, 0, 0},
		{"another group's mark", 70, func() { table.marks[0][0] = 1 }, 0, 0},
		{"its mark", 70, func() { table.marks[0][0] = 1 << 8 }, 1, 1},
		{"the mark was taken", 70, func() {}, 0, 1},
		{"the last group's mark", 2*placesOfMarks - 1, func() { table.marks[1][7] = 1 << 56 }, 1, 2},
		{"all places", 1, table.lookAtAll, 2, 3},
	}
	for _, s := range steps {
		grow(s.place)
		s.mark()
		if got := mustRead(t, table, 100*time.Millisecond); len(got) != s.want || table.used != s.used {
			t.Errorf("%s: %d records, %d places used; want %d, %d", s.name, len(got), table.used, s.want, s.used)
		}
	}
}

func TestIdleFlowGivesItsPlaceBack(t *testing.T) {
	table := fakeTable(10*time.Second, fakeKernel{})
	states := []struct {
		name  string
		after time.Duration
		state uint32
		used  int
	}{
		{"new", 0, bpf.StateLive, 1},
		{"idle for less than the limit", 9 * time.Second, bpf.StateLive, 1},
		{"idle for longer", 11 * time.Second, bpf.StateRetired, 1},
		{"CPUs have settled", 11*time.Second + DefaultInterval, bpf.StateFree, 1},
		{"gone", 12 * time.Second, bpf.StateFree, 0},
	}
	for _, s := range states {
		awaitSettled(table)
		mustRead(t, table, s.after)
		if got := table.flows[1].State; got != s.state || table.used != s.used {
			t.Errorf("%s: state %d, %d places used; want %d, %d", s.name, got, table.used, s.state, s.used)
		}
	}
	if table.flows[1] != (bpf.Flow{}) {
		t.Errorf("the place given back is not clean: %+v", table.flows[1])
	}
}

// A CPU that found the flow just before it was retired still adds to it.
func TestAgeingKeepsCountsAddedWhileItWaits(t *testing.T) {
	var table *table
	table = fakeTable(10*time.Second, fakeKernel{settling: func() error {
		if table.flows[1].State != bpf.StateRetired {
			t.Error("the place is not retired while CPUs settle")
		}
		table.flows[1].Packets++
		table.flows[1].Bytes += 60
		return nil
	}})
	mustRead(t, table, 0)
	mustRead(t, table, 11*time.Second)
	awaitSettled(table)
	if got := deltas(mustRead(t, table, 12*time.Second)); !slices.Equal(got, []Counts{{1, 60}}) {
		t.Errorf("got %v, want what was added late", got)
	}
}

// A grace period of the kernel may take longer than an interval.
func TestReadDoesNotWaitForCPUs(t *testing.T) {
	settled := make(chan error)
	table := fakeTable(10*time.Second, fakeKernel{settling: func() error { return <-settled }})
	table.flows[2] = bpf.Flow{State: bpf.StateLive, Packets: 1, Bytes: 60}
	mustRead(t, table, 0)
	for after := 11 * time.Second; after < 20*time.Second; after += time.Second {
		table.flows[2].Packets++
		if got := deltas(mustRead(t, table, after)); !slices.Equal(got, []Counts{{1, 0}}) {
			t.Errorf("after %v: got %v, want the flow that still sends", after, got)
		}
		if got := table.flows[1].State; got != bpf.StateRetired {
			t.Errorf("after %v: state %d, want retired", after, got)
		}
	}
	close(settled)
	awaitSettled(table)
	mustRead(t, table, 20*time.Second)
	if got := table.flows[1].State; got != bpf.StateFree {
		t.Errorf("state %d, want free", got)
	}
}

func TestLastReadHasAllThatWasAdded(t *testing.T) {
	settled := make(chan error, 2)
	table := fakeTable(10*time.Second, fakeKernel{settling: func() error { return <-settled }})
	table.flows[2] = bpf.Flow{State: bpf.StateLive, Packets: 1, Bytes: 60}
	mustRead(t, table, 0)
	table.flows[2].Packets++
	mustRead(t, table, 5*time.Second)
	mustRead(t, table, 11*time.Second)
	// Place 1 is leaving; place 2 is retired by the last read.
	table.flows[1].Packets++
	settled <- nil
	settled <- nil
	table.finish()
	if got := deltas(mustRead(t, table, 16*time.Second)); !slices.Equal(got, []Counts{{1, 0}}) {
		t.Errorf("got %v, want what was added late", got)
	}
	for _, place := range []int{1, 2} {
		if got := table.flows[place].State; got != bpf.StateFree {
			t.Errorf("place %d: state %d, want free", place, got)
		}
	}
}

func TestPlaceStaysRetiredUntilCPUsSettle(t *testing.T) {
	settled := errors.New("no settling")
	table := fakeTable(10*time.Second, fakeKernel{settling: func() error { return settled }})
	mustRead(t, table, 0)
	mustRead(t, table, 11*time.Second)
	awaitSettled(table)
	if _, err := table.read(start.Add(12*time.Second), nil); !errors.Is(err, settled) {
		t.Errorf("got error %v, want %v", err, settled)
	}
	if got := table.flows[1].State; got != bpf.StateRetired {
		t.Errorf("state %d, want retired", got)
	}
	settled = nil
	table.flows[1].Packets++
	mustRead(t, table, 12*time.Second+DefaultInterval)
	awaitSettled(table)
	if got := deltas(mustRead(t, table, 13*time.Second)); !slices.Equal(got, []Counts{{1, 0}}) {
		t.Errorf("got %v, want what was added meanwhile", got)
	}
	if got := table.flows[1].State; got != bpf.StateFree {
		t.Errorf("state %d, want free", got)
	}
}

// A CPU takes the place first and counts afterwards.
func TestPlaceTakenButNotYetCountedIsNotRetiredAtOnce(t *testing.T) {
	table := fakeTable(10*time.Second, fakeKernel{})
	table.flows[2].State = bpf.StateLive
	mustRead(t, table, 0)
	mustRead(t, table, 2*time.Second)
	if got := table.flows[2].State; got != bpf.StateLive {
		t.Errorf("state %d, want live", got)
	}
}

func TestFullTableForgetsSooner(t *testing.T) {
	table := fakeTable(16*time.Second, fakeKernel{})
	for i := range table.flows {
		table.flows[i] = bpf.Flow{State: bpf.StateLive, Packets: 1, Bytes: 60}
	}
	mustRead(t, table, 0)
	mustRead(t, table, 3*time.Second)
	if got := table.flows[1].State; got != bpf.StateRetired {
		t.Errorf("idle for 3 s of 16 s in a full table: state %d, want retired", got)
	}
}

func TestReadThatCannotDrainReportsTheRest(t *testing.T) {
	broken := errors.New("no draining")
	table := fakeTable(time.Minute, fakeKernel{drained: broken})
	records, err := table.read(start, nil)
	if !errors.Is(err, broken) || len(records) != 1 {
		t.Errorf("got %v and error %v, want the flow and %v", records, err, broken)
	}
}

func TestSIDRecordsNameTheirTraffic(t *testing.T) {
	table := newTable(nil, nil, make([]bpf.SID, bpf.SIDSlots), time.Minute, fakeKernel{})
	table.sids[7] = bpf.SID{Address: sidA.As16(), State: bpf.StateLive, OverflowPackets: 2, OverflowBytes: 200, OpaquePackets: 3, OpaqueBytes: 300}
	table.sids[bpf.SIDNone].OpaquePackets, table.sids[bpf.SIDNone].OpaqueBytes = 1, 42
	table.sids[bpf.SIDUnknown].OverflowPackets, table.sids[bpf.SIDUnknown].OverflowBytes = 5, 500
	want := []Record{
		{Kind: Opaque, Delta: Counts{1, 42}, Total: Counts{1, 42}},
		{Kind: UnknownSID, Delta: Counts{5, 500}, Total: Counts{5, 500}},
		{Key: Key{SID: sidA}, Kind: Overflow, Delta: Counts{2, 200}, Total: Counts{2, 200}},
		{Key: Key{SID: sidA}, Kind: Opaque, Delta: Counts{3, 300}, Total: Counts{3, 300}},
	}
	if got := mustRead(t, table, 0); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got := mustRead(t, table, time.Second); len(got) != 0 {
		t.Errorf("nothing grew: got %+v", got)
	}
}

func TestProbesOfTheAgentAreNoTraffic(t *testing.T) {
	sid := netip.MustParseAddr("2001:db8:b1:1::")
	server, client := netip.MustParseAddr("2001:db8:5::1"), netip.MustParseAddr("2001:db9::7")
	for _, test := range []struct {
		name string
		key  Key
		want int
	}{
		{"a probe", Key{SID: sid, Src: server, Dst: sid, Proto: 58, DstPort: 128 << 8}, 0},
		{"a ping of a client", Key{SID: sid, Src: server, Dst: client, Proto: 58, DstPort: 128 << 8}, 1},
		{"TCP to the SID", Key{SID: sid, Src: server, Dst: sid, Proto: 6}, 1},
		{"ICMPv6 without SRv6", Key{Src: server, Dst: sid, Proto: 58}, 1},
	} {
		if got := appendGrown(nil, test.key, Flow, Counts{}, Counts{Packets: 1, Bytes: 100}); len(got) != test.want {
			t.Errorf("%s gives %d records, want %d", test.name, len(got), test.want)
		}
	}
}
