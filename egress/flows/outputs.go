package flows

import (
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus"
)

// JSONLines writes one JSON object a record and line.
type JSONLines struct{ w io.Writer }

// NewJSONLines returns a sink that writes to w, once a sample.
func NewJSONLines(w io.Writer) *JSONLines { return &JSONLines{w: w} }

// Write implements [Sink].
func (j *JSONLines) Write(s *Sample) error { panic("not yet written") }

// CSV writes a header and one row a record.
type CSV struct{ w io.Writer }

// NewCSV returns a sink that writes to w, once a sample.
func NewCSV(w io.Writer) *CSV { return &CSV{w: w} }

// Write implements [Sink].
func (c *CSV) Write(s *Sample) error { panic("not yet written") }

// Metrics keeps totals by interface and SID as Prometheus metrics. Single flows
// are not exported: a label for each would be a time series for each client
// port.
type Metrics struct{}

// NewMetrics registers the metrics with reg and returns the sink.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) { panic("not yet written") }

// Write implements [Sink].
func (m *Metrics) Write(s *Sample) error { panic("not yet written") }

// Terminal is a live view: rates by SID and the busiest flows. When its file is
// no terminal it writes a line of totals each second instead.
type Terminal struct{ f *os.File }

// NewTerminal returns a view on f, which is usually os.Stdout.
func NewTerminal(f *os.File) *Terminal { return &Terminal{f: f} }

// Write implements [Sink].
func (t *Terminal) Write(s *Sample) error { panic("not yet written") }
