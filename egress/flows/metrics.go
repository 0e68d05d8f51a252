package flows

import (
	"fmt"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics keeps totals by interface, SID and kind as Prometheus counters, and
// how full the table is. Single flows are not exported: a label for each would
// be a time series for each client port.
//
//	hikyaku_flows_bytes_total{interface,sid,kind}
//	hikyaku_flows_packets_total{interface,sid,kind}
//	hikyaku_flows_table_places{interface}, hikyaku_flows_table_used{interface}
//
// The label sid is "none" for packets without SRv6.
type Metrics struct {
	bytes, packets *prometheus.CounterVec
	places, used   *prometheus.GaugeVec
}

// NewMetrics registers the metrics with reg and returns the sink.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "hikyaku", Subsystem: "flows", Name: name, Help: help},
			[]string{"interface", "sid", "kind"})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "hikyaku", Subsystem: "flows", Name: name, Help: help},
			[]string{"interface"})
	}
	m := &Metrics{
		bytes:   counter("bytes_total", "Bytes sent to a SID, as on the wire."),
		packets: counter("packets_total", "Packets sent to a SID, as on the wire."),
		places:  gauge("table_places", "Places in the flow table."),
		used:    gauge("table_used", "Places of the flow table in use."),
	}
	for _, c := range []prometheus.Collector{m.bytes, m.packets, m.places, m.used} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("registering the flow metrics: %w", err)
		}
	}
	return m, nil
}

// Write implements [Sink].
func (m *Metrics) Write(s *Sample) error {
	type label struct {
		sid  netip.Addr
		kind Kind
	}
	sums := make(map[label]Counts)
	for i := range s.Records {
		r := &s.Records[i]
		l := label{r.Key.SID, r.Kind}
		sums[l] = sums[l].Plus(r.Delta)
	}
	for l, sum := range sums {
		labels := []string{s.Interface, sidName(l.sid), l.kind.String()}
		m.bytes.WithLabelValues(labels...).Add(float64(sum.Bytes))
		m.packets.WithLabelValues(labels...).Add(float64(sum.Packets))
	}
	m.places.WithLabelValues(s.Interface).Set(float64(s.Capacity))
	m.used.WithLabelValues(s.Interface).Set(float64(s.Flows))
	return nil
}

func sidName(sid netip.Addr) string {
	if !sid.IsValid() {
		return "none"
	}
	return sid.String()
}
