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

// Terminal is a live view: rates by SID and the busiest flows. When its file is
// no terminal it writes a line of totals each second instead.
type Terminal struct {
	w    io.Writer
	size func() (rows, columns int, ok bool)

	flows map[Key]Counts
	sids  map[netip.Addr]*sidRate
	since time.Duration
}

// sidRate is what a SID grew by since the view was last drawn.
type sidRate struct {
	all, apart Counts // apart: what is not counted by flow
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
	t := &Terminal{w: w, size: size}
	t.reset()
	return t
}

func (t *Terminal) reset() {
	t.flows, t.sids, t.since = make(map[Key]Counts), make(map[netip.Addr]*sidRate), 0
}

// Write implements [Sink].
func (t *Terminal) Write(s *Sample) error {
	for i := range s.Records {
		t.add(&s.Records[i])
	}
	t.since += s.Elapsed
	if t.since < refreshEvery {
		return nil
	}
	defer t.reset()
	rows, columns, ok := t.size()
	var out bytes.Buffer
	if !ok {
		fmt.Fprintf(&out, "%s %s\n", s.Time.UTC().Format(timeLayout), t.summary(s))
	} else {
		t.draw(&out, s, max(rows, 2), max(columns, 20))
	}
	if _, err := t.w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("drawing flows: %w", err)
	}
	return nil
}

func (t *Terminal) add(r *Record) {
	sid := t.sids[r.Key.SID]
	if sid == nil {
		sid = new(sidRate)
		t.sids[r.Key.SID] = sid
	}
	sid.all = sid.all.Plus(r.Delta)
	if r.Kind != Flow {
		sid.apart = sid.apart.Plus(r.Delta)
		return
	}
	before, known := t.flows[r.Key]
	if !known {
		sid.flows++
	}
	t.flows[r.Key] = before.Plus(r.Delta)
}

func (t *Terminal) summary(s *Sample) string {
	var sum Counts
	for _, sid := range t.sids {
		sum = sum.Plus(sid.all)
	}
	return fmt.Sprintf("%s  %s  %s  %d flows active, %d of %d places taken",
		s.Interface, t.bitRate(sum), t.packetRate(sum), len(t.flows), s.Flows, s.Capacity)
}

// draw writes a screen: from the top, each line cleared behind its text, then
// all below, so that nothing flickers.
func (t *Terminal) draw(out *bytes.Buffer, s *Sample, rows, columns int) {
	lines := []string{t.summary(s), ""}
	lines = append(lines, t.sidLines()...)
	if room := rows - len(lines) - 3; room > 0 && len(t.flows) > 0 {
		lines = append(append(lines, ""), t.flowLines(room)...)
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

func (t *Terminal) sidLines() []string {
	sids := slices.SortedFunc(maps.Keys(t.sids), func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(t.sids[b].all.Bytes, t.sids[a].all.Bytes), a.Compare(b))
	})
	lines := []string{fmt.Sprintf("%-40s %12s %12s %8s %12s", "SID", "rate", "packets", "flows", "not by flow")}
	for _, addr := range sids {
		sid := t.sids[addr]
		lines = append(lines, fmt.Sprintf("%-40s %12s %12s %8d %12s",
			sidName(addr), t.bitRate(sid.all), t.packetRate(sid.all), sid.flows, t.bitRate(sid.apart)))
	}
	return lines
}

// flowLines returns a header and the busiest flows.
func (t *Terminal) flowLines(most int) []string {
	keys := slices.SortedFunc(maps.Keys(t.flows), func(a, b Key) int {
		return cmp.Or(cmp.Compare(t.flows[b].Bytes, t.flows[a].Bytes), compareKeys(a, b))
	})
	lines := []string{fmt.Sprintf("%12s %12s  %-7s %s", "rate", "packets", "proto", "source > destination via SID")}
	for _, key := range keys[:min(most, len(keys))] {
		counts := t.flows[key]
		lines = append(lines, fmt.Sprintf("%12s %12s  %-7s %s > %s via %s",
			t.bitRate(counts), t.packetRate(counts), appendProto(nil, key.Proto),
			netip.AddrPortFrom(key.Src, key.SrcPort), netip.AddrPortFrom(key.Dst, key.DstPort), sidName(key.SID)))
	}
	return lines
}

// compareKeys makes the order of equally busy flows steady.
func compareKeys(a, b Key) int {
	return cmp.Or(a.Dst.Compare(b.Dst), cmp.Compare(a.DstPort, b.DstPort), a.Src.Compare(b.Src),
		cmp.Compare(a.SrcPort, b.SrcPort), cmp.Compare(a.Proto, b.Proto), a.SID.Compare(b.SID))
}

func (t *Terminal) bitRate(c Counts) string {
	return scaled(float64(c.Bytes)*8/t.since.Seconds(), "bit/s")
}

func (t *Terminal) packetRate(c Counts) string {
	return scaled(float64(c.Packets)/t.since.Seconds(), "pkt/s")
}

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
