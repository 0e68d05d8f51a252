//! The part of a response that counts for the gain.

use super::*;
use crate::gain::USUAL;
use hikyaku_core::choice::Assignment;
use hikyaku_core::gain::Report;

/// An exchange of a connection, which takes 100 ms.
async fn exchange(conn: &Conn, method: &str, status: u16, complete: bool) {
    let request = Request::builder().method(method).uri("https://a.example/");
    let ticket = conn.ledger.open(&request.body(()).unwrap());
    let mut exchanges = Vec::new();
    ticket.complete_with(|exchange| exchanges.push(exchange));
    after(100).await;
    let snapshot = Snapshot {
        min_rtt: Duration::from_millis(30),
        ..Snapshot::default()
    };
    for mut exchange in exchanges {
        exchange.status = http::StatusCode::from_u16(status).ok();
        exchange.complete = complete;
        conn.ended(&exchange, clock::now(), &snapshot);
    }
}

fn report(server: &Server) -> Arc<Report> {
    server.shared.gain.report(USUAL, None, Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn first_responses_have_the_handshakes_time() {
    // version, first response, seconds
    let cases = [
        (Version::H2, true, 0.1 + 0.05 + 0.03),
        (Version::H2, false, 0.1),
        (Version::H3, true, 0.1 + 0.05),
    ];
    for (version, is_first, want) in cases {
        let server = Server::start();
        let mut opening = server.opening(version, true);
        opening.handshake = Duration::from_millis(50);
        let conn = Conn::open(Arc::clone(&server.shared), opening);
        if !is_first {
            // A tunnel has no load time.
            exchange(&conn, "CONNECT", 200, true).await;
        }
        exchange(&conn, "GET", 200, true).await;
        let got = report(&server).load_time_s.p50.hikyaku.unwrap();
        assert!((got - want).abs() < 1e-4, "{version}: {got}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_response_but_tunnels_counts_for_the_draw() {
    for assignment in Assignment::ALL {
        let holdback = f64::from(assignment.index() as u8);
        let policy = PolicyConfig {
            holdback,
            ..policy()
        };
        let server = Server::with(&policy, Limits::default(), Timeouts::default());
        let conn = server.connection(Version::H2);
        for (status, complete) in [(200, true), (404, true), (500, true), (200, false)] {
            exchange(&conn, "GET", status, complete).await;
        }
        exchange(&conn, "GET", 101, true).await;
        let report = report(&server);
        let of = |both: [f64; 2]| both[assignment.index()];
        let responses = report.responses;
        let responses = [responses.hikyaku, responses.hold_back].map(|n| n as f64);
        assert_eq!((of(responses), responses.iter().sum()), (3.0, 3.0));
        let incomplete = [report.incomplete.hikyaku, report.incomplete.hold_back];
        assert!((of(incomplete) - 0.25).abs() < 1e-9, "{incomplete:?}");
    }
}
