package flows

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// JSONLines writes one JSON object a record and line:
//
//	{"time":"2026-01-02T03:04:05.600Z","interface":"eth0","kind":"flow",
//	 "sid":"2001:db8:a:1::","src":"2001:db8:1::1","dst":"2001:db8:2::2",
//	 "proto":"tcp","sport":443,"dport":50000,"packets":12,"bytes":18456,
//	 "total_packets":240,"total_bytes":369120}
//
// "sid" is missing for packets without SRv6; addresses, protocol and ports are
// missing where the kind is not "flow".
type JSONLines struct {
	w    io.Writer
	line []byte
}

// NewJSONLines returns a sink that writes to w, once a sample.
func NewJSONLines(w io.Writer) *JSONLines { return &JSONLines{w: w} }

// Write implements [Sink].
func (j *JSONLines) Write(s *Sample) error {
	name, err := json.Marshal(s.Interface)
	if err != nil {
		return fmt.Errorf("encoding the interface's name: %w", err)
	}
	b := j.line[:0]
	for i := range s.Records {
		r := &s.Records[i]
		b = append(b, `{"time":"`...)
		b = s.Time.UTC().AppendFormat(b, timeLayout)
		b = append(append(b, `","interface":`...), name...)
		b = append(append(b, `,"kind":"`...), r.Kind.String()...)
		b = append(b, '"')
		b = appendJSONKey(b, r)
		b = strconv.AppendUint(append(b, `,"packets":`...), r.Delta.Packets, 10)
		b = strconv.AppendUint(append(b, `,"bytes":`...), r.Delta.Bytes, 10)
		b = strconv.AppendUint(append(b, `,"total_packets":`...), r.Total.Packets, 10)
		b = strconv.AppendUint(append(b, `,"total_bytes":`...), r.Total.Bytes, 10)
		b = append(b, "}\n"...)
	}
	j.line = b
	return writeAll(j.w, b)
}

func appendJSONKey(b []byte, r *Record) []byte {
	if r.Key.SID.IsValid() {
		b = append(r.Key.SID.AppendTo(append(b, `,"sid":"`...)), '"')
	}
	if r.Kind != Flow {
		return b
	}
	b = append(r.Key.Src.AppendTo(append(b, `,"src":"`...)), '"')
	b = append(r.Key.Dst.AppendTo(append(b, `,"dst":"`...)), '"')
	b = append(appendProto(append(b, `,"proto":"`...), r.Key.Proto), '"')
	b = strconv.AppendUint(append(b, `,"sport":`...), uint64(r.Key.SrcPort), 10)
	return strconv.AppendUint(append(b, `,"dport":`...), uint64(r.Key.DstPort), 10)
}

// CSVHeader names the columns. Fields that do not apply are empty.
const CSVHeader = "time,interface,kind,sid,src,dst,proto,sport,dport,packets,bytes,total_packets,total_bytes\n"

// CSV writes one row a record (RFC 4180), with the fields of [JSONLines].
type CSV struct {
	w      io.Writer
	rows   []byte
	header bool // comes with the next sample
}

// NewCSV returns a sink that writes to w, once a sample, and [CSVHeader] before the first.
func NewCSV(w io.Writer) *CSV { return &CSV{w: w, header: true} }

// NewCSVRows returns a sink for a w that has its header from somebody else.
func NewCSVRows(w io.Writer) *CSV { return &CSV{w: w} }

// Write implements [Sink].
func (c *CSV) Write(s *Sample) error {
	b := c.rows[:0]
	if c.header {
		b = append(b, CSVHeader...)
		c.header = false
	}
	name := quoteCSV(s.Interface)
	for i := range s.Records {
		r := &s.Records[i]
		b = append(s.Time.UTC().AppendFormat(b, timeLayout), ',')
		b = append(append(b, name...), ',')
		b = append(append(b, r.Kind.String()...), ',')
		b = append(appendAddr(b, r.Key.SID), ',')
		b = append(appendAddr(b, r.Key.Src), ',')
		b = append(appendAddr(b, r.Key.Dst), ',')
		if r.Kind == Flow {
			b = append(appendProto(b, r.Key.Proto), ',')
			b = append(strconv.AppendUint(b, uint64(r.Key.SrcPort), 10), ',')
			b = append(strconv.AppendUint(b, uint64(r.Key.DstPort), 10), ',')
		} else {
			b = append(b, ",,,"...)
		}
		b = append(strconv.AppendUint(b, r.Delta.Packets, 10), ',')
		b = append(strconv.AppendUint(b, r.Delta.Bytes, 10), ',')
		b = append(strconv.AppendUint(b, r.Total.Packets, 10), ',')
		b = append(strconv.AppendUint(b, r.Total.Bytes, 10), '\n')
	}
	c.rows = b
	return writeAll(c.w, b)
}

// quoteCSV quotes a field where it must be.
func quoteCSV(field string) string {
	if !strings.ContainsAny(field, "\",\r\n") {
		return field
	}
	return `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
}

// appendAddr appends nothing for the zero Addr.
func appendAddr(b []byte, addr netip.Addr) []byte {
	if !addr.IsValid() {
		return b
	}
	return addr.AppendTo(b)
}

// appendProto appends the protocol's name, or its number if it is none of those
// whose ports are known.
func appendProto(b []byte, proto uint8) []byte {
	switch proto {
	case 1:
		return append(b, "icmp"...)
	case 6:
		return append(b, "tcp"...)
	case 17:
		return append(b, "udp"...)
	case 33:
		return append(b, "dccp"...)
	case 58:
		return append(b, "icmpv6"...)
	case 132:
		return append(b, "sctp"...)
	case 136:
		return append(b, "udplite"...)
	}
	return strconv.AppendUint(b, uint64(proto), 10)
}

func writeAll(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("writing %d bytes of flow records: %w", len(b), err)
	}
	return nil
}
