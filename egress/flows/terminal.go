package flows

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// refreshEvery is how often the view is drawn: rates over less than that jump.
const refreshEvery = time.Second

// Terminal is a live view of all interfaces: rates by SID and the busiest flows. When its
// file is no terminal it writes a line of totals for each interface each second instead.
type Terminal struct {
	w    io.Writer
	size func() (rows, columns int, ok bool)

	growing map[string]*window // by interface, until they are as long as refreshEvery
	shown   map[string]*window // the last ones that were
}

// window is the traffic of an interface in some time. Each has a time of its own: interfaces
// are read one after the other.
type window struct {
	flows map[Key]Counts
	apart map[netip.Addr]Counts // by SID, packets not counted by flow
	took  time.Duration
	// of the last sample
	ended        time.Time
	used, places int
}

// rate is a number of bits and packets a second.
type rate struct{ bits, packets float64 }

// sidRate is the rate of a SID on all interfaces.
type sidRate struct {
	all, apart rate // apart: packets not counted by flow
	flows      int
}

// NewTerminal returns a view on f, which is usually os.Stdout.
func NewTerminal(f *os.File) *Terminal {
	return newTerminal(f, func() (int, int, bool) {
		size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			return 0, 0, false
		}
		return int(size.Row), int(size.Col), true
	})
}

func newTerminal(w io.Writer, size func() (rows, columns int, ok bool)) *Terminal {
	return &Terminal{w: w, size: size, growing: make(map[string]*window), shown: make(map[string]*window)}
}

// Write implements [Sink].
func (t *Terminal) Write(s *Sample) error {
	now := t.growing[s.Interface]
	if now == nil {
		now = &window{flows: make(map[Key]Counts), apart: make(map[netip.Addr]Counts)}
		t.growing[s.Interface] = now
	}
	now.add(s)
	if now.took < refreshEvery {
		return nil
	}
	delete(t.growing, s.Interface)
	t.shown[s.Interface] = now
	rows, columns, ok := t.size()
	var out bytes.Buffer
	if !ok {
		fmt.Fprintf(&out, "%s %s\n", s.Time.UTC().Format(timeLayout), now.summary(s.Interface))
	} else {
		maps.DeleteFunc(t.shown, func(_ string, w *window) bool { return w.isOver(s.Time) })
		t.draw(&out, max(rows, 2), max(columns, 20))
	}
	if _, err := t.w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("drawing flows: %w", err)
	}
	return nil
}

func (w *window) add(s *Sample) {
	for i := range s.Records {
		if r := &s.Records[i]; r.Kind == Flow {
			w.flows[r.Key] = w.flows[r.Key].Plus(r.Delta)
		} else {
			w.apart[r.Key.SID] = w.apart[r.Key.SID].Plus(r.Delta)
		}
	}
	w.took += s.Elapsed
	w.ended, w.used, w.places = s.Time, s.Flows, s.Capacity
}

// isOver reports whether nothing follows any more: the next window should long be complete.
func (w *window) isOver(now time.Time) bool { return now.Sub(w.ended) > 3*w.took }

func (w *window) rate(c Counts) rate {
	return rate{float64(c.Bytes) * 8 / w.took.Seconds(), float64(c.Packets) / w.took.Seconds()}
}

func (w *window) summary(device string) string {
	var sum Counts
	for _, counts := range w.flows {
		sum = sum.Plus(counts)
	}
	for _, counts := range w.apart {
		sum = sum.Plus(counts)
	}
	all := w.rate(sum)
	return fmt.Sprintf("%s  %s  %s  %d flows active, %d of %d places taken",
		device, all.bitText(), all.packetText(), len(w.flows), w.used, w.places)
}

// rates are those of all interfaces together, which a flow may take several of.
func (t *Terminal) rates() (flows map[Key]rate, sids map[netip.Addr]sidRate) {
	flows, sids = make(map[Key]rate), make(map[netip.Addr]sidRate)
	for _, w := range t.shown {
		for key, counts := range w.flows {
			flows[key] = flows[key].plus(w.rate(counts))
		}
		for addr, counts := range w.apart {
			sid, more := sids[addr], w.rate(counts)
			sid.all, sid.apart = sid.all.plus(more), sid.apart.plus(more)
			sids[addr] = sid
		}
	}
	for key, more := range flows {
		sid := sids[key.SID]
		sid.all = sid.all.plus(more)
		sid.flows++
		sids[key.SID] = sid
	}
	return flows, sids
}

// draw writes a screen: from the top, each line cleared behind its text, then
// all below, so that nothing flickers.
func (t *Terminal) draw(out *bytes.Buffer, rows, columns int) {
	var lines []string
	for _, device := range slices.Sorted(maps.Keys(t.shown)) {
		lines = append(lines, t.shown[device].summary(device))
	}
	flows, sids := t.rates()
	lines = append(append(lines, ""), sidLines(sids)...)
	if room := rows - len(lines) - 3; room > 0 && len(flows) > 0 {
		lines = append(append(lines, ""), flowLines(flows, room)...)
	}
	if len(lines) > rows-1 {
		lines = lines[:rows-1]
	}
	out.WriteString("\x1b[H")
	for _, line := range lines {
		out.WriteString(cut(line, columns))
		out.WriteString("\x1b[K\r\n")
	}
	out.WriteString("\x1b[J")
}

func sidLines(sids map[netip.Addr]sidRate) []string {
	order := slices.SortedFunc(maps.Keys(sids), func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(sids[b].all.bits, sids[a].all.bits), a.Compare(b))
	})
	lines := []string{fmt.Sprintf("%-40s %12s %12s %8s %12s", "SID", "rate", "packets", "flows", "not by flow")}
	for _, addr := range order {
		sid := sids[addr]
		lines = append(lines, fmt.Sprintf("%-40s %12s %12s %8d %12s",
			sidName(addr), sid.all.bitText(), sid.all.packetText(), sid.flows, sid.apart.bitText()))
	}
	return lines
}

// flowLines returns a header and the busiest flows.
func flowLines(flows map[Key]rate, maxLines int) []string {
	keys := slices.SortedFunc(maps.Keys(flows), func(a, b Key) int {
		return cmp.Or(cmp.Compare(flows[b].bits, flows[a].bits), compareKeys(a, b))
	})
	lines := []string{fmt.Sprintf("%12s %12s  %-7s %s", "rate", "packets", "proto", "source > destination via SID")}
	for _, key := range keys[:min(maxLines, len(keys))] {
		lines = append(lines, fmt.Sprintf("%12s %12s  %-7s %s > %s via %s",
			flows[key].bitText(), flows[key].packetText(), appendProto(nil, key.Proto),
			netip.AddrPortFrom(key.Src, key.SrcPort), netip.AddrPortFrom(key.Dst, key.DstPort), sidName(key.SID)))
	}
	return lines
}

// compareKeys makes the order of equally busy flows steady.
func compareKeys(a, b Key) int {
	return cmp.Or(a.Dst.Compare(b.Dst), cmp.Compare(a.DstPort, b.DstPort), a.Src.Compare(b.Src),
		cmp.Compare(a.SrcPort, b.SrcPort), cmp.Compare(a.Proto, b.Proto), a.SID.Compare(b.SID))
}

func (r rate) plus(other rate) rate { return rate{r.bits + other.bits, r.packets + other.packets} }

func (r rate) bitText() string { return scaled(r.bits, "bit/s") }

func (r rate) packetText() string { return scaled(r.packets, "pkt/s") }

// scaled writes a rate with three digits and a decimal prefix.
func scaled(rate float64, unit string) string {
	for _, prefix := range []string{"", "k", "M", "G"} {
		if rate < 999.5 {
			return fmt.Sprintf("%.3g %s%s", rate, prefix, unit)
		}
		rate /= 1000
	}
	return fmt.Sprintf("%.0f T%s", rate, unit)
}

// cut shortens a line to that many characters.
func cut(line string, columns int) string {
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	return string([]rune(line)[:columns])
}
