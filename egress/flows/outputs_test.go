package flows

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sampled has a record of each shape.
func sampled() *Sample {
	return &Sample{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC), Elapsed: 500 * time.Millisecond,
		Interface: "eth0", Flows: 2, Capacity: 256,
		Records: []Record{
			{Key: flow6(sidA, 6, 443, 5000), Delta: Counts{12, 18456}, Total: Counts{240, 369120}},
			{Key: flow4(sidB, 1, 0, 2048), Delta: Counts{1, 98}, Total: Counts{2, 196}},
			{Key: flow6(Key{}.SID, 200, 0, 0), Delta: Counts{3, 300}, Total: Counts{3, 300}},
			{Key: Key{SID: sidA}, Kind: Opaque, Delta: Counts{4, 400}, Total: Counts{5, 500}},
			{Kind: UnknownSID, Delta: Counts{6, 600}, Total: Counts{6, 600}},
		},
	}
}

const wantJSON = `{"time":"2026-01-02T03:04:05.600Z","interface":"eth0","kind":"flow","sid":"2001:db8:a:1::","src":"2001:db8:1::1","dst":"2001:db8:2::2","proto":"tcp","sport":443,"dport":5000,"packets":12,"bytes":18456,"total_packets":240,"total_bytes":369120}
{"time":"2026-01-02T03:04:05.600Z","interface":"eth0","kind":"flow","sid":"2001:db8:b:1::","src":"192.0.2.1","dst":"198.51.100.2","proto":"icmp","sport":0,"dport":2048,"packets":1,"bytes":98,"total_packets":2,"total_bytes":196}
{"time":"2026-01-02T03:04:05.600Z","interface":"eth0","kind":"flow","src":"2001:db8:1::1","dst":"2001:db8:2::2","proto":"200","sport":0,"dport":0,"packets":3,"bytes":300,"total_packets":3,"total_bytes":300}
{"time":"2026-01-02T03:04:05.600Z","interface":"eth0","kind":"opaque","sid":"2001:db8:a:1::","packets":4,"bytes":400,"total_packets":5,"total_bytes":500}
{"time":"2026-01-02T03:04:05.600Z","interface":"eth0","kind":"unknown-sid","packets":6,"bytes":600,"total_packets":6,"total_bytes":600}
`

const wantCSV = `time,interface,kind,sid,src,dst,proto,sport,dport,packets,bytes,total_packets,total_bytes
2026-01-02T03:04:05.600Z,eth0,flow,2001:db8:a:1::,2001:db8:1::1,2001:db8:2::2,tcp,443,5000,12,18456,240,369120
2026-01-02T03:04:05.600Z,eth0,flow,2001:db8:b:1::,192.0.2.1,198.51.100.2,icmp,0,2048,1,98,2,196
2026-01-02T03:04:05.600Z,eth0,flow,,2001:db8:1::1,2001:db8:2::2,200,0,0,3,300,3,300
2026-01-02T03:04:05.600Z,eth0,opaque,2001:db8:a:1::,,,,,,4,400,5,500
2026-01-02T03:04:05.600Z,eth0,unknown-sid,,,,,,,6,600,6,600
`

func TestLinesAreAsDocumented(t *testing.T) {
	var out bytes.Buffer
	for _, c := range []struct {
		name string
		sink Sink
		want string
	}{
		{"JSON", NewJSONLines(&out), wantJSON},
		{"CSV", NewCSV(&out), wantCSV},
	} {
		out.Reset()
		if err := c.sink.Write(sampled()); err != nil {
			t.Fatal(err)
		}
		if err := c.sink.Write(&Sample{}); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, out.String(), c.want)
		}
	}
}

// Interface names may have any character but "/" and white space.
func TestLinesSurviveOddInterfaceNames(t *testing.T) {
	const odd = `e"t,h\0`
	sample := sampled()
	sample.Interface = odd
	var out bytes.Buffer
	if err := NewJSONLines(&out).Write(sample); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(&out)
	for i := range sample.Records {
		var line struct{ Interface string }
		if err := decoder.Decode(&line); err != nil || line.Interface != odd {
			t.Errorf("JSON, line %d: got %q, error %v", i, line.Interface, err)
		}
	}
	out.Reset()
	if err := NewCSV(&out).Write(sample); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != len(sample.Records)+1 || rows[1][1] != odd {
		t.Errorf("CSV: got %q, error %v", rows, err)
	}
}

func TestMetricsSumBySIDAndKind(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := metrics.Write(sampled()); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]float64{
		"hikyaku_flows_bytes_total eth0 flow 2001:db8:a:1::":   36912,
		"hikyaku_flows_bytes_total eth0 flow 2001:db8:b:1::":   196,
		"hikyaku_flows_bytes_total eth0 flow none":             600,
		"hikyaku_flows_bytes_total eth0 opaque 2001:db8:a:1::": 800,
		"hikyaku_flows_bytes_total eth0 unknown-sid none":      1200,

		"hikyaku_flows_packets_total eth0 flow 2001:db8:a:1::":   24,
		"hikyaku_flows_packets_total eth0 flow 2001:db8:b:1::":   2,
		"hikyaku_flows_packets_total eth0 flow none":             6,
		"hikyaku_flows_packets_total eth0 opaque 2001:db8:a:1::": 8,
		"hikyaku_flows_packets_total eth0 unknown-sid none":      12,

		"hikyaku_flows_table_places eth0": 256,
		"hikyaku_flows_table_used eth0":   2,
	}
	if got := gathered(t, registry); !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("registering twice: want an error")
	}
}

// gathered gives the metrics by name and values of labels, which are in order of
// the labels' names.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return values
}

func TestTerminalDrawsOnceASecond(t *testing.T) {
	var out bytes.Buffer
	view := newTerminal(&out, func() (int, int, bool) { return 20, 100, true })
	if err := view.Write(sampled()); err != nil || out.Len() != 0 {
		t.Fatalf("after half a second: drew %q, error %v", out.String(), err)
	}
	if err := view.Write(sampled()); err != nil {
		t.Fatal(err)
	}
	drawn := out.String()
	if !strings.HasPrefix(drawn, "\x1b[H") || !strings.HasSuffix(drawn, "\x1b[J") {
		t.Errorf("the screen is not drawn from its top and cleared below: %q", drawn)
	}
	lines := strings.Split(strings.ReplaceAll(drawn, "\x1b[K", ""), "\r\n")
	want := []string{
		"\x1b[Heth0  318 kbit/s  52 pkt/s  3 flows active, 2 of 256 places taken",
		"",
		"SID                                              rate      packets    flows  not by flow",
		"2001:db8:a:1::                             302 kbit/s     32 pkt/s        1  6.4 kbit/s",
		"none                                      14.4 kbit/s     18 pkt/s        1  9.6 kbit/s",
		"2001:db8:b:1::                            1.57 kbit/s      2 pkt/s        1      0 bit/s",
		"",
		"        rate      packets  proto   source > destination via SID",
		"  295 kbit/s     24 pkt/s  tcp     [2001:db8:1::1]:443 > [2001:db8:2::2]:5000 via 2001:db8:a:1::",
		" 4.8 kbit/s      6 pkt/s  200     [2001:db8:1::1]:0 > [2001:db8:2::2]:0 via none",
		" 1.57 kbit/s      2 pkt/s  icmp    192.0.2.1:0 > 198.51.100.2:2048 via 2001:db8:b:1::",
		"\x1b[J",
	}
	if !slices.Equal(squeeze(lines), squeeze(want)) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// Interfaces are read each by itself, and a flow may take several.
func TestTerminalAddsInterfacesUp(t *testing.T) {
	var out bytes.Buffer
	view := newTerminal(&out, func() (int, int, bool) { return 20, 100, true })
	at := func(seconds float64, device string, took time.Duration, bytes uint64) *Sample {
		s := sampled()
		s.Time = s.Time.Add(time.Duration(seconds * float64(time.Second)))
		s.Interface, s.Elapsed = device, took
		s.Records = []Record{
			{Key: flow6(sidA, 6, 443, 5000), Delta: Counts{1, bytes}},
			{Key: Key{SID: sidA}, Kind: Opaque, Delta: Counts{1, bytes}},
		}
		return s
	}
	write := func(samples ...*Sample) {
		t.Helper()
		for _, s := range samples {
			out.Reset()
			if err := view.Write(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(want ...string) {
		t.Helper()
		lines := squeeze(strings.Split(strings.NewReplacer("\x1b[K", "", "\x1b[H", "").Replace(out.String()), "\r\n"))
		for _, line := range want {
			if !slices.Contains(lines, line) {
				t.Errorf("no line %q in\n%s", line, strings.Join(lines, "\n"))
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	const half = 500 * time.Millisecond
	write(at(0.5, "eth1", half, 1000), at(0.5, "eth0", half, 500), at(1, "eth1", half, 1000), at(1.5, "eth0", 3*half, 1500))
	expect(
		"eth0 16 kbit/s 2 pkt/s 1 flows active, 2 of 256 places taken",
		"eth1 32 kbit/s 4 pkt/s 1 flows active, 2 of 256 places taken",
		"2001:db8:a:1:: 48 kbit/s 6 pkt/s 1 24 kbit/s",
		"24 kbit/s 3 pkt/s tcp [2001:db8:1::1]:443 > [2001:db8:2::2]:5000 via 2001:db8:a:1::",
	)
	// eth1 is no longer read.
	write(at(9, "eth0", 2*half, 500))
	if strings.Contains(out.String(), "eth1") {
		t.Errorf("an interface that is no longer read is shown: %q", out.String())
	}
	expect("2001:db8:a:1:: 8 kbit/s 2 pkt/s 1 4 kbit/s")
}

// squeeze makes column widths irrelevant.
func squeeze(lines []string) []string {
	var all []string
	for _, line := range lines {
		all = append(all, strings.Join(strings.Fields(line), " "))
	}
	return all
}

func TestTerminalFitsItsScreen(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {3, 30}, {6, 40}, {9, 200}} {
		var out bytes.Buffer
		view := newTerminal(&out, func() (int, int, bool) { return size[0], size[1], true })
		sample := sampled()
		sample.Elapsed = time.Second
		if err := view.Write(sample); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\x1b[K\r\n")
		if len(lines)-1 > max(size[0]-1, 1) {
			t.Errorf("%d rows: drew %d lines", size[0], len(lines)-1)
		}
		for _, line := range lines {
			if line = strings.TrimPrefix(line, "\x1b[H"); len(line) > max(size[1], 20) {
				t.Errorf("%d columns: drew %q", size[1], line)
			}
		}
	}
}

func TestTerminalWritesLinesToAFile(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "view")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	view := NewTerminal(file)
	for range 4 {
		if err := view.Write(sampled()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file.Name())
	const line = "2026-01-02T03:04:05.600Z eth0  318 kbit/s  52 pkt/s  3 flows active, 2 of 256 places taken\n"
	if err != nil || string(got) != line+line {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestRatesHaveThreeDigits(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want string
	}{
		{0, "0 bit/s"}, {12.34, "12.3 bit/s"}, {999.4, "999 bit/s"}, {999.6, "1 kbit/s"},
		{25e6, "25 Mbit/s"}, {9.876e9, "9.88 Gbit/s"}, {2e12, "2 Tbit/s"},
	} {
		if got := scaled(c.rate, "bit/s"); got != c.want {
			t.Errorf("%v: got %q, want %q", c.rate, got, c.want)
		}
	}
}

// brokenWriter fails.
type brokenWriter struct{}

var errDiskFull = errors.New("disk full")

func (brokenWriter) Write([]byte) (int, error) { return 0, errDiskFull }

func TestSinksReportErrorsOfTheirWriter(t *testing.T) {
	sample := sampled()
	sample.Elapsed = time.Second
	for _, sink := range []Sink{NewJSONLines(brokenWriter{}), NewCSV(brokenWriter{}),
		newTerminal(brokenWriter{}, func() (int, int, bool) { return 0, 0, false })} {
		if err := sink.Write(sample); !errors.Is(err, errDiskFull) {
			t.Errorf("%T: got error %v, want %v", sink, err, errDiskFull)
		}
	}
}
