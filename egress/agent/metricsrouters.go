package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"hikyaku/egress/api"
	"hikyaku/egress/importpolicy"
)

var (
	routerUp = prometheus.NewDesc("hikyaku_egress_router_up",
		"1 while the router that hands on routes of egress peers is connected.", []string{"router", "kind"}, nil)
	routerEnds = prometheus.NewDesc("hikyaku_egress_router_ends_total",
		"Times that the router's connection has ended.", []string{"router", "kind"}, nil)
	routerPeers = prometheus.NewDesc("hikyaku_egress_router_peers",
		"Peers of the router, by the use that is made of them.", []string{"router", "kind", "state"}, nil)
	routerRoutes = prometheus.NewDesc("hikyaku_egress_router_routes",
		"Routes that the agent has of an egress peer from the router, refused ones among them.",
		[]string{"router", "kind", "peer", "family"}, nil)
	routerRefused = prometheus.NewDesc("hikyaku_egress_router_refused_routes",
		"Routes of the router's peers that are refused now, by why.", []string{"router", "kind", "reason"}, nil)
)

// routerMetrics collects metrics of the routers that hand on routes.
type routerMetrics struct{ engine *engine }

// Describe implements [prometheus.Collector].
func (routerMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{routerUp, routerEnds, routerPeers, routerRoutes, routerRefused} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m routerMetrics) Collect(out chan<- prometheus.Metric) {
	var routers []api.Router
	m.engine.locked(func() { routers = m.engine.role.routers() })
	for _, r := range routers {
		metric := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, kind, value, append([]string{r.Name, string(r.Kind)}, labels...)...)
		}
		gauge := func(d *prometheus.Desc, value int, labels ...string) {
			metric(d, prometheus.GaugeValue, float64(value), labels...)
		}
		metric(routerUp, prometheus.GaugeValue, number(r.Up))
		metric(routerEnds, prometheus.CounterValue, float64(r.Ends))
		states := make(map[api.RouterPeerState]int)
		for _, p := range r.Peers {
			states[p.State]++
			if p.Name != "" {
				gauge(routerRoutes, p.Routes.IPv6, p.Name, "ipv6")
				gauge(routerRoutes, p.Routes.IPv4, p.Name, "ipv4")
			}
		}
		for _, state := range api.RouterPeerStates {
			gauge(routerPeers, states[state], string(state))
		}
		refused := map[string]int{noPeer: 0}
		for _, reason := range importpolicy.Reasons() { // also those that have not occurred
			refused[reason.String()] = 0
		}
		for _, one := range r.Refused {
			refused[one.Reason] = one.Routes
		}
		for reason, n := range refused {
			gauge(routerRefused, n, reason)
		}
	}
}
