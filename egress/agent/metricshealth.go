package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"hikyaku/egress/kernel"
)

var (
	problemCount = prometheus.NewDesc("hikyaku_egress_problems",
		"Problems that the status names, sessions that are down among them.", nil, nil)
	kernelRepairs = prometheus.NewDesc("hikyaku_egress_kernel_repairs_total",
		"Objects of the kernel that others have removed and the agent has put back.", []string{"object"}, nil)
	kernelReads = prometheus.NewDesc("hikyaku_egress_kernel_reads_total",
		"Times that the agent has read the kernel's whole state again to repair it.", nil, nil)
	reloads = prometheus.NewDesc("hikyaku_egress_reloads_total",
		"Configurations read again that were taken.", nil, nil)
	reloadsFailed = prometheus.NewDesc("hikyaku_egress_reloads_failed_total",
		"Configurations read again that were refused.", nil, nil)
	pathRefused = prometheus.NewDesc("hikyaku_egress_path_refused_routes",
		"Routes of a server's path that are refused, by why.", []string{"path", "reason"}, nil)
)

// counts are of events since the start. The engine's mutex guards them.
type counts struct {
	addresses, rules, nexthops, routes uint64 // put back
	reads                              uint64
	reloads, reloadsFailed             uint64
}

// restored counts the state that was put back.
func (c *counts) restored(back kernel.State) {
	c.addresses += uint64(len(back.Addresses))
	c.rules += uint64(len(back.Rules))
	c.nexthops += uint64(len(back.Nexthops))
	c.routes += uint64(len(back.Routes))
}

// health collects metrics of the agent's own work.
type health struct{ engine *engine }

// Describe implements [prometheus.Collector].
func (health) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{problemCount, kernelRepairs, kernelReads, reloads, reloadsFailed, pathRefused} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (h health) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	e := h.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	gauge(problemCount, len(e.problems()))
	counter(kernelRepairs, e.counts.addresses, "address")
	counter(kernelRepairs, e.counts.rules, "rule")
	counter(kernelRepairs, e.counts.nexthops, "nexthop")
	counter(kernelRepairs, e.counts.routes, "route")
	counter(kernelReads, e.counts.reads)
	counter(reloads, e.counts.reloads)
	counter(reloadsFailed, e.counts.reloadsFailed)
	if server, ok := e.role.(interface {
		refusedRoutes(func(path, reason string, routes int))
	}); ok {
		server.refusedRoutes(func(path, reason string, routes int) { gauge(pathRefused, routes, path, reason) })
	}
}

// refusedRoutes reports the routes of each path that are refused. It needs the mutex.
func (s *Server) refusedRoutes(report func(path, reason string, routes int)) {
	for _, name := range s.planner.Names() {
		v, _ := s.planner.View(name)
		report(name, "limit", v.BeyondLimit)
		report(name, "origin", v.Strange)
	}
}
