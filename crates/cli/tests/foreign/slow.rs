//! slowhttptest: clients that keep connections busy with the fewest bytes.

use crate::{Servers, proxy, run, text};
use hikyaku_testkit::{Server, has, this_test};

/// The number of connections in an attack.
const COUNT: &str = "200";

/// Attacks by `args` for at most 15 s, while another client is served. Returns the report.
#[track_caller]
fn attack(server: &Server, args: &[&str], path: &str) -> String {
    let url = server.url(path);
    // All connections begin within a second; another client's answer takes up to three.
    let always = ["-c", COUNT, "-r", COUNT, "-l", "15", "-p", "3", "-u", &url];
    let report = text(&run("slowhttptest", &[args, &always].concat()).stdout);
    // The report has a line every five seconds.
    let looks = report.matches("service available").count();
    let yes = report.matches("YES").count();
    assert!(looks > 0 && yes == looks, "{report}");
    report
}

fn is_installed() -> bool {
    has(&this_test(), "slowhttptest")
}

#[test]
fn slow_headers() {
    if is_installed() {
        let server = proxy(&["timeouts.header=2s"]);
        let report = attack(&server, &["-H", "-i", "1"], "/head");
        assert!(report.contains("No open connections left"), "{report}");
    }
}

#[test]
fn slow_bodies() {
    if is_installed() {
        let server = proxy(&["timeouts.body=2s"]);
        let report = attack(&server, &["-B", "-i", "4"], "/echo");
        assert!(report.contains("No open connections left"), "{report}");
    }
}

/// slowhttptest notices the end of connections only after it has read their data.
#[test]
fn slow_readers() {
    if !is_installed() || !has(&this_test(), "ss") {
        return;
    }
    let servers = Servers::with(&["timeouts.send=2s", "timeouts.send_max=2s"]);
    // 32 bytes every five seconds.
    let args = ["-X", "-w", "512", "-y", "1024", "-n", "5", "-z", "32"];
    attack(&servers.files, &args, "/big.bin");
    let ended = "hikyaku_connections_refused_total{limit=\"stalled\"}";
    servers.files.wait_metric(ended, COUNT.parse().unwrap());
    // Nor does the kernel keep the data that they did not take.
    let of_server = format!("sport = :{}", servers.files.port());
    let kept = run("ss", &["-Htn", "state", "fin-wait-1", &of_server]);
    assert_eq!(text(&kept.stdout), "");
}
