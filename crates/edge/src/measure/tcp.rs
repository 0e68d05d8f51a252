//! The meter of a TCP or MPTCP connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use hikyaku_units::arm::{Arm, Transport};
use tokio::time::Sleep;

use super::held::HeldAck;
use super::report::Reporter;
use super::route::{RouteReporter, RouteSample};
use super::subflows::{SubflowFlight, SubflowWatcher};
use super::taken::{ABOVE_SOCKET, ContentEnd};
use super::watcher::{Watcher, report};
use super::{
    Departed, Exchange, Exchanges, Flight, Load, Patience, Signal, Snapshot, Socket, TcpTransport,
    Terms,
};
use crate::clock;
use crate::conn::Conn;
use crate::marked::Packets;

/// Between looks at the socket while responses are under way.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
/// Between looks while an acknowledgement is awaited: half a round trip within these.
const ACK_INTERVAL: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];
/// How long requests may take to notice that their connection is over, and the client to
/// acknowledge the last of them.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes that may follow a response when the connection ends: GOAWAY and `close_notify`,
/// each in a TLS record.
const GOODBYE: u64 = 128;
/// Longest that receivers of TCP wait before they acknowledge. RFC 5681 §4.2 allows 500 ms. Linux takes
/// 40 ms, others up to 200 ms for single packets.
const ACK_DELAY: Duration = Duration::from_millis(40);

/// Watches a socket until all bytes written to it are acknowledged.
#[derive(Debug)]
pub(crate) struct TcpMeter<T = Socket> {
    conn: Arc<Conn>,
    socket: Arc<T>,
    /// Exchanges by the stream offset at which they are acknowledged whole.
    awaiting: VecDeque<(u64, Box<Exchange>)>,
    /// Some of these offsets are upper bounds, since the socket was full.
    estimated: bool,
    arrived: Exchanges,
    load: Load,
    content: ContentEnd,
    patience: Patience,
    /// While there is another path to go to.
    watcher: Option<Box<Watcher>>,
    /// While there is another path to go to, of MPTCP.
    subflows: Option<Box<SubflowWatcher>>,
    timer: Option<Pin<Box<Sleep>>>,
    looked: Instant,
    /// When a request that followed a response was last distinguished from one beside it.
    separated: Option<Instant>,
    held: HeldAck,
    snapshot: Snapshot,
    departed: Departed,
    reporter: Reporter,
    route: RouteReporter,
}

impl<T: TcpTransport + 'static> TcpMeter<T> {
    /// Of a connection whose client is served by `terms`.
    pub(crate) fn new(conn: Arc<Conn>, socket: Arc<T>, terms: Terms) -> Self {
        let now = clock::now();
        let snapshot = socket.look().unwrap_or_default();
        conn.uploads.note_rtt(snapshot.srtt);
        let packets: Arc<dyn Packets> = Arc::<T>::clone(&socket);
        conn.sends_by(&packets);
        Self {
            reporter: Reporter::new(Arm::new(conn.peer.version, conn.congestion()), now),
            route: RouteReporter::new(conn.route_changes(), &snapshot),
            conn,
            snapshot,
            departed: Departed::default(),
            socket,
            awaiting: VecDeque::new(),
            estimated: false,
            arrived: Vec::new(),
            load: Load::default(),
            content: ContentEnd::default(),
            patience: Patience::new(terms),
            watcher: None,
            subflows: None,
            timer: None,
            looked: now,
            separated: None,
            held: HeldAck::default(),
        }
    }

    /// To be polled by the connection's task after the connection itself.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        self.load = self.conn.ledger.take(cx, &mut self.arrived);
        if let Some(opened) = self.conn.ledger.take_opened() {
            self.separate(opened);
        }
        self.await_acknowledgement();
        if self.conn.route().is_some() {
            self.steer();
            self.watch(cx);
        }
        while let Some(interval) = self.interval() {
            let deadline = self.looked + interval;
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
            // An earlier deadline than needed does no harm; a later one would.
            if timer.deadline() > deadline.into() || timer.is_elapsed() {
                timer.as_mut().reset(deadline.into());
            }
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            self.look(clock::now(), None);
        }
        self.patience.rest();
    }

    /// Distinguishes a request that followed the last response from one beside it. The former
    /// acknowledges the response: the connection was idle in between, though nothing was acknowledged
    /// before.
    fn separate(&mut self, opened: Instant) {
        let Some((_, last)) = self.awaiting.back() else {
            return;
        };
        // A client that asked sooner had not seen the response.
        if opened < last.written + self.snapshot.min_rtt {
            return;
        }
        let [shortest, _] = ACK_INTERVAL;
        if self.separated.is_some_and(|at| opened < at + shortest) {
            return self.reporter.blur();
        }
        self.separated = Some(opened);
        self.look(clock::now(), Some(opened));
    }

    /// To be called when the connection is over.
    pub(crate) async fn close(mut self) {
        let conn = Arc::clone(&self.conn);
        // Requests may be tasks of their own, which end a little later.
        let ended = conn.ledger.drained(&mut self.arrived);
        let _ = tokio::time::timeout(CLOSE_PATIENCE, ended).await;
        self.load = Load::default();
        self.await_acknowledgement();
        for (end, _) in &mut self.awaiting {
            // A client may not wait for the protocol's goodbye after a response.
            *end = end.saturating_sub(GOODBYE);
        }
        let patience = clock::now() + CLOSE_PATIENCE;
        self.look(clock::now(), None);
        while let Some(interval) = self.interval()
            && !self.snapshot.closed
            && self.looked < patience
        {
            tokio::time::sleep(interval).await;
            self.look(clock::now(), None);
        }
        let now = clock::now();
        for (_, mut exchange) in std::mem::take(&mut self.awaiting) {
            exchange.complete = false;
            self.end(&exchange, now);
        }
        let last = self.reporter.observations(now, &self.snapshot, true, true);
        self.conn.observe(last);
    }

    /// How long to wait until the socket is looked at; `None` when nothing is under way.
    fn interval(&self) -> Option<Duration> {
        let [shortest, longest] = ACK_INTERVAL;
        if !self.awaiting.is_empty() {
            return Some((self.snapshot.srtt / 2).clamp(shortest, longest));
        }
        (self.load.in_flight > 0).then_some(BUSY_INTERVAL)
    }

    fn await_acknowledgement(&mut self) {
        let (written, blocked) = self.socket.written();
        if !blocked && std::mem::take(&mut self.estimated) {
            // Nothing waits any more above the socket, so no response ends later.
            for (end, _) in &mut self.awaiting {
                *end = written.min(*end);
            }
        }
        let above = if blocked { ABOVE_SOCKET } else { 0 };
        for exchange in std::mem::take(&mut self.arrived) {
            if exchange.complete {
                self.estimated |= blocked;
                let above = above.min(exchange.bytes);
                self.awaiting.push_back((written + above, exchange));
            } else {
                self.refresh();
                self.end(&exchange, clock::now());
            }
        }
    }

    /// Looks at the socket. What the client asked for at `asked`, if that is why, is of another busy
    /// period than what it has acknowledged.
    fn look(&mut self, now: Instant, asked: Option<Instant>) {
        let former = std::mem::replace(&mut self.looked, now);
        self.refresh();
        // The kernel counts in ticks of some milliseconds; before the last look it was not.
        let last_ack = now.checked_sub(self.snapshot.since_ack).unwrap_or(now);
        let acked_at = last_ack.max(former).min(asked.unwrap_or(now));
        self.end_acknowledged(acked_at);
        if let Some((_, exchange)) = self.awaiting.front() {
            let (written, _) = self.socket.written();
            let since = exchange.written.max(last_ack);
            self.held.look(since, written, &self.snapshot);
        }
        let sending = self.load.is_sending() || !self.awaiting.is_empty();
        let taken = self.taken();
        self.patience.look(now, taken, sending);
        self.sample_route(now, acked_at);
        let over = self.is_idle() || asked.is_some() && self.awaiting.is_empty();
        let observations = self.reporter.observations(now, &self.snapshot, over, false);
        self.conn.observe(observations);
        self.follow(now);
    }

    fn end_acknowledged(&mut self, acked_at: Instant) {
        let arrived = self.held.arrived_by(&self.snapshot);
        let acked_at = arrived.map_or(acked_at, |arrived| arrived.min(acked_at));
        while let Some((_, exchange)) = self
            .awaiting
            .pop_front_if(|(end, _)| *end <= self.snapshot.acked)
        {
            let at = acked_at.max(exchange.written);
            self.end(&exchange, at);
        }
    }

    /// Acknowledged bytes that hold content. Bytes after it, such as answers to PINGs, do not count, nor
    /// bytes that were sent while there was no content.
    fn taken(&mut self) -> u64 {
        let (written, blocked) = self.socket.written();
        let content = self.conn.ledger.content();
        let awaited = self.awaiting.back().map_or(0, |(end, _)| *end);
        let end = self.content.look(content, written, blocked).max(awaited);
        self.snapshot.acked.min(end)
    }

    fn is_idle(&self) -> bool {
        self.load.in_flight == 0 && self.awaiting.is_empty()
    }

    fn sample_route(&mut self, now: Instant, acked_at: Instant) {
        let look = RouteSample {
            now,
            acked_at,
            snapshot: &self.snapshot,
            idle: self.is_idle(),
            awaited: self.awaiting.front().map(|(_, exchange)| exchange.started),
        };
        self.route.look(&self.conn, &look);
    }

    /// Gives the socket the path and congestion control that were chosen since, and the largest rate.
    fn follow(&mut self, now: Instant) {
        self.steer();
        self.socket.set_pacing(self.conn.max_pacing_rate());
        let control = self.conn.chosen().tcp_control();
        let Some(congestion) = self.socket.set_congestion(control) else {
            return;
        };
        if congestion != self.conn.congestion() {
            self.reporter.switched(congestion, now);
            self.conn.switched(congestion);
        }
    }

    /// Lets packets take the path that was chosen since.
    fn steer(&mut self) {
        let mark = self.conn.mark();
        if self.route.is_moved(&self.conn) {
            self.refresh();
            let now = clock::now();
            self.sample_route(now, now);
        }
        self.socket.set_mark(mark);
    }

    /// Leaves a path that carries nothing any more.
    fn watch(&mut self, cx: &mut Context<'_>) {
        let under_way = self.load.in_flight > 0 || !self.awaiting.is_empty();
        if !self.conn.has_other_paths() {
            (self.watcher, self.subflows) = (None, None);
            return;
        }
        if !under_way {
            self.watcher.iter_mut().for_each(|watcher| watcher.rest());
            self.subflows = None;
            return;
        }
        if !self.socket.has_one_path() {
            return self.watch_subflows(cx);
        }
        let mut watcher = self.watcher.take();
        let watching = watcher.get_or_insert_with(|| Box::new(Watcher::new(ACK_DELAY)));
        while let Some(signal) = watching.poll(cx, || self.flight()) {
            if !report(&self.conn, &signal) {
                continue;
            }
            self.steer();
            if self.socket.failover() {
                self.conn.shared.metrics.on_failover(Transport::Tcp);
            }
        }
        self.watcher = watcher;
    }

    fn flight(&self) -> Option<Flight> {
        Some(self.conn.of_path(self.socket.flight()?))
    }

    /// Has the agent take a path from an MPTCP connection that carries nothing any more; where it was
    /// the only one, leaves it.
    fn watch_subflows(&mut self, cx: &mut Context<'_>) {
        let subflows = &mut self.subflows;
        let watcher = subflows.get_or_insert_with(|| Box::new(SubflowWatcher::new(ACK_DELAY)));
        let mut moved = false;
        let look = || {
            let flights = self.socket.subflows();
            let seen: Vec<_> = flights.iter().map(SubflowFlight::rtt).collect();
            self.conn.see_subflows(&seen);
            flights
        };
        while let Some((local, signal)) = watcher.poll(cx, look) {
            match signal {
                Signal::Stalled(stall) => moved |= self.conn.subflow_stalled(local, &stall),
                Signal::Resumed { silent, .. } => self.conn.subflow_resumed(local, silent),
                // Its path is the agent's to give back.
                Signal::Delivered => {}
            }
        }
        if moved {
            self.steer();
        }
    }

    fn refresh(&mut self) {
        if let Ok(snapshot) = self.socket.look() {
            self.snapshot = self.departed.complete(snapshot, &self.snapshot);
            self.reporter.keep_best_rate(&mut self.snapshot);
            self.conn.uploads.note_rtt(self.snapshot.srtt);
        }
    }

    /// The socket that it watches.
    pub(crate) const fn socket(&self) -> &Arc<T> {
        &self.socket
    }

    /// The smoothed round-trip time at the last look.
    pub(crate) const fn srtt(&self) -> Duration {
        self.snapshot.srtt
    }

    /// Whether the client has taken too little of what there is to send.
    pub(crate) fn is_stalled(&self) -> bool {
        self.patience.is_over()
    }

    fn end(&mut self, exchange: &Exchange, at: Instant) {
        self.reporter.on_exchange(exchange, at, exchange.complete);
        self.conn.ended(exchange, at, &self.snapshot);
    }
}

#[cfg(test)]
mod tests;
