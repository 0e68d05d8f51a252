//! Requests in each version of HTTP, and how they fail.

use ::http::Version;
use hikyaku_client::ExitStatus;
use serde_json::{Value, json};

use crate::server::{ALL, Offer, Server};
use crate::{get, get_text, number};

const VERSIONS: [(&str, Version); 3] = [
    ("1.1", Version::HTTP_11),
    ("2", Version::HTTP_2),
    ("3", Version::HTTP_3),
];

#[test]
fn bodies_are_counted_in_each_version() {
    let server = Server::start(ALL);
    for (name, version) in VERSIONS {
        let (records, status) = get(&format!(
            "{} --http {name} {}",
            server.trust(),
            server.url("/bytes/3000000")
        ));
        assert_eq!(status, ExitStatus::Success, "{name}");
        let request = records.one("request");
        assert_eq!(request["http"], name);
        assert_eq!(request["status"], 200);
        assert_eq!(request["body_bytes"], 3_000_000);
        assert_eq!(request["error"], Value::Null);
        assert_eq!(request["tls"], "1.3");
        assert_eq!(request["remote"], server.address.to_string());
        let seen = server.seen();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].version, version);
        let path = &request["path"];
        assert!(
            number(&path["rtt_us"]) > 0 && number(&path["packets_sent"]) > 0,
            "{path}"
        );
    }
}

#[test]
fn phases_add_up_to_the_total() {
    let server = Server::start(ALL);
    for (name, _) in VERSIONS {
        let (records, _) = get(&format!(
            "{} --http {name} {}",
            server.trust(),
            server.url("/delay/60")
        ));
        let request = records.one("request");
        let phases = [
            "blocked", "resolve", "connect", "tls", "send", "wait", "receive",
        ];
        let sum: u64 = phases
            .map(|p| number(&request[format!("{p}_us")]))
            .iter()
            .sum();
        let total = number(&request["total_us"]);
        // Each of the seven is rounded down.
        assert!(
            (total.saturating_sub(7)..=total).contains(&sum),
            "{name}: {request}"
        );
        assert!(number(&request["wait_us"]) >= 50_000, "{name}: {request}");
        assert!(number(&request["connect_us"]) > 0, "{name}: {request}");
        assert_eq!(
            number(&request["tls_us"]) > 0,
            name != "3",
            "{name}: {request}"
        );
        let first_byte = number(&request["first_byte_us"]);
        assert!((60_000..=total).contains(&first_byte), "{name}: {request}");
    }
}

#[test]
fn the_second_request_finds_the_connection() {
    let server = Server::start(ALL);
    for (name, _) in VERSIONS {
        let url = server.url("/bytes/10");
        let (records, _) = get(&format!("{} --http {name} {url} {url}", server.trust()));
        let requests = records.requests();
        assert_eq!(requests[0]["reused"], false, "{name}");
        assert_eq!(requests[1]["reused"], true, "{name}");
        assert_eq!(requests[0]["connection"], requests[1]["connection"]);
        assert_eq!(number(&requests[1]["connect_us"]), 0, "{name}");
        let connection = records.one("connection");
        assert_eq!(connection["requests"], 2, "{name}");
        assert_eq!(
            connection["transport"],
            if name == "3" { "quic" } else { "tcp" }
        );
    }
}

#[test]
fn requests_are_spread_over_the_connections() {
    let server = Server::start(ALL);
    for (name, _) in VERSIONS {
        let url = server.url("/delay/30");
        let urls = [url.as_str(); 6].join(" ");
        let (records, status) = get(&format!(
            "{} --http {name} --connections 3 {urls}",
            server.trust()
        ));
        assert_eq!(status, ExitStatus::Success);
        let connections = records.of("connection");
        let carried: Vec<_> = connections.iter().map(|c| number(&c["requests"])).collect();
        assert_eq!(carried, [2, 2, 2], "{name}");
        let mut locals: Vec<_> = connections
            .iter()
            .map(|c| c["local"].as_str().unwrap())
            .collect();
        locals.sort_unstable();
        locals.dedup();
        assert_eq!(locals.len(), 3, "{name}: sockets are disjoint");
    }
}

#[test]
fn method_fields_and_body_are_sent() {
    let server = Server::start(ALL);
    for (name, _) in VERSIONS {
        let line = format!(
            "{} --http {name} --data hello --header x-test:yes {}",
            server.trust(),
            server.url("/echo")
        );
        let (records, _) = get(&line);
        assert_eq!(records.one("request")["body_bytes"], 5, "{name}");
        let seen = &server.seen()[0];
        assert_eq!(seen.method, "POST");
        assert_eq!(seen.body, "hello");
        assert_eq!(seen.headers["x-test"], "yes");
        assert!(
            seen.headers["user-agent"]
                .to_str()
                .unwrap()
                .starts_with("hikyaku/")
        );
    }
}

#[test]
fn large_uploads_fit_through_the_windows() {
    let server = Server::start(ALL);
    let data = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(data.path(), vec![b'x'; 2_000_000]).unwrap();
    for (name, _) in VERSIONS {
        let line = format!(
            "{} --http {name} --data @{} {}",
            server.trust(),
            data.path().display(),
            server.url("/echo")
        );
        let (records, status) = get(&line);
        assert_eq!(status, ExitStatus::Success, "{name}");
        assert_eq!(records.one("request")["body_bytes"], 2_000_000, "{name}");
    }
}

#[test]
fn the_body_is_written_to_a_file() {
    let server = Server::start(ALL);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("body");
    for (name, _) in VERSIONS {
        let line = format!(
            "{} --http {name} -o {} {}",
            server.trust(),
            path.display(),
            server.url("/bytes/100000")
        );
        assert_eq!(get(&line).1, ExitStatus::Success);
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 100_000], "{name}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn alpn_chooses_under_auto() {
    for (alpn, want) in [
        (&["http/1.1"][..], "1.1"),
        (&["h2", "http/1.1"], "2"),
        (&[], "1.1"),
    ] {
        let server = Server::start(Offer { alpn, ..ALL });
        let (records, _) = get(&format!("{} {}", server.trust(), server.url("/bytes/1")));
        assert_eq!(records.versions(), [want], "{alpn:?}");
    }
}

#[test]
fn cleartext() {
    let server = Server::start(Offer { tls: false, ..ALL });
    let url = server.url("/bytes/5").replace("https", "http");
    let (records, status) = get(&format!("-4 {url}"));
    assert_eq!(status, ExitStatus::Success);
    let request = records.one("request");
    assert_eq!(
        (&request["http"], &request["tls"]),
        (&json!("1.1"), &Value::Null)
    );
}

/// Options after the server's, the URL's path, the error's kind, and a word of the hint.
#[test]
fn failures_say_what_to_do() {
    let server = Server::start(ALL);
    let http1_only = Server::start(Offer {
        alpn: &["http/1.1"],
        ..ALL
    });
    let swallowing = Server::start(Offer {
        http3: Some(false),
        ..ALL
    });
    let refused = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("https://{}/", listener.local_addr().unwrap())
    };
    let trust = server.trust();
    let cases = [
        (
            "unknown name",
            "https://nowhere.invalid/".to_owned(),
            "resolve",
            "--resolve",
        ),
        ("refused", refused, "refused", "nothing listens"),
        (
            "certificate",
            format!("-4 {}", server.url("/")),
            "certificate",
            "--insecure",
        ),
        (
            "certificate over QUIC",
            format!("-4 --http 3 {}", server.url("/")),
            "certificate",
            "--cacert",
        ),
        (
            "no HTTP/2",
            format!("{} --http 2 {}", http1_only.trust(), http1_only.url("/")),
            "alpn",
            "--http auto",
        ),
        (
            "UDP blocked",
            format!(
                "{} --http 3 --connect-timeout 300ms {}",
                swallowing.trust(),
                swallowing.url("/")
            ),
            "timeout",
            "UDP",
        ),
        (
            "no address of the family",
            format!(
                "--insecure -6 --resolve localhost:{}:127.0.0.1 {}",
                server.address.port(),
                server.url("/")
            ),
            "resolve",
            "--resolve",
        ),
        (
            "unknown congestion control",
            format!("{trust} --congestion nonsense {}", server.url("/")),
            "socket",
            "",
        ),
    ];
    for (name, line, kind, hint) in cases {
        let (records, status) = get(&line);
        assert_eq!(status, ExitStatus::Failed, "{name}");
        let error = &records.one("request")["error"];
        assert_eq!(error["kind"], kind, "{name}: {error}");
        assert!(
            error["hint"].as_str().unwrap_or("").contains(hint),
            "{name}: {error}"
        );
        assert_eq!(records.one("summary")["failed"], 1, "{name}");
    }
}

#[test]
fn a_body_that_ends_early_is_no_success() {
    let server = Server::start(ALL);
    let line = format!("{} --http 3 {}", server.trust(), server.url("/half"));
    let (records, status) = get(&line);
    assert_eq!(status, ExitStatus::Failed);
    let error = records.one("request")["error"]["message"].as_str().unwrap();
    // The server's own engine resets the stream; the client's finds streams that end in order (its
    // tests).
    assert!(error.contains("the peer reset the stream"), "{error}");
    // A HEAD request has no body.
    assert_eq!(get(&format!("{line} --method HEAD")).1, ExitStatus::Success);
}

#[test]
fn insecure_accepts_any_certificate() {
    let server = Server::start(ALL);
    for (name, _) in VERSIONS {
        let (_, status) = get(&format!(
            "-4 --insecure --http {name} {}",
            server.url("/bytes/1")
        ));
        assert_eq!(status, ExitStatus::Success, "{name}");
    }
}

#[test]
fn names_may_be_resolved_by_hand() {
    let server = Server::start(ALL);
    let port = server.address.port();
    for (name, _) in VERSIONS {
        let line = format!(
            "--insecure --http {name} --resolve a.test:{port}:127.0.0.1 https://a.test:{port}/bytes/1"
        );
        assert_eq!(get(&line).1, ExitStatus::Success, "{name}");
    }
}

#[test]
fn timeouts_count_and_are_never_dropped() {
    let server = Server::start(ALL);
    for (name, _) in VERSIONS {
        let line = format!(
            "{} --http {name} --timeout 200ms {} {}",
            server.trust(),
            server.url("/never"),
            server.url("/bytes/1")
        );
        let (records, status) = get(&line);
        assert_eq!(status, ExitStatus::Failed);
        let requests = records.requests();
        assert_eq!(requests[0]["timed_out"], true, "{name}");
        assert_eq!(requests[0]["error"]["kind"], "timeout");
        assert!(number(&requests[0]["total_us"]) >= 200_000, "{name}");
        assert_eq!(requests[1]["error"], Value::Null, "{name}: {}", requests[1]);
        let summary = records.of("summary")[0];
        assert_eq!(
            (&summary["timed_out"], &summary["total_us"]["count"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(records.one("run")["timed_out"], 1, "{name}");
    }
}

#[test]
fn statuses_fail_only_when_asked_to() {
    let server = Server::start(ALL);
    let line = format!("{} {}", server.trust(), server.url("/status/503"));
    let (records, status) = get(&line);
    assert_eq!(
        (status, &records.one("request")["status"]),
        (ExitStatus::Success, &json!(503))
    );
    let (records, status) = get(&format!("--fail {line}"));
    assert_eq!(status, ExitStatus::HttpStatus);
    assert_eq!(records.one("request")["error"]["kind"], "status");
}

#[test]
fn repeats_are_cold_unless_warm() {
    let server = Server::start(ALL);
    for (name, _) in VERSIONS {
        let line = format!(
            "{} --http {name} --repeat 8 {}",
            server.trust(),
            server.url("/bytes/10")
        );
        let (records, _) = get(&line);
        assert_eq!(records.of("connection").len(), 8, "{name}");
        let total = &records.one("summary")["total_us"];
        assert_eq!(total["count"], 8);
        let order = ["min", "median", "p95", "max"].map(|key| number(&total[key]));
        assert!(order.is_sorted(), "{name}: {total}");
        assert_eq!(
            total["median_ci95"][0], total["min"],
            "of eight values the interval is all"
        );
        let (records, _) = get(&format!("{line} --warm"));
        assert_eq!(records.one("connection")["requests"], 8, "{name}");
    }
}

#[test]
fn a_connection_that_was_closed_is_opened_again() {
    let server = Server::start(Offer {
        alpn: &["http/1.1"],
        ..ALL
    });
    server.document("/close", "text/plain", "x");
    let line = format!(
        "{} -H connection:close {} {}",
        server.trust(),
        server.url("/close"),
        server.url("/bytes/3")
    );
    let (records, status) = get(&line);
    assert_eq!(status, ExitStatus::Success);
    assert_eq!(records.of("connection").len(), 2);
}

#[test]
fn mptcp_is_used_or_refused_clearly() {
    let protocol = Some(socket2::Protocol::MPTCP);
    let has_mptcp =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, protocol).is_ok();
    for (mptcp, want) in [
        (false, "tcp"),
        (has_mptcp, if has_mptcp { "mptcp" } else { "tcp" }),
    ] {
        let server = Server::start(Offer { mptcp, ..ALL });
        let line = format!("{} --mptcp {}", server.trust(), server.url("/bytes/10"));
        let (records, status) = get(&line);
        if has_mptcp {
            assert_eq!(status, ExitStatus::Success);
            assert_eq!(records.one("connection")["transport"], want);
        } else {
            let error = &records.one("request")["error"];
            assert!(
                error["hint"].as_str().unwrap().contains("Multipath"),
                "{error}"
            );
        }
    }
}

#[test]
fn parallel_requests_share_a_connection() {
    let server = Server::start(ALL);
    let url = server.url("/delay/200");
    let urls = [url.as_str(); 4].join(" ");
    for name in ["2", "3"] {
        let line = format!("{} --http {name} --parallel 4 {urls}", server.trust());
        let (records, _) = get(&line);
        assert_eq!(records.one("connection")["requests"], 4, "{name}");
        let requests = records.requests();
        let ends = requests
            .iter()
            .map(|r| number(&r["start_us"]) + number(&r["total_us"]));
        let starts = requests.iter().map(|r| number(&r["start_us"]));
        assert!(starts.max() < ends.min(), "{name}: all at once");
    }
}

#[test]
fn load_is_counted_exactly() {
    let server = Server::start(ALL);
    for (name, _) in VERSIONS {
        for threads in [1, 2] {
            let line = format!(
                "{} --http {name} --requests 500 --parallel 8 --connections 2 --threads {threads} {}",
                server.trust(),
                server.url("/bytes/100")
            );
            let (records, status) = get(&line);
            assert_eq!(status, ExitStatus::Success, "{name}");
            let load = records.one("load");
            assert_eq!(load["requests"], 500, "{name}");
            assert_eq!(load["failed"], 0, "{name}");
            assert_eq!(load["body_bytes"], 50_000);
            assert_eq!(load["connections"], 2);
            assert_eq!(load["http"][name], 500);
            let latency = &load["latency_us"];
            let order = ["min", "p50", "p90", "p95", "p99", "p99_9", "max"];
            assert!(
                order.map(|key| number(&latency[key])).is_sorted(),
                "{latency}"
            );
            assert!(load["requests_per_sec"].as_f64().unwrap() > 0.0);
            assert_eq!(server.seen().len(), 500, "{name}");
        }
    }
}

#[test]
fn load_reports_its_failures() {
    let server = Server::start(ALL);
    let line = format!(
        "{} --requests 20 --parallel 4 --timeout 100ms {}",
        server.trust(),
        server.url("/never")
    );
    let (records, status) = get(&line);
    let load = records.one("load");
    assert_eq!(status, ExitStatus::Failed);
    assert_eq!(
        (&load["requests"], &load["timed_out"]),
        (&json!(20), &json!(20))
    );
    let refused = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("https://{}/", listener.local_addr().unwrap())
    };
    let (records, status) = get(&format!("--requests 20 {refused}"));
    let load = records.one("load");
    assert_eq!(status, ExitStatus::Failed);
    assert_eq!(
        (&load["failed"], &load["error"]["kind"]),
        (&json!(20), &json!("refused"))
    );
}

#[test]
fn people_get_tables() {
    let server = Server::start(ALL);
    let line = format!("{} {}", server.trust(), server.url("/bytes/1234567"));
    let (text, _) = get_text(&line);
    assert!(
        text.starts_with("https://localhost:") && text.contains("\n/bytes/1234567 "),
        "{text}"
    );
    assert!(text.contains("1.23 MB"), "{text}");
    let (text, _) = get_text(&format!("{line} --repeat 3"));
    assert!(
        text.contains("3 requests (3 over HTTP/2), 0 failed"),
        "{text}"
    );
    assert!(text.contains("median"), "{text}");
    let (text, _) = get_text(&format!("{line} --requests 10"));
    assert!(
        text.contains("requests/s") && text.contains("p99.9"),
        "{text}"
    );
    let (text, _) = get_text(&format!("-4 {}", server.url("/")));
    assert!(
        text.contains("error: fetching") && text.contains("hint: "),
        "{text}"
    );
}
