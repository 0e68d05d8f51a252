//! The meter of a TCP connection whose kernel is a fake, under a stopped clock.

use std::io;

use hikyaku_core::policy::{CongestionPolicy, PolicyConfig};
use hikyaku_units::Rate;
use hikyaku_units::arm::{Congestion, Version};
use parking_lot::Mutex;

use super::super::SubflowFlight;
use super::*;
use crate::conn::Asked;
use crate::fakes::{self, Server, Watch, policy};
use crate::ledger::Ticket;
use crate::sections::{Limits, Timeouts};
use crate::tcp_cc::Control;

/// A fake kernel's answers, and the requests to it.
#[derive(Debug, Default)]
struct Kernel {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    snapshot: Snapshot,
    broken: bool,
    written: u64,
    blocked: bool,
    control: Option<Control>,
    rate: Option<Rate>,
    looks: usize,
}

impl TcpTransport for Kernel {
    fn look(&self) -> io::Result<Snapshot> {
        let mut state = self.state.lock();
        state.looks += 1;
        match state.broken {
            true => Err(io::ErrorKind::NotConnected.into()),
            false => Ok(state.snapshot),
        }
    }

    fn written(&self) -> (u64, bool) {
        let state = self.state.lock();
        (state.written, state.blocked)
    }

    fn has_one_path(&self) -> bool {
        true
    }

    fn flight(&self) -> Option<Flight> {
        None
    }

    fn subflows(&self) -> Vec<SubflowFlight> {
        Vec::new()
    }

    fn set_congestion(&self, control: Control) -> Option<Congestion> {
        let former = self.state.lock().control.replace(control);
        (former != Some(control)).then(|| control.congestion())
    }

    fn set_pacing(&self, rate: Option<Rate>) {
        self.state.lock().rate = rate;
    }

    fn failover(&self) -> bool {
        false
    }
}

impl Packets for Kernel {
    fn set_mark(&self, _: u32) {}
}

struct Line {
    server: Server,
    conn: Arc<Conn>,
    kernel: Arc<Kernel>,
    meter: Option<TcpMeter<Kernel>>,
    watch: Watch,
}

impl Line {
    fn open() -> Self {
        let server = Server::start();
        let conn = server.connection(Version::H2);
        let kernel = Arc::<Kernel>::default();
        kernel.state.lock().snapshot = fakes::first_snapshot();
        let terms = Terms::new(&Limits::default(), &Timeouts::default());
        let meter = TcpMeter::new(Arc::clone(&conn), Arc::clone(&kernel), terms);
        Self {
            watch: server.watch(),
            server,
            conn,
            kernel,
            meter: Some(meter),
        }
    }

    /// Begins a response.
    fn request(&self) -> Ticket {
        fakes::request(&self.conn)
    }

    /// Writes a response of `bytes` whole.
    fn respond(&self, mut ticket: Ticket, bytes: usize) {
        ticket.sent(bytes);
        self.conn.ledger.note_content(bytes);
        let mut state = self.kernel.state.lock();
        state.written += bytes as u64;
        state.snapshot.packets_sent += bytes as u64 / 1000;
        drop(state);
        ticket.complete();
    }

    fn acknowledge(&self, bytes: u64) {
        self.kernel.state.lock().snapshot.acked += bytes;
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

    fn meter(&self) -> &TcpMeter<Kernel> {
        self.meter.as_ref().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_ends_when_its_last_byte_is_acknowledged() {
    let mut line = Line::open();
    let ticket = line.request();
    line.run(100).await;
    line.respond(ticket, 30_000);
    line.run(200).await;
    assert!(line.ended().is_empty(), "nothing is acknowledged");
    line.acknowledge(25_000);
    line.run(100).await;
    assert!(line.ended().is_empty(), "but for some packets");
    line.acknowledge(5000);
    line.run(50).await;
    let ended = line.ended();
    assert!(matches!(ended[..], [(true, 400..=410)]), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn responses_that_are_given_up_end_at_once() {
    let mut line = Line::open();
    let ticket = line.request();
    line.kernel.state.lock().written = 10_000;
    line.run(100).await;
    drop(ticket);
    line.run(10).await;
    assert_eq!(
        line.ended(),
        [(false, 100)],
        "though nothing is acknowledged"
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_above_a_full_socket_are_waited_for() {
    let mut line = Line::open();
    line.kernel.state.lock().blocked = true;
    line.respond(line.request(), 30_000);
    line.acknowledge(30_000);
    line.run(1000).await;
    assert!(line.ended().is_empty(), "some may be above the socket");
    line.kernel.state.lock().blocked = false;
    crate::egress::WakeMeter::wake_meter(&*line.conn.ledger);
    line.run(100).await;
    assert_eq!(line.ended().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn outcomes_and_samples_are_learnt_once() {
    let mut line = Line::open();
    let known = |line: &Line| {
        let clients = &line.server.shared.clients;
        clients.explain(line.conn.client()).to_string()
    };
    // bytes, packets so far
    for (bytes, packets) in [(500_000, 505), (30_000, 535)] {
        let ticket = line.request();
        line.run(100).await;
        line.respond(ticket, bytes);
        line.acknowledge(bytes as u64);
        line.run(100).await;
        let known = known(&line);
        assert!(
            known.contains(&format!("TCP packets   {packets}\n")),
            "{known}"
        );
        assert!(!known.contains("response      -\n"), "{known}");
    }
    assert!(line.meter().interval().is_none(), "nothing is under way");
    let looks = line.kernel.state.lock().looks;
    line.run(10_000).await;
    let idle = line.kernel.state.lock().looks;
    assert_eq!(idle, looks, "an idle connection costs nothing");
}

#[tokio::test(start_paused = true)]
async fn the_socket_follows_the_policy_while_responses_are_under_way() {
    let mut line = Line::open();
    let _ticket = line.request();
    line.run(1500).await;
    let began = line.kernel.state.lock().control;
    let bbr = PolicyConfig {
        congestion: CongestionPolicy::Bbr,
        max_pacing_rate: "5Mbps".parse().unwrap(),
        ..policy()
    };
    line.server.set_policy(&bbr);
    line.conn
        .apply(&mut http::HeaderMap::new(), &Asked::default());
    line.run(1500).await;
    let state = line.kernel.state.lock();
    assert_ne!(state.control, began);
    assert_eq!(state.control.unwrap().congestion(), Congestion::Bbr);
    assert_eq!(state.rate, Some(Rate::from_mbps(5)));
    assert_eq!(line.conn.congestion(), Congestion::Bbr);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_given_up() {
    // name, bytes taken each 10 s, whether it is given up within 5 min
    for (name, taken, over) in [("nothing", 0, true), ("its share", 20_000, false)] {
        let mut line = Line::open();
        let mut ticket = line.request();
        line.conn.ledger.note_content(10 << 20);
        line.kernel.state.lock().written = 10 << 20;
        ticket.sent(10 << 20);
        for _ in 0..30 {
            line.run(10_000).await;
            line.acknowledge(taken);
        }
        assert_eq!(line.meter().is_stalled(), over, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_waits_for_the_last_response_but_not_for_the_goodbye() {
    // name, bytes that are acknowledged, whether the response was complete
    for (name, acked, complete) in [("all but a goodbye", 29_900, true), ("half", 15_000, false)] {
        let mut line = Line::open();
        line.respond(line.request(), 30_000);
        line.acknowledge(acked);
        let begun = clock::now();
        line.meter.take().unwrap().close().await;
        let ended = line.ended();
        assert_eq!(ended.len(), 1, "{name}");
        assert_eq!(ended[0].0, complete, "{name}");
        let waited = clock::since(begun) >= CLOSE_PATIENCE;
        assert_eq!(waited, !complete, "{name}: {:?}", clock::since(begun));
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_cannot_be_asked_keeps_its_last_answer() {
    let mut line = Line::open();
    let ticket = line.request();
    line.run(100).await;
    line.respond(ticket, 30_000);
    line.kernel.state.lock().broken = true;
    line.run(3000).await;
    assert!(line.ended().is_empty());
    assert_eq!(line.meter().snapshot.packets_sent, 5, "as it was before");
}
