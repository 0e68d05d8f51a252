//! The meter of a QUIC connection that is a fake, under a stopped clock.

use std::future::{pending, ready};
use std::net::SocketAddr;

use hikyaku_congestion::Algorithm;
use hikyaku_core::policy::{CongestionPolicy, PolicyConfig};
use hikyaku_quic::StoppedError;
use hikyaku_quic::proto::VarInt;
use hikyaku_units::arm::{Congestion, Version};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::*;
use crate::conn::Asked;
use crate::fakes::{self, Server, Watch, policy};
use crate::ledger::Ticket;
use crate::sections::{Limits, Timeouts};
use crate::transport::Flight;

/// A connection that is none: its answers, and the values that were set.
#[derive(Clone, Debug, Default)]
struct Fake(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    settings: Vec<Settings>,
    windows: Vec<u32>,
    uncontrolled: bool,
}

type Stopped = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send>>;

impl QuicTransport for Fake {
    type Stopped = Stopped;

    fn count(&self) -> Counts {
        self.0.lock().counts
    }

    fn acked(&self) -> u64 {
        self.0.lock().counts.snapshot.acked
    }

    fn rtt(&self) -> Duration {
        self.0.lock().counts.snapshot.srtt
    }

    fn remote_address(&self) -> SocketAddr {
        crate::fakes::CLIENT.parse().unwrap()
    }

    fn set_receive_window(&self, bytes: u32) {
        self.0.lock().windows.push(bytes);
    }

    fn is_controlled(&self) -> bool {
        !self.0.lock().uncontrolled
    }

    fn change(&self, settings: Settings) {
        self.0.lock().settings.push(settings);
    }

    fn flight(&self) -> Option<Flight> {
        None
    }

    fn failover(&self) {}
}

struct Line {
    server: Server,
    conn: Arc<Conn>,
    fake: Fake,
    acknowledged: Arc<Acknowledged<Stopped>>,
    meter: Option<QuicMeter<Fake>>,
    watch: Watch,
}

/// Reports the acknowledgement of a stream.
type Acknowledge = oneshot::Sender<Option<VarInt>>;

impl Line {
    fn open() -> Self {
        let server = Server::start();
        let conn = server.connection(Version::H3);
        let (fake, acknowledged) = (Fake::default(), Arc::<Acknowledged<_>>::default());
        fake.0.lock().counts.snapshot = fakes::first_snapshot();
        let meter = QuicMeter::new(
            Arc::clone(&conn),
            fake.clone(),
            Arc::clone(&acknowledged),
            Arc::default(),
            Terms::new(&Limits::default(), &Timeouts::default()),
            Duration::from_secs(30),
        );
        Self {
            watch: server.watch(),
            server,
            conn,
            fake,
            acknowledged,
            meter: Some(meter),
        }
    }

    /// Begins a response.
    fn request(&self) -> Ticket {
        fakes::request(&self.conn)
    }

    /// Hands a response over whose acknowledgement is `stopped`.
    fn hand_over(&self, mut ticket: Ticket, bytes: usize, stopped: Stopped) {
        ticket.sent(bytes);
        ticket.complete_with(|exchange| self.acknowledged.hand_over(exchange, stopped));
    }

    /// Hands a response over that is acknowledged, or stopped with a code, by the sender.
    fn respond(&self, ticket: Ticket, bytes: usize) -> Acknowledge {
        let (acknowledge, stopped) = oneshot::channel();
        let stopped = async move {
            match stopped.await {
                Ok(stopped) => Ok(stopped),
                Err(_) => pending().await,
            }
        };
        self.hand_over(ticket, bytes, Box::pin(stopped));
        acknowledge
    }

    /// Lets the connection's task run for a time.
    async fn run(&mut self, ms: u64) {
        let meter = self.meter.as_mut().unwrap();
        fakes::run(ms, |cx| meter.poll(cx)).await;
    }

    /// Whether responses were complete, and their times in ms.
    fn ended(&mut self) -> Vec<(bool, u64)> {
        self.watch.responses()
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_ends_when_its_stream_is_acknowledged() {
    let mut line = Line::open();
    let first = line.respond(line.request(), 10_000);
    let second = line.respond(line.request(), 10_000);
    line.run(100).await;
    assert!(line.ended().is_empty());
    second.send(None).unwrap();
    line.run(100).await;
    assert_eq!(line.ended(), [(true, 100)], "the second first");
    assert!(line.meter.as_ref().unwrap().has_unacknowledged());
    first.send(Some(VarInt::from_u32(0x10c))).unwrap();
    line.run(100).await;
    assert_eq!(line.ended(), [(false, 200)], "stopped by the client");
    assert!(!line.meter.as_ref().unwrap().has_unacknowledged());
}

#[tokio::test(start_paused = true)]
async fn responses_that_are_given_up_end_at_once() {
    let mut line = Line::open();
    let ticket = line.request();
    line.run(70).await;
    drop(ticket);
    line.run(10).await;
    assert_eq!(line.ended(), [(false, 70)]);
}

#[tokio::test(start_paused = true)]
async fn the_end_distinguishes_the_acknowledged_from_the_others() {
    let mut line = Line::open();
    line.hand_over(line.request(), 10_000, Box::pin(ready(Ok(None))));
    line.hand_over(line.request(), 10_000, Box::pin(pending()));
    line.meter.take().unwrap().close().await;
    assert_eq!(line.ended(), [(true, 0), (false, 0)]);
}

#[tokio::test(start_paused = true)]
async fn the_controller_follows_the_policy_once() {
    for uncontrolled in [false, true] {
        let mut line = Line::open();
        line.fake.0.lock().uncontrolled = uncontrolled;
        let _ticket = line.request();
        line.run(1500).await;
        line.fake.0.lock().settings.clear();
        let bbr = PolicyConfig {
            congestion: CongestionPolicy::Bbr,
            ..policy()
        };
        line.server.set_policy(&bbr);
        line.conn
            .apply(&mut http::HeaderMap::new(), &Asked::default());
        line.run(5000).await;
        let state = line.fake.0.lock();
        let set: Vec<_> = state.settings.iter().map(|one| one.algorithm).collect();
        match uncontrolled {
            true => assert!(set.is_empty(), "there is nothing to change"),
            false => assert_eq!(set, [Algorithm::Bbr]),
        }
        let bbr = line.conn.congestion() == Congestion::Bbr;
        assert_eq!(bbr, !uncontrolled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_asked_for_a_sign_of_life() {
    let mut line = Line::open();
    let _ticket = line.request();
    line.run(7000).await;
    assert!(
        line.fake.0.lock().windows.is_empty(),
        "not before a quarter of the idle time"
    );
    line.run(4000).await;
    let first = line.fake.0.lock().windows.clone();
    assert_eq!(first.len(), 1);
    line.run(8000).await;
    let windows = line.fake.0.lock().windows.clone();
    assert_eq!(
        windows,
        [first[0], first[0] + 1],
        "each is larger by a byte"
    );
    for _ in 0..20 {
        line.fake.0.lock().counts.datagrams += 1;
        line.run(1000).await;
    }
    assert_eq!(
        line.fake.0.lock().windows.len(),
        2,
        "a client that sends is not asked"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_given_up() {
    // name, bytes acknowledged each 10 s, whether it is given up within 5 min
    for (name, taken, over) in [("nothing", 0, true), ("its share", 20_000, false)] {
        let mut line = Line::open();
        let _ticket = line.request();
        for _ in 0..30 {
            line.run(10_000).await;
            let mut state = line.fake.0.lock();
            state.counts.stream_frames += 1;
            state.counts.snapshot.acked += taken;
        }
        assert_eq!(line.meter.as_ref().unwrap().is_stalled(), over, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_and_samples_are_learnt_once() {
    let mut line = Line::open();
    let known = |line: &Line| {
        let clients = &line.server.shared.clients;
        clients.explain(line.conn.client()).to_string()
    };
    // packets of a response, packets so far
    for (sent, packets) in [(500, 505), (30, 535)] {
        let acknowledge = line.respond(line.request(), 500_000);
        line.run(200).await;
        line.fake.0.lock().counts.snapshot.packets_sent += sent;
        acknowledge.send(None).unwrap();
        line.run(100).await;
        let known = known(&line);
        assert!(
            known.contains(&format!("QUIC packets  {packets}\n")),
            "{known}"
        );
        assert!(!known.contains("response      -\n"), "{known}");
    }
}
