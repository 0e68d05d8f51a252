//! Events for those who watch them (`/v1/events`).

use std::net::IpAddr;

use hikyaku_core::transport::Decision;
use serde::Serialize;
use tokio::sync::broadcast;

use crate::access_log::Entry;

/// Events that a slow watcher may lag behind before it misses some.
const CAPACITY: usize = 1024;

/// Sends events to all watchers.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
}

impl Default for Events {
    fn default() -> Self {
        let (sender, _) = broadcast::channel(CAPACITY);
        Self { sender }
    }
}

impl Events {
    /// Whether anybody watches.
    pub(crate) fn is_watched(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Sends an event, which is only made if somebody watches.
    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.is_watched() {
            // Fails only when the last watcher has just gone.
            let _ = self.sender.send(event());
        }
    }

    /// Starts to watch.
    pub(crate) fn watch(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}

/// The new choice of a connection's egress path.
#[derive(Debug, Serialize)]
pub(crate) struct RouteNews {
    pub(crate) client: IpAddr,
    pub(crate) port: u16,
    pub(crate) route: String,
    pub(crate) moved: bool,
    pub(crate) reason: &'static str,
    pub(crate) explanation: String,
}

/// One event: its name and its content as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) data: String,
}

impl Event {
    /// A response ended.
    pub(crate) fn response(entry: &Entry<'_>) -> Self {
        Self::new("response", entry)
    }

    /// A client's decision changed.
    pub(crate) fn decision(client: IpAddr, decision: &Decision) -> Self {
        #[derive(Serialize)]
        struct Content {
            client: IpAddr,
            version: &'static str,
            reason: &'static str,
            assignment: &'static str,
            probability: f64,
            explanation: String,
            tcp: String,
            quic: String,
        }
        Self::new(
            "decision",
            &Content {
                client,
                version: decision.version.name(),
                reason: decision.reason.code(),
                assignment: decision.assignment.name(),
                probability: decision.probability,
                explanation: decision.to_string(),
                tcp: decision.congestion.tcp.to_string(),
                quic: decision.congestion.quic.to_string(),
            },
        )
    }

    /// A connection's egress path was chosen anew.
    pub(crate) fn route(news: &RouteNews) -> Self {
        Self::new("route", news)
    }

    /// Something was seen of UDP.
    pub(crate) fn udp(client: IpAddr, event: &'static str) -> Self {
        #[derive(Serialize)]
        struct Content {
            client: IpAddr,
            event: &'static str,
        }
        Self::new("udp", &Content { client, event })
    }

    fn new(name: &'static str, content: &impl Serialize) -> Self {
        Self {
            name,
            data: serde_json::to_string(content).unwrap_or_default(),
        }
    }
}
