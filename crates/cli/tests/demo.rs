//! `hikyaku demo` shows clients on unlike networks, and leaves nothing behind. Needs root.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use hikyaku_testkit::{binary, eventually, plain_http, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A running demo; killed when dropped.
struct Demo {
    child: Child,
    output: BufReader<ChildStdout>,
    admin: SocketAddr,
    said: String,
}

impl Demo {
    /// Starts it, and waits until it has said where its dashboard is.
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .args(["demo", "--admin", "127.0.0.1:0", "--clients", "1"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        let admin = loop {
            let before = said.len();
            assert_ne!(
                output.read_line(&mut said).unwrap(),
                0,
                "it has ended: {said}"
            );
            if let Some(rest) = said[before..].strip_prefix("Dashboard: http://") {
                break rest.split('/').next().unwrap().parse().unwrap();
            }
        };
        Self {
            child,
            output,
            admin,
            said,
        }
    }

    /// The traces of it in the kernel and beside other temporary files.
    fn remains(&self) -> Vec<String> {
        let (namespaces, scratch) = (
            format!("hkyk-{}-", self.child.id()),
            format!("hikyaku-lab-{}-", self.child.id()),
        );
        let names = |directory: &str| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries
                .map(|entry| entry.file_name().into_string().unwrap())
                .collect::<Vec<_>>()
        };
        let temporary = std::env::temp_dir();
        let all = [names("/run/netns"), names(temporary.to_str().unwrap())].concat();
        let is_own = |name: &String| name.starts_with(&namespaces) || name.starts_with(&scratch);
        all.into_iter().filter(is_own).collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It cleans up on this signal.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn clients_of_all_networks_come_and_nothing_is_left() {
    if !rustix::process::geteuid().is_root() {
        return skip(
            "clients_of_all_networks_come_and_nothing_is_left",
            "namespaces need root",
        );
    }
    let mut demo = Demo::start(&[]);
    for network in [
        "fibre",
        "mobile-train",
        "office-no-udp",
        "50 % of the clients are held back",
    ] {
        assert!(demo.said.contains(network), "{network}: {}", demo.said);
    }
    assert!(!demo.remains().is_empty());
    let known = eventually("a client of each network is known", || {
        let (_, listed) = plain_http(demo.admin, "GET", "/v1/clients?sort=rtt", "", "");
        let listed: Vec<Value> = serde_json::from_str(&listed).ok()?;
        (listed.len() == 8 && listed.iter().all(|one| one["min_rtt_us"].is_u64())).then_some(listed)
    });
    let rtt = |of: &str| {
        let one = known
            .iter()
            .find(|one| one["address"].as_str().unwrap().starts_with(of));
        one.unwrap()["min_rtt_us"].as_u64().unwrap()
    };
    assert!(rtt("10.109.7.") > 200_000, "overseas is far: {known:?}");
    assert!(rtt("10.109.1.") < 100_000, "fibre is near: {known:?}");
    let (status, page) = plain_http(demo.admin, "GET", "/", "", "");
    assert_eq!(status, 200);
    assert!(page.contains("<title>hikyaku</title>"));

    kill_process(Pid::from_child(&demo.child), Signal::INT).unwrap();
    assert_eq!(
        demo.child.wait().unwrap().signal(),
        Some(Signal::INT.as_raw())
    );
    assert_eq!(demo.remains(), Vec::<String>::new());
    let mut rest = String::new();
    demo.output.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("loaded the page in"), "{rest}");
}

#[test]
fn it_ends_after_its_time_with_a_report() {
    if !rustix::process::geteuid().is_root() {
        return skip(
            "it_ends_after_its_time_with_a_report",
            "namespaces need root",
        );
    }
    let mut demo = Demo::start(&["--for", "12s", "--holdback", "0"]);
    let mut rest = String::new();
    demo.output.read_to_string(&mut rest).unwrap();
    assert!(demo.child.wait().unwrap().success(), "{rest}");
    assert!(rest.contains(": Gets HTTP/"), "{rest}");
    assert_eq!(demo.remains(), Vec::<String>::new());
}
