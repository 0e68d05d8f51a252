//! The meter of a QUIC connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hikyaku_congestion::Settings;
use hikyaku_units::arm::{Arm, Transport};
use tokio::time::Sleep;

use super::acknowledged::Acknowledged;
use super::keep_alive::KeepAlive;
use super::quic_connection::{Counts, QuicConnection, QuicTransport};
use super::report::Reporter;
use super::route::{RouteReporter, RouteSample};
use super::taken::Streamed;
use super::watcher::{Watcher, report};
use super::{Exchange, Exchanges, Load, Patience, Snapshot, Terms};
use crate::clock;
use crate::conn::Conn;
use crate::marked::{Marks, Packets, QuicPackets};
use crate::transport::TransportChoice;

/// Between reports while responses are under way, at most.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest time between two looks at the counters.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
/// Acknowledgements waited for side by side. More are looked at as these come in, which hardly matters:
/// frames that were sent later are acknowledged later.
const WATCHED: usize = 16;

/// Longest that receivers of QUIC wait before they acknowledge: the default of `max_ack_delay`
/// (RFC 9000 §18.2), which nobody exceeds.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// Watches a QUIC connection until all its data is acknowledged.
pub(crate) struct QuicMeter<T: QuicTransport = QuicConnection> {
    conn: Arc<Conn>,
    quic: T,
    packets: Arc<QuicPackets>,
    /// Settings that its congestion control was last given.
    settings: Settings,
    acknowledged: Arc<Acknowledged<T::Stopped>>,
    awaiting: VecDeque<(Box<Exchange>, T::Stopped)>,
    given_up: Exchanges,
    timer: Option<Pin<Box<Sleep>>>,
    looked: Instant,
    snapshot: Snapshot,
    reporter: Reporter,
    route: RouteReporter,
    load: Load,
    patience: Patience,
    streamed: Streamed,
    /// While there is another path to go to.
    watcher: Option<Watcher>,
    keep_alive: KeepAlive,
    /// How often it was made to send something that the client acknowledges.
    nudges: u32,
}

impl<T: QuicTransport> QuicMeter<T> {
    /// Of a connection whose client is served by `terms`, which is over after `max_idle` without a packet, and
    /// whose packets are marked by `marks`.
    pub(crate) fn new(
        conn: Arc<Conn>,
        quic: T,
        acknowledged: Arc<Acknowledged<T::Stopped>>,
        marks: Arc<Marks>,
        terms: Terms,
        max_idle: Duration,
    ) -> Self {
        let now = clock::now();
        let begun = TransportChoice {
            congestion: conn.congestion(),
            ..conn.chosen()
        };
        conn.uploads.note_rtt(quic.rtt());
        let packets = Arc::new(QuicPackets::new(marks, quic.remote_address()));
        let sent: Arc<dyn Packets> = Arc::<QuicPackets>::clone(&packets);
        conn.sends_by(&sent);
        let handshake = Snapshot {
            acked: quic.acked(),
            ..Snapshot::default()
        };
        Self {
            reporter: Reporter::new(Arm::new(conn.peer.version, conn.congestion()), now),
            route: RouteReporter::new(conn.route_changes(), &handshake),
            conn,
            settings: begun.quic_settings(),
            quic,
            packets,
            acknowledged,
            awaiting: VecDeque::new(),
            given_up: Vec::new(),
            timer: None,
            looked: now,
            snapshot: Snapshot::default(),
            load: Load::default(),
            patience: Patience::new(terms),
            streamed: Streamed::after(&handshake),
            watcher: None,
            keep_alive: KeepAlive::new(max_idle),
            nudges: 0,
        }
    }

    /// To be polled by the connection's task.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        self.load = self.conn.ledger.take(cx, &mut self.given_up);
        if let Some(window) = self.conn.uploads.poll_changed(cx) {
            self.set_window(window);
        }
        self.acknowledged.take(&mut self.awaiting);
        let now = clock::now();
        let ended = self.poll_acknowledged(cx, now) | self.give_up(now);
        let idle = self.load.in_flight == 0 && self.awaiting.is_empty();
        if ended {
            self.report(now, idle, false);
        }
        if self.conn.route().is_some() {
            self.steer();
            self.watch(cx);
        }
        match idle {
            true => self.patience.rest(),
            false => self.poll_timer(cx),
        }
    }

    /// To be called when the connection is over, and its handlers have ended.
    pub(crate) async fn close(mut self) {
        self.conn.ledger.drained(&mut self.given_up).await;
        let now = clock::now();
        self.acknowledged.take(&mut self.awaiting);
        self.look(now);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while let Some((mut exchange, mut stopped)) = self.awaiting.pop_front() {
            let stopped = Pin::new(&mut stopped).poll(&mut cx);
            exchange.complete = matches!(stopped, Poll::Ready(Ok(None)));
            self.end(&exchange, now);
        }
        self.give_up(now);
        self.report(now, true, true);
    }

    /// Whether the client has taken too little of what there is to send.
    pub(crate) fn is_stalled(&self) -> bool {
        self.patience.is_over()
    }

    /// Whether responses are sent but not acknowledged.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        !self.awaiting.is_empty()
    }

    fn poll_acknowledged(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut any = false;
        let mut index = 0;
        while index < self.awaiting.len().min(WATCHED) {
            let stopped = Pin::new(&mut self.awaiting[index].1);
            let Poll::Ready(result) = stopped.poll(cx) else {
                index += 1;
                continue;
            };
            if !any {
                self.look(now);
            }
            any = true;
            if let Some((mut exchange, _)) = self.awaiting.remove(index) {
                exchange.complete = matches!(result, Ok(None));
                self.end(&exchange, now);
            }
        }
        any
    }

    fn give_up(&mut self, now: Instant) -> bool {
        let given_up = std::mem::take(&mut self.given_up);
        for exchange in &given_up {
            self.end(exchange, now);
        }
        !given_up.is_empty()
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) {
        loop {
            let deadline = self.looked + BUSY_INTERVAL.min(self.keep_alive.interval);
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
            if timer.is_elapsed() {
                timer.as_mut().reset(deadline.into());
            }
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            let now = clock::now();
            self.look(now);
            self.report(now, false, false);
        }
    }

    fn look(&mut self, now: Instant) {
        let known = self.snapshot.packets_sent > 0;
        if known && now < self.looked + MIN_INTERVAL {
            return;
        }
        self.looked = now;
        let Counts {
            snapshot,
            stream_frames,
            datagrams,
        } = self.quic.count();
        self.snapshot = snapshot;
        self.conn.uploads.note_rtt(snapshot.srtt);
        self.reporter.keep_best_rate(&mut self.snapshot);
        let sending = self.load.is_sending() || !self.awaiting.is_empty();
        if self.keep_alive.look(now, datagrams) {
            self.nudge();
        }
        let taken = self.streamed.look(now, stream_frames, &self.snapshot);
        self.patience.look(now, taken, sending);
    }

    fn report(&mut self, now: Instant, idle: bool, over: bool) {
        self.sample_route(now, idle);
        let observations = self.reporter.observations(now, &self.snapshot, idle, over);
        self.conn.observe(observations);
        self.follow(now);
    }

    fn sample_route(&mut self, now: Instant, idle: bool) {
        let look = RouteSample {
            now,
            acked_at: now,
            snapshot: &self.snapshot,
            idle,
            awaited: self.awaiting.front().map(|(exchange, _)| exchange.started),
        };
        self.route.look(&self.conn, &look);
    }

    /// Leaves a path that carries nothing any more.
    fn watch(&mut self, cx: &mut Context<'_>) {
        if !self.quic.is_controlled() {
            return;
        }
        let under_way = self.load.in_flight > 0 || !self.awaiting.is_empty();
        if !self.conn.has_other_paths() {
            self.watcher = None;
            return;
        }
        if !under_way {
            self.watcher.iter_mut().for_each(Watcher::rest);
            return;
        }
        let mut watcher = self.watcher.take();
        let watching = watcher.get_or_insert_with(|| Watcher::new(ACK_DELAY));
        while let Some(signal) = watching.poll(cx, || Some(self.conn.of_path(self.quic.flight()?)))
        {
            if report(&self.conn, &signal) {
                self.steer();
                self.failover();
            }
        }
        self.watcher = watcher;
    }

    /// Makes the connection send over its new egress route at once. It sends new data, for which the
    /// controller makes room, and in any case a frame that the client acknowledges. The frame's
    /// acknowledgement shows the losses.
    fn failover(&mut self) {
        self.quic.failover();
        self.nudge();
        self.conn.shared.metrics.on_failover(Transport::Quic);
    }

    /// Makes the connection send a frame that the client acknowledges.
    fn nudge(&mut self) {
        self.nudges += 1;
        // A larger window wakes the connection, and has it send MAX_DATA; nobody minds a byte more.
        self.set_window(self.conn.uploads.bytes());
    }

    fn set_window(&self, window: u32) {
        self.quic
            .set_receive_window(window.saturating_add(self.nudges));
    }

    /// Lets packets take the path that was chosen since; to the address that the client has by now.
    fn steer(&mut self) {
        let mark = self.conn.mark();
        if self.route.is_moved(&self.conn) {
            let now = clock::now();
            self.look(now);
            let idle = self.load.in_flight == 0 && self.awaiting.is_empty();
            self.sample_route(now, idle);
        }
        self.packets.follow(self.quic.remote_address());
        self.packets.set_mark(mark);
    }

    /// Gives the connection the path and congestion control that were chosen since.
    fn follow(&mut self, now: Instant) {
        self.steer();
        let settings = self.conn.chosen().quic_settings();
        if !self.quic.is_controlled() || self.settings.is_like(&settings) {
            return;
        }
        self.settings = settings;
        self.quic.change(settings);
        let congestion = settings.algorithm.congestion();
        if congestion != self.conn.congestion() {
            self.reporter.switched(congestion, now);
            self.conn.switched(congestion);
        }
    }

    fn end(&mut self, exchange: &Exchange, at: Instant) {
        self.reporter.on_exchange(exchange, at, exchange.complete);
        self.conn.ended(exchange, at, &self.snapshot);
    }
}

#[cfg(test)]
mod tests;
