//! The messages about a store that can't be used.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use hikyaku_fleet::{Fleet, FleetConfig, Identity};
use hikyaku_testkit::store::{Store, free_port};

use super::{Edge, Table};

/// The fault that an edge reports of a store.
async fn said(url: &str, more: &str) -> String {
    let edge = Edge::start("a", url, more);
    let fault = edge.is_down().await;
    let order = edge.fleet.purge(b"order").await;
    assert_eq!(order.map_err(|error| error.to_string()), Err(fault.clone()));
    fault
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_says_what_to_do() {
    let Some(store) = Store::start("each_fault_says_what_to_do", &["--requirepass", "s3cret"])
    else {
        return;
    };
    let url = store.url();
    let with = |login: &str| url.replace("://", &format!("://{login}@"));
    for url in [url.clone(), with(":wrong"), with("nobody:s3cret")] {
        let fault = said(&url, "").await;
        assert!(fault.contains("refuses the user and password"), "{fault}");
        assert!(
            !fault.contains("wrong") && !fault.contains("s3cret"),
            "{fault}"
        );
    }
    let fault = said(&format!("{}/99", with(":s3cret")), "").await;
    assert!(fault.contains("has no such database"), "{fault}");
    let fault = said(&with(":s3cret"), "cluster = true").await;
    assert!(
        fault.contains("`fleet.cluster = false`") || fault.contains("no node of the cluster"),
        "{fault}"
    );
    let port = store.address().port().to_string();
    let args = ["--replicaof", "127.0.0.1", &port, "--masterauth", "s3cret"];
    let replica = Store::start("each_fault_says_what_to_do", &args).unwrap();
    let fault = said(&replica.url(), "").await;
    assert!(
        fault.contains("is a replica and takes no writes"),
        "{fault}"
    );
    store.run(&[
        "-a", "s3cret", "ACL", "SETUSER", "reader", "on", ">s3cret", "~*", "+@read", "+time",
    ]);
    let fault = said(&with("reader:s3cret"), "").await;
    assert!(fault.contains("let the user's ACL allow it"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_store_is_said() {
    let fault = said(&format!("redis://127.0.0.1:{}", free_port()), "").await;
    assert!(
        fault.contains("nothing listens at redis://127.0.0.1"),
        "{fault}"
    );
    let fault = said("redis://no-such-host.invalid", "").await;
    assert!(fault.contains("see whether the store is up"), "{fault}");
    let fault = said("redis://127.0.0.1", "password_file = \"/nowhere\"").await;
    assert!(
        fault.contains("/nowhere (`fleet.password_file`)"),
        "{fault}"
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            thread::spawn(move || {
                let _ = client.read(&mut [0; 100]);
                let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            });
        }
    });
    let fault = said(&format!("redis://127.0.0.1:{port}"), "").await;
    assert!(fault.contains("does not speak Redis' protocol"), "{fault}");
}

#[tokio::test]
async fn a_configuration_with_faults_does_not_start() {
    let start = |text: &str| {
        let config: FleetConfig = toml::from_str(text).unwrap();
        let identity = Identity {
            version: String::new(),
            config: String::new(),
        };
        let host = std::sync::Arc::new(Table::default());
        Fleet::start(config, identity, host, std::sync::Arc::default()).map(drop)
    };
    let error = start("").unwrap_err().to_string();
    assert_eq!(error, "`fleet.store` names no store");
    let error = start("store = \"redis://a\"\nname = \"\"").unwrap_err();
    assert!(
        error.to_string().starts_with("`fleet.name` is not"),
        "{error}"
    );
}
