//! The connections to one destination.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::alt_svc::cache::Authority;
use super::args::HttpChoice;
use super::connection::{Connection, HttpVersion};
use super::error::FetchError;
use super::session::Client;
use super::target::Origin;
use super::timeline::Opening;
use super::{quic, tcp};

/// The destination of connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Destination {
    /// The origin itself, over TCP.
    Tcp(Origin),
    /// HTTP/3 for the origin, at the origin's own authority or an alternative one.
    Quic(Origin, Authority),
}

/// Connections to one destination, opened on demand.
pub(super) struct Pool {
    client: Arc<Client>,
    destination: Destination,
    lanes: Vec<Lane>,
    /// The version that ALPN picked; known with the first connection.
    version: OnceLock<HttpVersion>,
    /// Turns on HTTP/1.1, which carries one request at a time on each connection.
    turns: Arc<Semaphore>,
    /// Every connection that this pool opened.
    opened: Mutex<Vec<Arc<Connection>>>,
}

/// A slot for one connection.
#[derive(Default)]
struct Lane {
    cell: Mutex<Arc<Cell>>,
    in_flight: AtomicUsize,
    served: AtomicUsize,
}

/// A connection that is open, has failed, or is being opened by its first user.
type Cell = OnceCell<Result<Arc<Connection>, FetchError>>;

/// A connection to use for one request.
pub(super) struct Checkout {
    pub(super) connection: Arc<Connection>,
    /// Times of opening the connection, if it was opened for this request.
    pub(super) opening: Option<Opening>,
    _lane: LaneUse,
    _turn: Option<OwnedSemaphorePermit>,
}

struct LaneUse {
    pool: Arc<Pool>,
    lane: usize,
}

impl Drop for LaneUse {
    fn drop(&mut self) {
        let lane = &self.pool.lanes[self.lane];
        lane.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The time after which browsers stop waiting for an alternative's handshake (Chromium: 4 s).
const ALTERNATIVE_PATIENCE: Duration = Duration::from_secs(4);

impl Pool {
    pub(super) fn new(client: Arc<Client>, destination: Destination) -> Self {
        let settings = &client.settings;
        let http1 = settings.connections_http1;
        let lanes = settings.connections.max(http1);
        Self {
            destination,
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            version: OnceLock::new(),
            turns: Arc::new(Semaphore::new(http1)),
            opened: Mutex::new(Vec::new()),
            client,
        }
    }

    /// Returns the least used connection, and opens it if necessary.
    ///
    /// On HTTP/1.1 it waits for an idle one.
    pub(super) async fn checkout(self: &Arc<Self>) -> Result<Checkout, FetchError> {
        let mut opening = None;
        let version = match self.version.get() {
            Some(version) => *version,
            // All requests wait for the first connection, and share its failure.
            None => self.connect(0, &mut opening).await?.version,
        };
        let turn = match version {
            HttpVersion::Http1 => self.turns.clone().acquire_owned().await.ok(),
            _ => None,
        };
        let lane = self.reserve(version);
        let connection = self.connect(lane.lane, &mut opening).await?;
        Ok(Checkout {
            connection,
            opening,
            _lane: lane,
            _turn: turn,
        })
    }

    /// Whether a request could be sent at once.
    pub(super) fn is_up(&self) -> bool {
        self.lanes.iter().any(|lane| {
            let cell = lane.cell.lock();
            matches!(cell.get(), Some(Ok(connection)) if connection.is_usable())
        })
    }

    /// Opens the first connection in the background, unless its opening has begun.
    pub(super) fn preconnect(self: &Arc<Self>) {
        let pool = self.clone();
        // The lane keeps a failure for its users, as does the Alt-Svc cache.
        tokio::spawn(async move { pool.connect(0, &mut None).await.map(drop) });
    }

    /// Returns every connection that this pool opened.
    pub(super) fn opened(&self) -> Vec<Arc<Connection>> {
        self.opened.lock().clone()
    }

    fn reserve(self: &Arc<Self>, version: HttpVersion) -> LaneUse {
        let settings = &self.client.settings;
        let width = match version {
            HttpVersion::Http1 => settings.connections_http1,
            _ => settings.connections,
        };
        let load = |lane: &Lane| {
            let in_flight = lane.in_flight.load(Ordering::Relaxed);
            (in_flight, lane.served.load(Ordering::Relaxed))
        };
        let (lane, chosen) = self.lanes[..width]
            .iter()
            .enumerate()
            .min_by_key(|(_, lane)| load(lane))
            .unwrap_or((0, &self.lanes[0]));
        chosen.in_flight.fetch_add(1, Ordering::Relaxed);
        chosen.served.fetch_add(1, Ordering::Relaxed);
        LaneUse {
            pool: self.clone(),
            lane,
        }
    }

    async fn connect(
        &self,
        lane: usize,
        opening: &mut Option<Opening>,
    ) -> Result<Arc<Connection>, FetchError> {
        let cell = {
            let mut cell = self.lanes[lane].cell.lock();
            let useless = match cell.get() {
                Some(Ok(connection)) => !connection.is_usable(),
                Some(Err(_)) => true,
                None => false,
            };
            if useless {
                *cell = Arc::default();
            }
            cell.clone()
        };
        let result = cell.get_or_init(|| async {
            let connection = Arc::new(self.open().await?);
            *opening = Some(connection.opening);
            self.version.get_or_init(|| connection.version);
            self.opened.lock().push(connection.clone());
            Ok(connection)
        });
        result.await.clone()
    }

    async fn open(&self) -> Result<Connection, FetchError> {
        let client = &self.client;
        let settings = &client.settings;
        let id = client.next_connection_id();
        let limit = settings.connect_timeout;
        let late = |host: &str, over, after| FetchError::ConnectTimeout {
            host: host.to_owned(),
            over,
            after,
        };
        match &self.destination {
            Destination::Tcp(origin) => {
                let opening = tcp::open(settings, client.tls.clone(), origin, id);
                let opened = timeout(limit, opening).await;
                opened.unwrap_or_else(|_| Err(late(&origin.host, "TCP", limit)))
            }
            Destination::Quic(origin, authority) => {
                let alternative = settings.http == HttpChoice::Auto;
                let limit = if alternative {
                    limit.min(ALTERNATIVE_PATIENCE)
                } else {
                    limit
                };
                let at = (authority.host.as_str(), authority.port);
                let opening = quic::open(settings, &client.quic, origin, at, id);
                let opened = timeout(limit, opening).await;
                let opened = opened.unwrap_or_else(|_| Err(late(at.0, "QUIC", limit)));
                if alternative && opened.is_err() {
                    client.cache.lock().failed(SystemTime::now(), authority);
                }
                opened
            }
        }
    }
}
