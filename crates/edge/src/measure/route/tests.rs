use std::sync::Arc;

use http::Request;

use super::super::Ticket;
use super::*;

const RTT: Duration = Duration::from_millis(50);

/// A connection's exchanges and reporter, and the reporter's input.
struct Watched {
    ledger: Arc<Ledger>,
    reporter: RouteReporter,
    way: u64,
}

/// Bytes, milliseconds and phase of an observation.
type Seen = Option<(u64, u64, Phase)>;

impl Watched {
    /// After a handshake of `acked` bytes.
    fn new(acked: u64) -> Self {
        let snapshot = Snapshot {
            acked,
            ..Snapshot::default()
        };
        Self {
            ledger: Arc::new(Ledger::watched()),
            reporter: RouteReporter::new(0, &snapshot),
            way: 0,
        }
    }

    fn ask(&self) -> (Ticket, Instant) {
        let request = Request::get("https://a.example/").body(()).unwrap();
        let ticket = self.ledger.open(&request);
        (ticket, self.ledger.busy_since().unwrap())
    }

    fn look(&mut self, at: Instant, acked: u64, idle: bool) -> Seen {
        self.look_awaiting(at, acked, idle, None)
    }

    fn look_awaiting(
        &mut self,
        at: Instant,
        acked: u64,
        idle: bool,
        awaited: Option<Instant>,
    ) -> Seen {
        let snapshot = Snapshot {
            acked,
            srtt: RTT,
            min_rtt: RTT,
            ..Snapshot::default()
        };
        let look = RouteSample {
            now: at,
            acked_at: at,
            snapshot: &snapshot,
            idle,
            awaited,
        };
        let (seen, _) = self.reporter.observe(self.way, &self.ledger, &look)?;
        Some((seen.bytes, seen.duration.as_millis() as u64, seen.phase))
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn parts_of_one_way_are_observed() {
    let (startup, sustained) = (Phase::Startup, Phase::Sustained);
    // name, (at ms, way, acked, idle), (bytes, ms, phase)
    type Case = (&'static str, (u64, u64, u64, bool), Seen);
    let cases: &[Case] = &[
        ("before anything", (0, 0, 0, true), None),
        ("too soon", (400, 0, 3000, false), None),
        (
            "a part",
            (1500, 0, 9000, false),
            Some((9000, 1500, startup)),
        ),
        ("too soon again", (2000, 0, 10_000, false), None),
        ("another way", (2600, 1, 12_000, false), None),
        ("not settled", (2610, 1, 12_500, false), None),
        ("settled", (2700, 1, 13_000, false), None),
        (
            "a part of it",
            (3700, 1, 23_000, false),
            Some((10_000, 1000, sustained)),
        ),
        (
            "the end",
            (3900, 1, 25_000, true),
            Some((2000, 200, sustained)),
        ),
        ("idle", (9000, 1, 25_000, true), None),
    ];
    let mut watched = Watched::new(0);
    let (ticket, start) = watched.ask();
    for (name, (at, way, acked, idle), want) in cases {
        watched.way = *way;
        assert_eq!(
            watched.look(start + ms(*at), *acked, *idle),
            *want,
            "{name}"
        );
    }
    drop(ticket);
}

#[test]
fn a_short_response_is_observed_whole() {
    let mut watched = Watched::new(3000);
    let (ticket, start) = watched.ask();
    drop(ticket);
    let seen = watched.look(start + ms(300), 1_003_000, true);
    assert_eq!(seen, Some((1_000_000, 300, Phase::Startup)));
}

#[test]
fn a_response_moved_in_its_first_flight_is_observed_whole() {
    // name, ms into the response, counted
    let cases = [
        ("at once", 2, true),
        ("within the round trip", 49, true),
        ("when something may have come", 51, false),
    ];
    for (name, at, counted) in cases {
        let mut watched = Watched::new(3000);
        let (ticket, start) = watched.ask();
        watched.way = 1;
        // After the handshake TLS had sent tickets.
        assert_eq!(watched.look(start + ms(at), 3500, false), None, "{name}");
        drop(ticket);
        let whole = Some((1_000_000, 500, Phase::Startup));
        let seen = watched.look(start + ms(500), 1_003_500, true);
        assert_eq!(seen, whole.filter(|_| counted), "{name}");
    }
}

#[test]
fn an_idle_connection_may_take_another_way() {
    let mut watched = Watched::new(3000);
    let (ticket, start) = watched.ask();
    drop(ticket);
    let first = watched.look(start + ms(300), 1_003_000, true);
    assert_eq!(first, Some((1_000_000, 300, Phase::Startup)));
    watched.way = 1;
    assert_eq!(watched.look(start + ms(300), 1_003_000, true), None);
    let (ticket, start) = watched.ask();
    drop(ticket);
    let second = watched.look(start + ms(200), 1_503_000, true);
    assert_eq!(second, Some((500_000, 200, Phase::Startup)));
}

#[test]
fn a_first_second_that_begins_late_says_nothing() {
    let mut watched = Watched::new(0);
    let (_ticket, start) = watched.ask();
    assert_eq!(watched.look(start + ms(100), 10_000, false), None);
    watched.way = 1;
    let looks = [
        (200, 20_000, None),
        (251, 25_000, None),
        (1251, 125_000, None),
        (2251, 225_000, Some((100_000, 1000, Phase::Sustained))),
    ];
    for (at, acked, want) in looks {
        assert_eq!(watched.look(start + ms(at), acked, false), want, "{at} ms");
    }
}

#[test]
fn a_request_that_follows_at_once_begins_anew() {
    // name, whether the former response was acknowledged when the meter looked, ms after the request,
    // whether it is distinguished
    let cases = [
        ("delivered", true, 20, true),
        ("not yet", false, 20, false),
        ("looked late", true, 80, false),
    ];
    for (name, delivered, late, anew) in cases {
        let mut watched = Watched::new(0);
        let (first, start) = watched.ask();
        assert_eq!(watched.look(start, 0, false), None);
        drop(first);
        std::thread::sleep(ms(5));
        let (second, again) = watched.ask();
        let apart = again.duration_since(start).as_millis() as u64;
        let awaited = (!delivered).then_some(start);
        let seen = watched.look_awaiting(again + ms(late), 9000, false, awaited);
        let former = Some((9000, apart, Phase::Startup));
        assert_eq!(seen, former.filter(|_| anew), "{name}");
        drop(second);
        let seen = watched.look(again + ms(300), 12_000, true);
        let bytes = seen.map(|(bytes, _, phase)| (bytes, phase));
        let want = if anew { 3000 } else { 12_000 };
        assert_eq!(bytes, Some((want, Phase::Startup)), "{name}");
    }
}

#[test]
fn waiting_for_content_is_reported() {
    let ledger = Arc::new(Ledger::watched());
    let mut reporter = RouteReporter::new(0, &Snapshot::default());
    let now = Instant::now();
    let mut look = |at: Instant, acked| {
        let snapshot = Snapshot {
            acked,
            ..Snapshot::default()
        };
        let look = RouteSample {
            now: at,
            acked_at: at,
            snapshot: &snapshot,
            idle: true,
            awaited: None,
        };
        let (seen, _) = reporter.observe(0, &ledger, &look)?;
        Some(seen)
    };
    assert_eq!(look(now, 0), None);
    let mut ticket = ledger.open(&Request::get("https://a.example/").body(()).unwrap());
    std::thread::sleep(Duration::from_millis(20));
    ticket.waits(false);
    drop(ticket);
    let seen = look(Instant::now(), 1000).unwrap();
    assert!(seen.app_limited, "{seen:?}");
}
