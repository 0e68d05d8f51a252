package agent

import (
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"hikyaku/egress/config"
	"hikyaku/egress/endpoint"
	"hikyaku/egress/kernel"
)

// scrape returns the metrics of a server with a path and a reflector.
func scrape(t *testing.T) string {
	t.Helper()
	c := config.DefaultServer()
	c.Reflectors = []config.Reflector{{Session: config.Session{Name: "rr"}}}
	c.Paths = []config.Path{{Name: "transit-a", Border: netip.MustParseAddr("192.0.2.1")}}
	s := &Server{config: &c, subflows: noSubflows{}}
	s.engine = newEngine(&c.Common, config.RoleServer, Options{Log: slog.New(slog.DiscardHandler)}, s)
	s.bgp = unchanging{}
	var err error
	if s.prober, err = newProber(&c, 1500, s.log); err != nil {
		t.Fatal(err)
	}
	s.planner = endpoint.New(&c, endpoint.Options{}, kernel.State{})
	s.counts.restored(kernel.State{Routes: make([]kernel.Route, 3), Rules: make([]kernel.Rule, 2)})
	s.counts.reads, s.counts.reloads, s.counts.reloadsFailed = 4, 5, 6
	answer := httptest.NewRecorder()
	s.metrics().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Body.String()
}

// The linter is that of `promtool check metrics`.
func TestMetricsAreWellFormed(t *testing.T) {
	text := scrape(t)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, want := range []string{
		"hikyaku_egress_problems 1", `hikyaku_egress_kernel_repairs_total{object="route"} 3`,
		`hikyaku_egress_kernel_repairs_total{object="rule"} 2`, `hikyaku_egress_kernel_repairs_total{object="address"} 0`,
		"hikyaku_egress_kernel_reads_total 4", "hikyaku_egress_reloads_total 5", "hikyaku_egress_reloads_failed_total 6",
		`hikyaku_egress_path_refused_routes{path="transit-a",reason="origin"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

var metricName = regexp.MustCompile(`\bhikyaku_egress_[a-z_]+`)

// namesIn returns the names of the agent's metrics that a file has.
func namesIn(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	names := metricName.FindAllString(string(text), -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// metricNames are those of all metrics that an agent can have.
func metricNames() []string {
	descriptions := make(chan *prometheus.Desc, 100)
	collector{}.Describe(descriptions)
	health{}.Describe(descriptions)
	routerMetrics{}.Describe(descriptions)
	close(descriptions)
	var names []string
	for d := range descriptions {
		names = append(names, metricName.FindString(d.String()))
	}
	return names
}

func TestDashboardShowsMetricsThatThereAre(t *testing.T) {
	shown := namesIn(t, "../../conf/grafana-egress.json")
	for _, name := range shown {
		if !slices.Contains(metricNames(), name) {
			t.Errorf("the dashboard has %s, which no agent has", name)
		}
	}
	if len(shown) < 10 {
		t.Errorf("the dashboard shows %q alone", shown)
	}
}

func TestAlertsUseMetricsThatThereAre(t *testing.T) {
	used := namesIn(t, "../../conf/alerts.yml")
	ofServer := []string{"hikyaku_egress_agent_connected", "hikyaku_egress_path_up"}
	agents := slices.DeleteFunc(used, func(name string) bool { return slices.Contains(ofServer, name) })
	for _, name := range agents {
		if !slices.Contains(metricNames(), name) {
			t.Errorf("the alert rules have %s, which no agent has", name)
		}
	}
	if len(agents) < 2 {
		t.Errorf("the alert rules use %q alone", agents)
	}
}

func TestMetricsAreDocumented(t *testing.T) {
	documented := namesIn(t, "../../docs/metrics.md")
	for _, name := range metricNames() {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/metrics.md lacks %s", name)
		}
	}
}
