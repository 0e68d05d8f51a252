package flows

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"hikyaku/egress/bpf"
)

// table reads the tables in place and ages the flow table. Its first three slices
// are memory that the program on other CPUs changes at any time.
type table struct {
	flows []bpf.Flow
	marks []bpf.Marks
	sids  []bpf.SID
	idle  time.Duration

	kernel kernel

	seen     []place
	seenSIDs []sidCounts
	retiring []uint32   // places to be given back once CPUs have settled
	leaving  []uint32   // those for which they are settling
	settled  chan error // of leaving; nil while there are none
	last     bool       // nothing is added any more
	groups   []uint8    // places not free when the group was last looked at
	used     int        // their sum
	nextAge  time.Time
}

// kernel has the methods that the table needs of the program besides its memory.
type kernel interface {
	// drain has packets that still wait on some CPU added to their flows. last says that
	// no CPU runs the program any more.
	drain(last bool) error
	// settle returns once no CPU runs the program as it was entered before the
	// call: nobody can still be adding to a place retired before.
	settle() error
}

// place has the values last read from a place of the flow table.
type place struct {
	counts Counts
	grew   int64 // when, in nanoseconds of the Unix epoch; 0 for never
}

type sidCounts struct{ overflow, opaque Counts }

// All places are looked at, and aged, at most this often: that takes a cache miss
// for each. Reads between look at groups that have a mark.
const ageEvery = time.Second

// groupsOfMarks is how many groups have their marks in one entry.
const groupsOfMarks = int(unsafe.Sizeof(bpf.Marks{}))

func newTable(flows []bpf.Flow, marks []bpf.Marks, sids []bpf.SID, idle time.Duration, kernel kernel) *table {
	// The program must not give these two to a SID.
	sids[bpf.SIDNone].State = bpf.StateLive
	sids[bpf.SIDUnknown].State = bpf.StateLive
	return &table{
		flows: flows, marks: marks, sids: sids, idle: idle, kernel: kernel,
		seen: make([]place, len(flows)), seenSIDs: make([]sidCounts, len(sids)),
		groups: make([]uint8, (len(flows)+bpf.GroupPlaces-1)/bpf.GroupPlaces),
	}
}

// read appends the flows that grew to records.
func (t *table) read(now time.Time, records []Record) ([]Record, error) {
	// Waiting growth is read by the next call at the latest; the rest is sound.
	drained := t.kernel.drain(t.last)
	at := now.UnixNano()
	ageing := !now.Before(t.nextAge)
	var limit int64 // nothing has grown before this
	if ageing {
		limit = now.Add(-t.idleLimit()).UnixNano()
	}
	for group := range t.groups {
		if marked := t.takeMark(group); marked || ageing {
			records = t.readGroup(group, at, limit, records)
		}
	}
	if ageing {
		t.nextAge = now.Add(ageEvery)
	}
	records, err := t.free(at, t.readSIDs(records))
	return records, errors.Join(drained, err)
}

// lookAtAll has the next read look at all places.
func (t *table) lookAtAll() { t.nextAge = time.Time{} }

// finish says that nothing is added any more. The next read looks at all places and waits
// for those that are still to be given back. CPUs that order memory weakly need that look:
// a mark may be seen there before the growth.
func (t *table) finish() {
	t.lookAtAll()
	t.last = true
}

// close waits until the kernel is not needed any more.
func (t *table) close() {
	if t.settled != nil {
		<-t.settled
		t.settled = nil
	}
}

// takeMark clears the group's mark and says whether it was set.
func (t *table) takeMark(group int) bool {
	mark := uint64(0xff) << (group % 8 * 8)
	word := &t.marks[group/groupsOfMarks][group%groupsOfMarks/8]
	return atomic.LoadUint64(word)&mark != 0 && atomic.AndUint64(word, ^mark)&mark != 0
}

// readGroup appends flows that grew in a group, and retires those that have not since
// limit.
func (t *table) readGroup(group int, at, limit int64, records []Record) []Record {
	first := group * bpf.GroupPlaces
	used := 0
	for i := first; i < min(first+bpf.GroupPlaces, len(t.flows)); i++ {
		flow := &t.flows[i]
		if atomic.LoadUint32(&flow.State) != bpf.StateLive {
			continue
		}
		used++
		var grew bool
		if records, grew = t.grown(i, at, records); grew {
			continue
		}
		if t.seen[i].grew == 0 {
			// Its first packet is between claiming the place and counting.
			t.seen[i].grew = at
		}
		if t.seen[i].grew < limit && atomic.CompareAndSwapUint32(&flow.State, bpf.StateLive, bpf.StateRetired) {
			t.retiring = append(t.retiring, uint32(i))
		}
	}
	t.used += used - int(t.groups[group])
	t.groups[group] = uint8(used)
	return records
}

// idleLimit is how long a flow may be idle. It is less while the table is nearly full, as
// in a flood of connection attempts, each a flow of one packet.
func (t *table) idleLimit() time.Duration {
	if t.used > len(t.flows)/4*3 {
		return t.idle / 8
	}
	return t.idle
}

// grown appends a record if place i counts more than when last read.
func (t *table) grown(i int, at int64, records []Record) ([]Record, bool) {
	flow, seen := &t.flows[i], &t.seen[i]
	counts := Counts{Packets: atomic.LoadUint64(&flow.Packets), Bytes: atomic.LoadUint64(&flow.Bytes)}
	if counts == seen.counts {
		return records, false
	}
	records = append(records, Record{
		Key:   t.key(flow.Key),
		Delta: Counts{Packets: counts.Packets - seen.counts.Packets, Bytes: counts.Bytes - seen.counts.Bytes},
		Total: counts,
	})
	*seen = place{counts: counts, grew: at}
	return records, true
}

// free gives places back for which CPUs have settled, and has them settle for those that
// were retired since. Only the last read waits for that. The wait lasts as long as an RCU
// grace period: milliseconds on most machines, but seconds on some that are busy.
func (t *table) free(at int64, records []Record) ([]Record, error) {
	records, err := t.giveBack(at, records)
	if err != nil || t.settled != nil || len(t.retiring) == 0 {
		return records, err
	}
	t.retiring, t.leaving = t.leaving[:0], t.retiring
	settled := make(chan error, 1)
	t.settled = settled
	go func() { settled <- t.kernel.settle() }()
	if t.last {
		return t.giveBack(at, records)
	}
	return records, nil
}

// giveBack gives the places that are leaving back to the program if nobody can add to them
// any more, and reports late additions to them.
func (t *table) giveBack(at int64, records []Record) ([]Record, error) {
	if t.settled == nil || (!t.last && len(t.settled) == 0) {
		return records, nil
	}
	err := <-t.settled
	t.settled = nil
	if err != nil {
		// They stay retired, neither lost nor reused, until the next try.
		t.retiring = append(t.retiring, t.leaving...)
		t.leaving = t.leaving[:0]
		return records, err
	}
	for _, i := range t.leaving {
		records, _ = t.grown(int(i), at, records)
		flow := &t.flows[i]
		flow.Key = [5]uint64{}
		atomic.StoreUint64(&flow.Packets, 0)
		atomic.StoreUint64(&flow.Bytes, 0)
		t.seen[i] = place{}
		atomic.StoreUint32(&flow.State, bpf.StateFree)
	}
	t.leaving = t.leaving[:0]
	return records, nil
}

// readSIDs appends the packets that could not be counted by flow.
func (t *table) readSIDs(records []Record) []Record {
	for i := range t.sids {
		sid := &t.sids[i]
		if atomic.LoadUint32(&sid.State) != bpf.StateLive {
			continue
		}
		now := sidCounts{
			overflow: Counts{atomic.LoadUint64(&sid.OverflowPackets), atomic.LoadUint64(&sid.OverflowBytes)},
			opaque:   Counts{atomic.LoadUint64(&sid.OpaquePackets), atomic.LoadUint64(&sid.OpaqueBytes)},
		}
		before := t.seenSIDs[i]
		t.seenSIDs[i] = now
		kinds := [2]Kind{Overflow, Opaque}
		if i == bpf.SIDUnknown {
			kinds = [2]Kind{UnknownSID, UnknownSID}
		}
		key := Key{SID: t.sid(i)}
		records = appendGrown(records, key, kinds[0], before.overflow, now.overflow)
		records = appendGrown(records, key, kinds[1], before.opaque, now.opaque)
	}
	return records
}

func appendGrown(records []Record, key Key, kind Kind, before, now Counts) []Record {
	if now == before || kind == Flow && key.isProbe() {
		return records
	}
	delta := Counts{Packets: now.Packets - before.Packets, Bytes: now.Bytes - before.Bytes}
	return append(records, Record{Key: key, Kind: kind, Delta: delta, Total: now})
}

// sid returns the address of the SID with this index; the zero Addr for those
// with a meaning of their own.
func (t *table) sid(index int) netip.Addr {
	if index == bpf.SIDNone || index == bpf.SIDUnknown || index >= len(t.sids) {
		return netip.Addr{}
	}
	return netip.AddrFrom16(t.sids[index].Address)
}

// key decodes the key of a flow; see flows.h for its words.
func (t *table) key(words [5]uint64) Key {
	var raw [40]byte
	for i, word := range words {
		// The program copies packet bytes into words on a little-endian CPU.
		binary.LittleEndian.PutUint64(raw[8*i:], word)
	}
	key := Key{
		SID:     t.sid(int(binary.LittleEndian.Uint16(raw[36:]))),
		Proto:   raw[38],
		SrcPort: binary.BigEndian.Uint16(raw[32:]),
		DstPort: binary.BigEndian.Uint16(raw[34:]),
	}
	if raw[39] == 4 {
		key.Src, key.Dst = netip.AddrFrom4([4]byte(raw[0:4])), netip.AddrFrom4([4]byte(raw[16:20]))
	} else {
		key.Src, key.Dst = netip.AddrFrom16([16]byte(raw[0:16])), netip.AddrFrom16([16]byte(raw[16:32]))
	}
	return key
}
