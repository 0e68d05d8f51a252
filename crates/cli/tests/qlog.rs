//! `hikyaku explain` of open connections, and their traces in qlog.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use hikyaku_testkit::client::{H2, H3, block_on};
use hikyaku_testkit::{Server, Site, binary, eventually, get, hikyaku};

const BIG: usize = 2_000_000;

/// A trace that is being taken.
struct Recording {
    child: Child,
    path: PathBuf,
}

impl Recording {
    /// Starts to record into `file`, and waits until the server records.
    fn start(server: &Server, file: &str, client: &str, options: &[&str]) -> Self {
        let path = server.dir().join(file);
        let child = Command::new(binary())
            .args(["explain", client, "--admin", &server.admin.to_string()])
            .arg(format!("--qlog={}", path.display()))
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        eventually("the trace's header", || {
            fs::read(&path)
                .is_ok_and(|trace| !trace.is_empty())
                .then_some(())
        });
        Self { child, path }
    }

    /// Waits for the end, and returns the output and the records.
    fn end(self) -> (Output, Vec<Value>) {
        let output = self.child.wait_with_output().unwrap();
        (output, records(&fs::read(self.path).unwrap()))
    }
}

/// The records of a JSON text sequence (RFC 7464).
fn records(trace: &[u8]) -> Vec<Value> {
    let text = str::from_utf8(trace).unwrap();
    assert!(text.ends_with('\n'), "cut short");
    let records = text.split_terminator('\n');
    records
        .map(|record| {
            let content = record.strip_prefix('\x1e').expect(record);
            serde_json::from_str(content).unwrap_or_else(|error| panic!("{error}: {content}"))
        })
        .collect()
}

fn named<'a>(records: &'a [Value], name: &str) -> Vec<&'a Value> {
    let all = records.iter();
    all.filter(|record| record["name"] == name).collect()
}

#[test]
fn a_trace_has_packets_recovery_and_congestion_control() {
    let site = Site::with_big_file(BIG);
    let server = Server::start(&[site.path()]);
    let recording = Recording::start(&server, "one.sqlog", "127.0.0.0/24", &["--for", "600s"]);
    let answers = get(&["--http", "3", &server.url("/big.bin")]);
    assert_eq!(answers[0]["status"], 200, "{answers:?}");
    let (output, records) = recording.end();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("recorded 1 connection(s)"), "{said}");
    assert!(said.contains("the connections have ended"), "{said}");

    let header = &records[0];
    assert_eq!(header["qlog_version"], "0.3");
    assert_eq!(header["trace"]["vantage_point"]["type"], "server");
    let started = named(&records, "connectivity:connection_started");
    assert_eq!(started.len(), 1);
    assert_eq!(started[0]["data"]["src_ip"], "127.0.0.1");
    assert_eq!(started[0]["data"]["dst_port"], server.port());
    let group = &started[0]["group_id"];
    assert!(group.as_str().unwrap().len() >= 16, "{group}");
    let events = &records[1..records.len() - 1];
    assert!(events.iter().all(|event| event["group_id"] == *group));
    let times = events.iter().map(|event| event["time"].as_f64().unwrap());
    assert!(times.clone().all(|time| (0.0..600_000.0).contains(&time)));

    let sent = named(&records, "transport:packet_sent");
    let bytes = sent.iter().map(|one| {
        let length = &one["data"]["header"]["length"];
        length.as_u64().unwrap_or_else(|| panic!("{one:#}"))
    });
    assert!(bytes.sum::<u64>() > BIG as u64, "all of it");
    let numbers = named(&records, "transport:packet_received");
    let types = |kind| {
        let of = |one: &&&Value| one["data"]["header"]["packet_type"] == kind;
        numbers.iter().filter(of).count()
    };
    assert!(types("initial") > 0 && types("handshake") > 0 && types("1RTT") > 0);
    let metrics = named(&records, "recovery:metrics_updated");
    assert!(
        metrics
            .iter()
            .any(|one| one["data"]["congestion_window"].is_u64())
    );
    let rtts: Vec<f64> = metrics
        .iter()
        .filter_map(|one| one["data"]["latest_rtt"].as_f64())
        .collect();
    assert!(!rtts.is_empty());
    let control = named(&records, "hikyaku:congestion_control_updated");
    assert_eq!(control[0]["data"]["algorithm"], "floor", "{control:#?}");
    assert_eq!(control[0]["data"]["slow_start"], true, "{control:#?}");
    let phases = named(&records, "recovery:congestion_state_updated");
    assert_eq!(phases[0]["data"]["new"], "slow_start", "{phases:#?}");
    let last = &records[records.len() - 1];
    assert_eq!(last["name"], "hikyaku:trace_ended");
    assert_eq!(last["data"]["dropped"], 0);
}

#[test]
fn only_the_connections_that_were_asked_for_are_traced() {
    let site = Site::with_big_file(BIG);
    let server = Server::start(&[site.path()]);
    let asked = ["--connections", "2", "--for", "600s"];
    let recording = Recording::start(&server, "two.sqlog", "127.0.0.2", &asked);
    let url = server.url("/");
    for local in [
        "127.0.0.1",
        "127.0.0.2",
        "127.0.0.3",
        "127.0.0.2",
        "127.0.0.2",
    ] {
        let answers = get(&["--http", "3", "--local", local, &url]);
        assert_eq!(answers[0]["status"], 200, "{answers:?}");
    }
    let (output, records) = recording.end();
    assert!(output.status.success(), "{output:?}");
    let started = named(&records, "connectivity:connection_started");
    assert_eq!(started.len(), 2, "{started:#?}");
    assert!(
        started
            .iter()
            .all(|one| one["data"]["src_ip"] == "127.0.0.2")
    );
    let groups = [&started[0]["group_id"], &started[1]["group_id"]];
    assert_ne!(groups[0], groups[1]);
    let events = &records[1..records.len() - 1];
    assert!(
        events
            .iter()
            .all(|event| groups.contains(&&event["group_id"]))
    );
}

#[test]
fn an_interrupted_recording_is_whole_up_to_there() {
    let site = Site::with_big_file(BIG);
    let server = Server::start(&[site.path()]);
    let asked = ["--connections", "9", "--for", "600s"];
    let recording = Recording::start(&server, "cut.sqlog", "127.0.0.1", &asked);
    get(&["--http", "3", &server.url("/")]);
    eventually("an event in the file", || {
        let trace = fs::read(&recording.path).unwrap();
        // The record that is being written may be there in part.
        let whole = trace.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        (named(&records(&trace[..whole]), "transport:packet_sent").len() > 3).then_some(())
    });
    kill_process(Pid::from_child(&recording.child), Signal::INT).unwrap();
    let (output, _) = recording.end();
    assert!(!output.status.success());
    // The server goes on, and ends the trace.
    let answers = get(&["--http", "3", &server.url("/big.bin")]);
    assert_eq!(answers[0]["status"], 200, "{answers:?}");
}

#[test]
fn open_connections_show_their_window_and_floor() {
    let site = Site::with_big_file(BIG);
    let server = Server::start(&[site.path(), "--set", "policy.min_cwnd=64xMSS"]);
    let explained = || server.admin_json("/v1/clients/127.0.0.1");
    assert_eq!(explained()["open"].as_array().unwrap().len(), 0);
    block_on(async {
        let h3 = H3::connect(server.address()).await.unwrap();
        h3.get("/big.bin").await.unwrap();
        let mut h2 = H2::connect(server.address()).await.unwrap();
        h2.get("/big.bin").await.unwrap();
        let explained = explained();
        let open = explained["open"].as_array().unwrap();
        assert_eq!(open.len(), 2, "{explained:#}");
        assert_eq!(open[0]["version"], "h3", "{explained:#}");
        assert_eq!(open[0]["algorithm"], "cubic", "{explained:#}");
        assert_eq!(open[0]["floor"]["bytes"], "93440B", "{explained:#}");
        assert_eq!(open[0]["floor"]["doubt_rounds"], 0, "{explained:#}");
        assert_eq!(open[1]["version"], "h2", "{explained:#}");
        assert_eq!(open[1]["floor"], Value::Null, "{explained:#}");
        for connection in open {
            assert!(connection["port"].as_u64().unwrap() > 0);
            assert_ne!(connection["cwnd"], "0B", "{explained:#}");
        }
        let admin = server.admin.to_string();
        let output = hikyaku(&["explain", "127.0.0.1", "--admin", &admin]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("open          HTTP/3 from port"), "{text}");
        h3.close().await;
    });
    eventually("no connection is open", || {
        explained()["open"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    });
}
