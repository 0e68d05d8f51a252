//! Traces of QUIC connections in qlog, for those who ask (`hikyaku explain --qlog`).
//!
//! Somebody asks for the next connections of a client and reads a stream of records
//! (draft-ietf-quic-qlog-main-schema, JSON text sequences of RFC 7464). A connection is traced from its
//! first packet or never. While nobody asks, an accept looks at one counter, and packets cost nothing
//! but the look at an empty option.

mod pipe;
mod recorder;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hikyaku_congestion::Handle;
use hikyaku_core::client::key::Key;
use hikyaku_quic::Connection;
use hikyaku_quic::proto::{QlogConfig, QlogStream};
use hikyaku_units::{ByteSize, Timestamp};
use parking_lot::Mutex;
use serde_json::json;

use pipe::Feed;
pub(crate) use pipe::TraceBody;
use recorder::Recorder;

use crate::clock;

/// Traces that may be asked for at once.
const MAX_WANTED: usize = 16;

/// Traces that somebody asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceRequest {
    /// Whose connections.
    pub(crate) client: Key,
    /// How many of those that begin from now on.
    pub(crate) connections: u32,
    /// For how long.
    pub(crate) duration: Duration,
    /// How much at most.
    pub(crate) size: ByteSize,
}

/// There are too many traces already.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{MAX_WANTED} traces are being taken already; end one of them")]
pub(crate) struct TooManyTraces;

/// The traces that somebody wants.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// How many `wanted` are: what an accept looks at.
    count: AtomicUsize,
    wanted: Mutex<Vec<Wanted>>,
}

/// A trace that waits for connections.
#[derive(Debug)]
struct Wanted {
    client: Key,
    connections: u32,
    feed: Feed,
    begun: Instant,
}

impl Traces {
    /// Starts to trace, at the time `now`.
    ///
    /// # Errors
    /// When too many do so.
    pub(crate) fn watch(
        &self,
        request: &TraceRequest,
        now: Timestamp,
    ) -> Result<TraceBody, TooManyTraces> {
        let mut wanted = self.wanted.lock();
        wanted.retain(|one| one.feed.is_open());
        if wanted.len() >= MAX_WANTED {
            return Err(TooManyTraces);
        }
        let begun = clock::now();
        let (feed, body) = pipe::new(begun + request.duration, request.size.bytes());
        feed.push(&header(request.client, now));
        wanted.push(Wanted {
            client: request.client,
            connections: request.connections,
            feed,
            begun,
        });
        self.count.store(wanted.len(), Ordering::Relaxed);
        Ok(body)
    }

    /// The trace of a connection that begins between these addresses, if anybody wants it.
    /// `group` gives its name there.
    pub(crate) fn of_connection(
        &self,
        remote: SocketAddr,
        local: SocketAddr,
        group: impl FnOnce() -> String,
    ) -> Option<Trace> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut wanted = self.wanted.lock();
        wanted.retain(|one| one.feed.is_open());
        let client = Key::address(remote.ip());
        let index = wanted.iter().position(|one| one.client.contains(&client));
        let trace = index.and_then(|index| {
            let one = &mut wanted[index];
            one.connections -= 1;
            let (feed, begun) = (one.feed.clone(), one.begun);
            if one.connections == 0 {
                wanted.swap_remove(index);
            }
            Trace::begin(feed, begun, remote, local, &group())
        });
        self.count.store(wanted.len(), Ordering::Relaxed);
        trace
    }
}

/// The trace of one connection.
pub(crate) struct Trace {
    stream: QlogStream,
    controller: Arc<OnceLock<Handle>>,
}

impl Trace {
    fn begin(
        feed: Feed,
        begun: Instant,
        remote: SocketAddr,
        local: SocketAddr,
        group: &str,
    ) -> Option<Self> {
        feed.push(&started(clock::since(begun), remote, local, group));
        feed.connection_began();
        let controller = Arc::default();
        let recorder = Recorder::new(feed, group, Arc::clone(&controller));
        let mut config = QlogConfig::default();
        config.writer(Box::new(recorder)).start_time(begun);
        let stream = config.into_stream()?;
        Some(Self { stream, controller })
    }

    /// Where the connection writes it.
    pub(crate) fn stream(&self) -> QlogStream {
        self.stream.clone()
    }

    /// Adds what the controller of `quic` does, from now on.
    pub(crate) fn follow(self, quic: &Connection) {
        if let Some(controller) = Handle::of(quic.congestion_state()) {
            // Nobody else sets it.
            let _ = self.controller.set(controller);
        }
    }
}

/// A record as RFC 7464 has it.
fn record(content: &serde_json::Value) -> Vec<u8> {
    format!("\x1e{content}\n").into_bytes()
}

/// The first record: what the trace is of.
fn header(client: Key, now: Timestamp) -> Vec<u8> {
    record(&json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": format!("hikyaku {}: QUIC connections of {client}", env!("CARGO_PKG_VERSION")),
        "trace": {
            "vantage_point": { "name": "hikyaku", "type": "server" },
            "common_fields": {
                "time_format": "relative",
                "reference_time": now.as_micros() as f64 / 1e3,
                "protocol_type": ["QUIC"],
            },
        },
    }))
}

fn started(at: Duration, remote: SocketAddr, local: SocketAddr, group: &str) -> Vec<u8> {
    let ip = |ip: IpAddr| ip.to_canonical();
    let version = if ip(remote.ip()).is_ipv4() {
        "v4"
    } else {
        "v6"
    };
    record(&json!({
        "time": millis(at),
        "name": "connectivity:connection_started",
        "data": {
            "ip_version": version,
            "src_ip": ip(remote.ip()),
            "dst_ip": ip(local.ip()),
            "src_port": remote.port(),
            "dst_port": local.port(),
        },
        "group_id": group,
    }))
}

fn millis(time: Duration) -> f64 {
    // To the microsecond, which is all that tools show.
    time.as_micros() as f64 / 1e3
}

#[cfg(test)]
mod tests;
