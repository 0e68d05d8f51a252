//! TLS sessions from one connection to the next, and hosts that move.

use crate::get;
use crate::server::{ALL, Offer, Server};

/// The repeats of a measurement.
const REPEATS: u64 = 3;

#[test]
fn connections_resume_the_sessions_of_those_before() {
    let tls12 = Offer { tls12: true, ..ALL };
    for (offer, http) in [
        (ALL, "1.1"),
        (ALL, "2"),
        (ALL, "3"),
        (tls12, "1.1"),
        (tls12, "2"),
    ] {
        for (option, want) in [("", 0), ("--resume", REPEATS - 1)] {
            let server = Server::start(offer);
            let line = format!(
                "{} --http {http} --repeat {REPEATS} {option} {}",
                server.trust(),
                server.url("/bytes/10")
            );
            let (records, _) = get(&line);
            let tls = if offer.tls12 { "1.2" } else { "1.3" };
            for request in records.requests() {
                let seen = (&request["status"], &request["tls"]);
                assert_eq!(seen, (&200.into(), &tls.into()), "{line}");
            }
            assert_eq!(server.resumed(), want, "{line}");
        }
    }
}

#[test]
fn a_host_moves_and_its_sessions_stay() {
    for http in ["2", "3"] {
        let [first, second] = Server::pair(ALL);
        let port = first.address.port();
        let line = format!(
            "--insecure --http {http} --resume --repeat {REPEATS} \
             --resolve a.test:{port}:127.0.0.1 --resolve a.test:{port}:127.0.0.2@2 \
             https://a.test:{port}/bytes/10"
        );
        let (records, _) = get(&line);
        let remotes: Vec<_> = records
            .requests()
            .iter()
            .map(|r| r["remote"].clone())
            .collect();
        let [here, there] = [&first, &second].map(|server| server.address.to_string());
        assert_eq!(remotes, [&here[..], &here, &there], "HTTP/{http}");
        assert_eq!(second.seen().len(), 1, "HTTP/{http}");
        assert_eq!(second.resumed(), REPEATS - 1, "HTTP/{http}");
    }
}
