//! A real Prometheus scrapes a server that has done some work.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use hikyaku_testkit::daemon::Daemon;
use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{Server, eventually, has};
use serde_json::Value;
use tempfile::TempDir;

use super::dashboards::expressions;

/// A server with an upstream and a store, that has answered requests of two versions.
fn busy_server() -> (Server, TempDir) {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let server = Server::start(&["--upstream", &upstream, "--state", state.to_str().unwrap()]);
    for version in ["--http1.1", "--http2"] {
        let output = curl(&[version, &server.url("/head")]);
        assert!(output.status.success(), "{output:?}");
    }
    server.wait_metric("hikyaku_requests_total{version=\"h2\",status=\"2xx\"}", 1.0);
    (server, dir)
}

#[test]
fn the_text_format_passes_promtool() {
    if !has("the_text_format_passes_promtool", "promtool") {
        return;
    }
    let (server, _state) = busy_server();
    let metrics = server.admin("/metrics");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(metrics.as_bytes())
        .unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(
        output.status.success() && said.is_empty(),
        "{said}\n{metrics}"
    );
}

/// A Prometheus that scrapes a server each second.
struct Prometheus {
    _daemon: Daemon,
    _dir: TempDir,
    address: SocketAddr,
}

impl Prometheus {
    fn of(server: &Server) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rules = format!("{}/../../conf/alerts.yml", env!("CARGO_MANIFEST_DIR"));
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [{rules}]\n\
             scrape_configs: [{{ job_name: hikyaku, static_configs: [{{ targets: [{}] }}] }}]\n",
            format_args!("\"{}\"", server.admin)
        );
        let file = dir.path().join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let (daemon, [address]) = Daemon::on_ports(|[port]| {
            let mut command = Command::new("prometheus");
            command.current_dir(dir.path());
            command.arg(format!("--config.file={}", file.display()));
            command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
            command.args(["--storage.tsdb.path=data", "--log.level=warn"]);
            command
        });
        Self {
            _daemon: daemon,
            _dir: dir,
            address,
        }
    }

    /// The answer of its API, where it is a success.
    fn get(&self, path: &str) -> Result<Value, String> {
        let output = curl(&[&format!("http://{}{path}", self.address)]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        match answer["status"].as_str() {
            Some("success") => Ok(answer["data"].clone()),
            _ => Err(format!("{path}: {answer}")),
        }
    }

    /// The result of an expression now.
    fn query(&self, expression: &str) -> Result<Value, String> {
        let encoded = expression.bytes().fold(String::new(), |mut out, byte| {
            let _ = write!(out, "%{byte:02X}");
            out
        });
        let answer = self.get(&format!("/api/v1/query?query={encoded}"))?;
        Ok(answer["result"].clone())
    }

    /// Waits until an expression has a result.
    #[track_caller]
    fn wait(&self, expression: &str) -> Value {
        eventually(expression, || {
            let result = self.query(expression).ok()?;
            (!result.as_array()?.is_empty()).then_some(result)
        })
    }
}

#[test]
fn prometheus_scrapes_open_metrics_and_answers_the_dashboard() {
    let test = "prometheus_scrapes_open_metrics_and_answers_the_dashboard";
    if !has(test, "prometheus") {
        return;
    }
    let (server, _state) = busy_server();
    let prometheus = Prometheus::of(&server);
    prometheus.wait("up{job=\"hikyaku\"} == 1");
    // The name without `_info` and this type are of OpenMetrics alone.
    let metadata = eventually("metadata", || {
        let path = "/api/v1/targets/metadata?metric=hikyaku_build";
        let found = prometheus.get(path).ok()?;
        found.as_array()?.first().cloned()
    });
    assert_eq!(metadata["type"], "info");
    prometheus.wait("hikyaku_requests_total{version=\"h2\", status=\"2xx\"} == 1");
    prometheus.wait("hikyaku_upstream_response_time_seconds_count == 2");
    prometheus.wait("process_resident_memory_bytes > 1e6");
    prometheus.wait("rate(process_cpu_seconds_total[5m]) >= 0");
    let failed: Vec<_> = expressions()
        .iter()
        .filter_map(|expression| prometheus.query(expression).err())
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let rules = eventually("the evaluation of all rules", || {
        let groups = prometheus.get("/api/v1/rules").ok()?;
        let groups = groups["groups"].as_array()?.clone();
        let rules: Vec<_> = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
            .collect();
        let is_over = !rules.is_empty() && rules.iter().all(|rule| rule["health"] != "unknown");
        is_over.then_some(rules)
    });
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}
