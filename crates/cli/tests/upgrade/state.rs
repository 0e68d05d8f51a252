//! Knowledge and keys that the new process has of the former one.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hikyaku_testkit::store::Store;
use hikyaku_testkit::{Site, eventually, get, has, this_test};

use super::support::Upgradable;

#[test]
fn what_was_learnt_is_handed_over() {
    let site = Site::with_big_file(200_000);
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let upgradable = Upgradable::start(&args);
    let server = &upgradable.server;
    for round in 1..=3 {
        let client = format!("127.0.9.{round}");
        let records = get(&["--local", &client, &server.url("/big.bin")]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
        let is_known = |client: &str| {
            let explained = server.admin_json(&format!("/v1/clients/{client}"));
            explained["levels"][0]["key"] == client
        };
        eventually("a measurement", || is_known(&client).then_some(()));
        upgradable.replaced();
        for known in 1..=round {
            let client = format!("127.0.9.{known}");
            assert!(is_known(&client), "round {round}: {client}");
        }
        assert!(!server.log().contains("another hikyaku uses it"));
        assert!(
            !server.log().contains("can't be written"),
            "{}",
            server.log()
        );
    }
}

#[test]
fn counts_of_the_gain_are_handed_over_once() {
    let site = Site::with_big_file(200_000);
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let upgradable = Upgradable::start(&args);
    let server = &upgradable.server;
    for round in 1..=2 {
        get(&[&server.url("/big.bin")]);
        eventually("a count of each response", || {
            let responses = &server.admin_json("/v1/gain")["responses"];
            let sum = responses["hikyaku"].as_u64()? + responses["hold_back"].as_u64()?;
            assert!(sum <= round, "counted twice: {responses}");
            (sum == round).then_some(())
        });
        upgradable.replaced();
    }
}

#[test]
fn membership_of_a_fleet_is_handed_over() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let site = Site::with_big_file(200_000);
    let url = format!("fleet.store={}", store.url());
    let args = [site.path(), "--set", &url, "--set", "fleet.name=a"];
    let upgradable = Upgradable::start(&args);
    let server = &upgradable.server;
    let is_up = || {
        let fleet = &server.admin_json("/v1/status")["fleet"];
        (fleet["up"] == true).then(|| fleet["members"][0]["started_ms"].as_u64())?
    };
    let before = eventually("the store", is_up);
    get(&["--local", "127.0.9.1", &server.url("/big.bin")]);
    upgradable.replaced();
    eventually("the new process's report", || {
        is_up().filter(|&started| started > before)
    });
    // The former process wrote what it had learnt last.
    assert_eq!(
        store.run(&["HEXISTS", "hikyaku:1:path:{127.0.9.0/24}", "a"]),
        "1"
    );
    assert!(!server.log().contains("is named `a`, too"));
}

/// A server without a directory for its state has the same keys, too: sessions are resumed.
#[test]
fn sessions_outlive_an_upgrade_without_a_state() {
    if !has(&this_test(), "openssl") {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    let upgradable = Upgradable::start(&[site.path()]);
    let address = upgradable.server.address().to_string();
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("session");
    let session = session.to_str().unwrap();
    let talk = |option: &str| {
        let output = std::process::Command::new("openssl")
            .args(["s_client", "-connect", &address, "-servername", "localhost"])
            .args(["-tls1_2", option, session])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(talk("-sess_out").contains("New, TLSv1.2"));
    upgradable.replaced();
    let resumed = talk("-sess_in");
    assert!(resumed.contains("Reused, TLSv1.2"), "{resumed}");
}

/// An upstream whose responses may be stored. Returns its URL, and the number of its requests.
fn cacheable() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
            while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            count.fetch_add(1, Ordering::Relaxed);
            let response = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n\
                            Content-Length: 2\r\nConnection: close\r\n\r\nok";
            stream.write_all(response.as_bytes()).unwrap();
        }
    });
    (url, asked)
}

/// Only one process can have the directory of a cache.
#[test]
fn a_cache_on_disk_is_handed_over_and_taken_back() {
    let (upstream, asked) = cacheable();
    let dir = tempfile::tempdir().unwrap();
    let cache = format!("cache.dir={}", dir.path().display());
    let upgradable = Upgradable::start(&[
        "--upstream",
        &upstream,
        "--set",
        "cache.enabled=true",
        "--set",
        &cache,
    ]);
    let ask = |path: &str| {
        let records = get(&[&upgradable.server.url(path)]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
        asked.load(Ordering::Relaxed)
    };
    let files = || upgradable.server.metric("hikyaku_cache_files{site=\"\"}");
    assert_eq!(ask("/a"), 1);
    eventually("the file", || (files() > 0.5).then_some(()));
    upgradable.replaced();
    assert_eq!(ask("/a"), 1, "the new process has it from the disk");

    upgradable.install("exit 7");
    assert!(!upgradable.upgrade().status.success());
    assert_eq!(ask("/b"), 2);
    eventually("both files", || (files() > 1.5).then_some(()));
    upgradable.reinstall();
    upgradable.replaced();
    assert_eq!((ask("/a"), ask("/b")), (2, 2));
}
