//! Many clients in one process.

use hikyaku_client::ExitStatus;
use serde_json::{Value, json};

use crate::server::{ALL, Server};
use crate::{Records, get, get_text, number};

/// Runs a crowd of clients, given by name, address and version, for a second. They load `path` and
/// then wait, so that other tests get CPU time, too.
pub(crate) fn crowd(
    server: &Server,
    path: &str,
    clients: &[(&str, &str, &str)],
) -> (Records, ExitStatus) {
    let clients = clients.iter().enumerate().map(|(i, (name, local, http))| {
        json!({ "name": name, "local": local, "http": http, "start_us": i * 50_000 })
    });
    let crowd = json!({ "duration_us": 1_000_000, "clients": clients.collect::<Vec<_>>() });
    let (url, pause) = (server.url(path), server.url("/delay/20"));
    run(server, &crowd, &format!("{url} {pause}"))
}

fn run(server: &Server, crowd: &Value, args: &str) -> (Records, ExitStatus) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), crowd.to_string()).unwrap();
    let (trust, crowd) = (server.trust(), file.path().display());
    get(&format!("{trust} --threads 1 --crowd {crowd} {args}"))
}

#[test]
fn each_client_has_an_address_and_connections_of_its_own() {
    let server = Server::start(ALL);
    let clients = [
        ("a", "127.0.0.2", "2"),
        ("b", "127.0.0.3", "3"),
        ("c", "127.0.0.4", "2"),
    ];
    let (records, status) = crowd(&server, "/bytes/1000", &clients);
    assert_eq!(status, ExitStatus::Success);
    let mut reported: Vec<&Value> = records.of("client");
    assert_eq!(reported.len(), records.0.len(), "nothing else is reported");
    reported.sort_by_key(|client| client["name"].to_string());
    for (client, (name, local, http)) in reported.iter().zip(clients) {
        assert_eq!(client["name"], name);
        assert_eq!(client["local"], local);
        assert_eq!(client["http"], http);
        assert_eq!(client["error"], Value::Null);
        // The middle half of a second. On a busy machine it may have no bytes.
        let (measured, bytes) = (
            number(&client["measured_us"]),
            number(&client["body_bytes"]),
        );
        let requests = number(&client["requests"]);
        assert!(measured >= 500_000 && requests > 0, "{client}");
        assert!(bytes < 1_000 * (requests + 1), "{client}");
        // The time is in whole microseconds.
        let goodput = number(&client["goodput_bps"]) as f64;
        let expected = bytes as f64 * 8e6 / measured as f64;
        assert!(
            (goodput - expected).abs() <= 1.0 + expected * 1e-4,
            "{client}"
        );
    }
    let mut connections: Vec<u64> = server.seen().iter().map(|seen| seen.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len(), clients.len());
}

#[test]
fn visits_are_new_connections_of_a_client_that_keeps_its_alternatives() {
    let server = Server::start(ALL);
    server.set(|state| state.alt_svc_tcp = Some(r#"h3=":PORT"; ma=60"#.to_owned()));
    let url = server.url("/bytes/1000");
    let client = json!({ "name": "a", "local": "127.0.0.2", "http": "auto", "start_us": 0 });
    let crowd = json!({ "duration_us": 2_000_000, "pause_us": 1_000, "clients": [client] });
    let (records, status) = run(&server, &crowd, &format!("--alt-svc race {url}"));
    assert_eq!(status, ExitStatus::Success);
    let clients = records.of("client");
    let [client] = clients[..] else {
        panic!("{clients:?}");
    };
    let visits = client["visits_us"].as_array().unwrap();
    assert!(visits.len() > 2, "{client}");
    assert!(visits.iter().all(|time| number(time) > 0), "{client}");
    assert_eq!(number(&client["requests"]), visits.len() as u64);
    // The first visit is over TCP. The server advertises HTTP/3 to it.
    assert_eq!(client["http"], "3");
    let seen = server.seen();
    let mut connections: Vec<u64> = seen.iter().map(|seen| seen.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len(), seen.len());
}

#[test]
fn a_client_that_fails_does_not_end_the_others() {
    let server = Server::start(ALL);
    // Nobody has this address (RFC 5737).
    let clients = [("a", "127.0.0.2", "2"), ("b", "192.0.2.1", "2")];
    let (records, status) = crowd(&server, "/bytes/1000", &clients);
    assert_eq!(status, ExitStatus::Failed);
    let of = |name| {
        records
            .of("client")
            .into_iter()
            .find(|client| client["name"] == name)
    };
    let (good, bad) = (of("a").unwrap(), of("b").unwrap());
    assert!(number(&good["requests"]) > 0, "{good}");
    assert_eq!(good["error"], Value::Null);
    assert_eq!(bad["goodput_bps"], Value::Null);
    assert_eq!(bad["error"]["kind"], "socket", "{bad}");
}

#[test]
fn a_missing_file_is_reported() {
    let (_, result) = get_text("--json --crowd /nowhere/crowd.json https://localhost/");
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("clients of --crowd from `/nowhere/crowd.json`"),
        "{error}"
    );
}
