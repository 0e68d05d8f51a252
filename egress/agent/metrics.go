package agent

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"hikyaku/egress/api"
	"hikyaku/egress/importpolicy"
	"hikyaku/egress/speaker"
)

// metrics is the Prometheus view of the agent.
func (e *engine) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{e}, health{e}, routerMetrics{e}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

var (
	sessionUp = prometheus.NewDesc("hikyaku_egress_session_up",
		"1 while the BGP session is established.", []string{"session", "kind"}, nil)
	sessionEnds = prometheus.NewDesc("hikyaku_egress_session_ends_total",
		"Times that the BGP session has ended, by why.", []string{"session", "kind", "cause"}, nil)
	sessionFaults = prometheus.NewDesc("hikyaku_egress_session_faults_total",
		"Malformed path attributes that the neighbour has sent, by what becomes of them (RFC 7606).",
		[]string{"session", "kind", "action"}, nil)
	withheldRoutes = prometheus.NewDesc("hikyaku_egress_session_withheld_routes",
		"Routes that are not announced to the reflector, since their path attributes leave no room in a message.",
		[]string{"session"}, nil)
	withheldTotal = prometheus.NewDesc("hikyaku_egress_session_withheld_total",
		"Times that a route has become one that is not announced to the reflector.", []string{"session"}, nil)
	refusedRoutes = prometheus.NewDesc("hikyaku_egress_session_refused_routes",
		"Routes of the egress peer that the import policy refuses now, by why.", []string{"session", "reason"}, nil)
	refusedTotal = prometheus.NewDesc("hikyaku_egress_session_routes_refused_total",
		"Times that the import policy has refused a route of the egress peer, by why.", []string{"session", "reason"}, nil)
	originRoutes = prometheus.NewDesc("hikyaku_egress_session_origin_routes",
		"Routes of the egress peer that are used, by the validation state of their origin (RFC 6811).", []string{"session", "state"}, nil)
	cacheUp = prometheus.NewDesc("hikyaku_egress_rpki_cache_up",
		"1 while there is a connection with the RPKI cache.", []string{"cache"}, nil)
	cacheVRPs = prometheus.NewDesc("hikyaku_egress_rpki_cache_vrps",
		"Validated ROA payloads of the RPKI cache that are in use.", []string{"cache"}, nil)
	pathState = prometheus.NewDesc("hikyaku_egress_path_state",
		"1 for the state that the path is in.", []string{"path", "state"}, nil)
	pathRoutes = prometheus.NewDesc("hikyaku_egress_path_routes",
		"Prefixes that the path reaches.", []string{"path", "family"}, nil)
	pathMTU = prometheus.NewDesc("hikyaku_egress_path_mtu_bytes",
		"MTU of packets that are sent over the path, SRv6's overhead taken off.", []string{"path"}, nil)
	pathAnswers = prometheus.NewDesc("hikyaku_egress_path_answers",
		"1 while the path's SID answers probes, 0 while it does not any more; absent while it has never answered.",
		[]string{"path"}, nil)
	pathRTT = prometheus.NewDesc("hikyaku_egress_path_rtt_seconds",
		"Smoothed round-trip time of probes through the path's SID.", []string{"path"}, nil)
	borderProbesSent = prometheus.NewDesc("hikyaku_egress_border_probes_sent_total",
		"Probes that were sent through SIDs of the border, sizes for the path MTU included.", []string{"border"}, nil)
	borderProbesAnswered = prometheus.NewDesc("hikyaku_egress_border_probes_answered_total",
		"Probes that were answered.", []string{"border"}, nil)
	borderFailures = prometheus.NewDesc("hikyaku_egress_border_failures_total",
		"Times that SIDs of the border have stopped to answer; those together count once.", []string{"border"}, nil)
	portRate = prometheus.NewDesc("hikyaku_egress_port_rate_bits_per_second",
		"Rate at which packets have left by the port in the last second.", []string{"port"}, nil)
	portCapacity = prometheus.NewDesc("hikyaku_egress_port_capacity_bits_per_second",
		"Capacity of the port, as configured.", []string{"port"}, nil)
	portBilled = prometheus.NewDesc("hikyaku_egress_port_billed_bits_per_second",
		"Rate that the month is billed by, as far as it has shown.", []string{"port"}, nil)
	portShare = prometheus.NewDesc("hikyaku_egress_port_share",
		"Share of clients that may use the port (limit capacity), or whose traffic is billed anyway (limit bill).",
		[]string{"port", "limit", "class"}, nil)
	readiness = prometheus.NewDesc("hikyaku_egress_ready",
		"1 when all sessions that are up have sent everything once.", nil, nil)
)

// collector reads the agent's state when it is scraped.
type collector struct{ engine *engine }

// Describe implements [prometheus.Collector].
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		sessionUp, sessionEnds, sessionFaults, withheldRoutes, withheldTotal, refusedRoutes, refusedTotal, originRoutes,
		cacheUp, cacheVRPs, pathState, pathRoutes, pathMTU, pathAnswers, pathRTT,
		borderProbesSent, borderProbesAnswered, borderFailures, readiness,
		portRate, portCapacity, portBilled, portShare,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessionList() {
		gauge(sessionUp, number(s.Up), s.Name, s.Kind)
		for _, cause := range speaker.EndCauses {
			counter(sessionEnds, *endsBy(&s.Ends, cause), s.Name, s.Kind, string(cause))
		}
		counter(sessionFaults, s.Faults.Withdrawn, s.Name, s.Kind, "withdrawn")
		counter(sessionFaults, s.Faults.Discarded, s.Name, s.Kind, "discarded")
		if s.Kind == kindReflector {
			gauge(withheldRoutes, float64(s.Withheld.Routes), s.Name)
			counter(withheldTotal, s.Withheld.Total, s.Name)
		}
		if s.Kind != kindPeer {
			continue
		}
		for _, reason := range importpolicy.Reasons() { // also those that have not occurred
			var r api.Refused
			for _, counted := range s.Refused {
				if counted.Reason == reason.String() {
					r = counted
				}
			}
			gauge(refusedRoutes, float64(r.Routes), s.Name, reason.String())
			counter(refusedTotal, r.Total, s.Name, reason.String())
		}
		gauge(originRoutes, float64(s.Origins.Valid), s.Name, "valid")
		gauge(originRoutes, float64(s.Origins.NotFound), s.Name, "not_found")
		gauge(originRoutes, float64(s.Origins.Invalid), s.Name, "invalid")
	}
	for _, c := range e.role.rpkiCaches() {
		gauge(cacheUp, number(c.Up), c.Name)
		gauge(cacheVRPs, float64(c.VRPs), c.Name)
	}
	for _, p := range e.allPaths() {
		for _, state := range []api.PathState{api.Up, api.Draining, api.Down} {
			gauge(pathState, number(p.State == state), p.Name, string(state))
		}
		gauge(pathRoutes, float64(p.Routes.IPv6), p.Name, "ipv6")
		gauge(pathRoutes, float64(p.Routes.IPv4), p.Name, "ipv4")
		if p.MTU != 0 {
			gauge(pathMTU, float64(p.MTU), p.Name)
		}
		if p.Probe.State == "up" || p.Probe.State == "down" {
			gauge(pathAnswers, number(p.Probe.State == "up"), p.Name)
			gauge(pathRTT, float64(p.Probe.RTT)/1e6, p.Name)
		}
	}
	if server, ok := e.role.(*Server); ok {
		for _, b := range server.prober.perBorder() {
			counter(borderProbesSent, b.sent, b.border.String())
			counter(borderProbesAnswered, b.answered, b.border.String())
			counter(borderFailures, b.failures, b.border.String())
		}
	}
	gauge(readiness, number(e.sessions.ready()))
	if border, ok := e.role.(*Border); ok {
		border.ports.collect(gauge)
	}
}

// collect gives the metrics of ports.
func (p *ports) collect(gauge func(*prometheus.Desc, float64, ...string)) {
	for _, s := range p.list {
		name := s.config.Name
		gauge(portRate, s.plan.Rate(), name)
		gauge(portCapacity, float64(s.config.Capacity), name)
		if billed, depends := s.plan.Billed(); depends {
			gauge(portBilled, billed, name)
		}
		shown := portShown(&s.shown)
		for limit, shares := range map[string]api.PortShares{"capacity": shown.Admitted, "bill": shown.Billed} {
			gauge(portShare, shares.Goodput, name, limit, "goodput")
			gauge(portShare, shares.Stall, name, limit, "stall")
			gauge(portShare, shares.RTT, name, limit, "rtt")
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
