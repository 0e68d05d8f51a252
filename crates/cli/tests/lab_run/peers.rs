//! Other servers, and a real browser.

use super::*;

#[test]
fn peers_are_measured_where_they_are_installed() {
    let test = "peers_are_measured_where_they_are_installed";
    let Some(_alone) = alone(test) else {
        return;
    };
    let arms = by_arm(quick("peers"));
    let installed = |program: &str| Command::new(program).arg("-v").output().is_ok();
    for peer in ["nginx", "haproxy", "caddy", "h2o"] {
        if installed(peer) {
            assert!(arms[peer][0].label("http").is_some(), "{peer}");
        } else {
            skip_part(test, &format!("{peer} is not on PATH"));
            assert!(!arms.contains_key(peer), "{peer}");
        }
    }
}

/// nginx takes its sockets' congestion control from the namespace, which the runs of one lane
/// share.
#[test]
fn each_run_of_a_peer_has_its_congestion_control() {
    let test = "each_run_of_a_peer_has_its_congestion_control";
    let Some(_alone) = alone(test) else {
        return;
    };
    if Command::new("nginx").arg("-v").output().is_err() {
        skip(test, "nginx is not on PATH");
        return;
    }
    let offered = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if !offered.unwrap().contains("bbr") {
        skip(test, "this kernel has no BBR");
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("peer.toml");
    let experiment = r#"
title = "nginx with both congestion controls"
question = "Does each run have its own?"
backend = "link"
repeats = 3
timeout = "60s"
link = { rate = "50Mbps", queue = "40ms", one_way_delay = "20ms", loss = "5%" }
axes = { congestion = ["cubic", "bbr"] }
workload = { files = [{ name = "image.png", size = "1MB" }] }
arm = [{ name = "nginx", server = "nginx" }]
figure = [{ kind = "table", title = "Load times" }]
"#;
    fs::write(&file, experiment).unwrap();
    let records = out.path().join("records");
    let [file, out] = [&file, &records].map(|path| path.to_str().unwrap());
    done(&["run", file, "--lanes", "1", "--out", out]);
    let runs = hikyaku_lab::experiment::counted(read(&records.join("runs.jsonl")).unwrap());
    let times = |congestion: &str| -> Vec<f64> {
        let of = |run: &&Run| run.cell.to_string().contains(congestion);
        let runs = runs.iter().filter(of);
        runs.map(|run| run.metric("load_ms").unwrap()).collect()
    };
    let (cubic, bbr) = (times("cubic"), times("bbr"));
    assert_eq!((cubic.len(), bbr.len()), (3, 3));
    // CUBIC takes ten times as long here.
    let slowest = bbr.iter().copied().fold(0.0, f64::max);
    assert!(
        cubic.iter().all(|time| *time > 2.0 * slowest),
        "{cubic:?}, {bbr:?}"
    );
}

#[test]
fn a_browser_loads_the_page() {
    let test = "a_browser_loads_the_page";
    let Some(_alone) = alone(test) else {
        return;
    };
    if Command::new("chromium").arg("--version").output().is_err() {
        skip(test, "chromium is not on PATH");
        return;
    }
    let arms = by_arm(quick("browser"));
    assert!(arms["h2"].iter().all(|run| run.label("http") == Some("2")));
    // It learnt of HTTP/3 in the session before.
    let later = arms["h3"].last().unwrap();
    assert_eq!(
        (later.label("http_first"), later.label("http")),
        (Some("3"), Some("3"))
    );
}
