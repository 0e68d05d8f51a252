//! A client that keeps its connections, and chooses among them for each request.

use std::collections::HashMap;
use std::mem;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hikyaku_quic::Endpoint;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::alt_svc;
use super::alt_svc::cache::{Authority, Cache};
use super::alt_svc::field::{alt_used, field, keep_alternatives_that_browsers_accept};
use super::args::{AltSvcMode, GetArgs, HttpChoice};
use super::connection::{Connection, PathStats};
use super::error::{FetchError, GetError};
use super::exchange::{self, Sink};
use super::pool::{Checkout, Destination, Pool};
use super::progress::Progress;
use super::settings::Settings;
use super::target::{Origin, Target, Template};
use super::timeline::Timeline;
use super::{quic, tls};

/// The longest time for which a closed connection answers. That is three probe timeouts (RFC 9000
/// §10.2) of a path with a round trip of 300 ms.
const MAX_DRAIN: Duration = Duration::from_secs(1);

/// The state that all sessions of the process share.
pub(super) struct Client {
    pub(super) settings: Settings,
    pub(super) tls: Arc<rustls::ClientConfig>,
    pub(super) quic: hikyaku_quic::proto::ClientConfig,
    pub(super) cache: Mutex<Cache>,
    pub(super) progress: Progress,
    cache_file: Option<PathBuf>,
    connections: AtomicU64,
    /// The start of the measurement, from which absolute times count.
    pub(super) epoch: Instant,
    /// Endpoints of closed connections.
    draining: Mutex<JoinSet<()>>,
}

impl Client {
    pub(super) fn new(args: &GetArgs, progress: Progress) -> Result<Self, GetError> {
        let settings = Settings::new(args)?;
        let mut tls = tls::config(args)?;
        let mut over_quic = tls.clone();
        if args.resume {
            tls::keep_sessions(&mut tls);
            tls::keep_sessions(&mut over_quic);
        }
        let quic = quic::config(&settings, over_quic)?;
        tls.alpn_protocols = match settings.http {
            HttpChoice::Http1 => vec![b"http/1.1".to_vec()],
            HttpChoice::Http2 => vec![b"h2".to_vec()],
            _ => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        let cache = match &args.alt_svc_cache {
            Some(path) => Cache::load(path).map_err(|source| GetError::File {
                doing: "reading the Alt-Svc cache",
                path: path.clone(),
                source,
            })?,
            None => Cache::default(),
        };
        Ok(Self {
            settings,
            tls: Arc::new(tls),
            quic,
            cache: Mutex::new(cache),
            progress,
            cache_file: args.alt_svc_cache.clone(),
            connections: AtomicU64::new(0),
            epoch: Instant::now(),
            draining: Mutex::default(),
        })
    }

    /// Keeps the endpoint of a closed connection while packets of the server are to be expected.
    ///
    /// A server whose last packets, or the client's last one, are lost sends again. Without an
    /// answer it has to keep the connection until its idle timeout (RFC 9000 §10.2).
    fn drain(&self, endpoint: Endpoint) {
        self.draining.lock().spawn(async move {
            let _ = timeout(MAX_DRAIN, endpoint.wait_idle()).await;
        });
    }

    /// Waits until the endpoints of all closed connections have drained.
    pub(super) async fn closed(&self) {
        let draining = mem::take(&mut *self.draining.lock());
        draining.join_all().await;
    }

    pub(super) fn next_connection_id(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Makes the next session that of a new client, unless a file keeps the cache.
    pub(super) fn forget(&self) {
        if self.cache_file.is_none() {
            *self.cache.lock() = Cache::default();
        }
    }

    pub(super) fn save_cache(&self) -> Result<(), GetError> {
        let Some(path) = &self.cache_file else {
            return Ok(());
        };
        self.cache
            .lock()
            .save(path)
            .map_err(|source| GetError::File {
                doing: "writing the Alt-Svc cache",
                path: path.clone(),
                source,
            })
    }
}

/// A set of connections that requests share.
pub(super) struct Session {
    client: Arc<Client>,
    pools: Mutex<HashMap<Destination, Arc<Pool>>>,
}

/// A request to make.
pub(super) struct Order<'a> {
    pub(super) target: &'a Target,
    pub(super) template: &'a Template,
    /// Whether more requests to this origin follow, so that an advertised alternative is to be
    /// connected at once.
    pub(super) more_follow: bool,
}

/// The result of a request, as far as it came.
pub(super) struct Fetched {
    pub(super) timeline: Timeline,
    pub(super) connection: Option<Arc<Connection>>,
    pub(super) status: Option<StatusCode>,
    pub(super) headers: HeaderMap,
    /// Bytes of the body.
    pub(super) body: u64,
    /// The reason for a second attempt, or for falling back to TCP.
    pub(super) retry: Option<String>,
    /// The path statistics at the end.
    pub(super) path: Option<PathStats>,
    pub(super) error: Option<FetchError>,
}

/// HTTP/3's head start over TCP in browsers that know it from an earlier visit (observed in
/// Chromium: about 0.1 s).
const TCP_DELAY: Duration = Duration::from_millis(100);

impl Session {
    pub(super) fn new(client: Arc<Client>) -> Self {
        Self {
            client,
            pools: Mutex::new(HashMap::new()),
        }
    }

    /// Makes one request; failures are part of the result.
    pub(super) async fn fetch(&self, order: Order<'_>, sink: &mut Sink) -> Fetched {
        let settings = &self.client.settings;
        let mut fetched = Fetched::new();
        let attempts = self.attempts(&order, sink, &mut fetched);
        let outcome = timeout(settings.timeout, attempts).await;
        fetched.timeline.end = Some(Instant::now());
        fetched.path = fetched.connection.as_ref().and_then(|c| c.path());
        fetched.error = match outcome {
            Err(_) => Some(FetchError::Timeout(settings.timeout)),
            Ok(Err(error)) => Some(error),
            Ok(Ok(())) => fetched
                .status
                .map(|status| status.as_u16())
                .filter(|status| settings.fail && *status >= 400)
                .map(FetchError::Status),
        };
        fetched
    }

    /// Repeats attempts until one gets a response, or fails for good.
    async fn attempts(
        &self,
        order: &Order<'_>,
        sink: &mut Sink,
        fetched: &mut Fetched,
    ) -> Result<(), FetchError> {
        let origin = &order.target.origin;
        let mut may_reconnect = true;
        loop {
            let alternative = self.alternative(origin);
            let attempt = self.attempt(order, alternative.as_ref(), sink, fetched);
            let Err(error) = attempt.await else {
                return Ok(());
            };
            let alternative = alternative.as_ref();
            if !self.may_try_again(order, alternative, &error, fetched, &mut may_reconnect) {
                return Err(error);
            }
            fetched.timeline.retry();
            fetched.connection = None;
        }
    }

    /// Draws the conclusions from a failed attempt, and returns whether another one over another
    /// connection makes sense. `alternative` is the intended destination.
    fn may_try_again(
        &self,
        order: &Order<'_>,
        alternative: Option<&Authority>,
        error: &FetchError,
        fetched: &mut Fetched,
        may_reconnect: &mut bool,
    ) -> bool {
        let connection = fetched.connection.as_deref();
        if let Some(connection) = connection.filter(|_| error.breaks_connection()) {
            connection.retire();
        }
        let dead = connection.is_none_or(|c| !c.is_usable());
        let reused = connection.is_some() && fetched.timeline.opening.is_none();
        // In a race the request may have used TCP all the same.
        let alternative = alternative.filter(|_| connection.is_none_or(Connection::is_quic));
        // The pool has counted the failure of a connection that could not be opened.
        if let (Some(authority), Some(connection)) = (alternative, connection)
            && dead
            && (connection.path_died() || !reused)
            && connection.blame()
        {
            let mut cache = self.client.cache.lock();
            cache.failed(SystemTime::now(), authority);
        }
        let unanswered = fetched.timeline.first_byte.is_none();
        let safe = fetched.timeline.send.is_none() || order.template.method.is_idempotent();
        if !(unanswered && safe) {
            return false;
        }
        let next = self.alternative(&order.target.origin);
        let elsewhere = alternative.is_some() && next.as_ref() != alternative;
        let reconnect = reused && dead && std::mem::take(may_reconnect);
        if elsewhere || reconnect {
            fetched.retry = Some(match alternative {
                Some(at) => format!("HTTP/3 at {}:{}: {}", at.host, at.port, error.chain()),
                None => error.chain(),
            });
        }
        elsewhere || reconnect
    }

    async fn attempt(
        &self,
        order: &Order<'_>,
        alternative: Option<&Authority>,
        sink: &mut Sink,
        fetched: &mut Fetched,
    ) -> Result<(), FetchError> {
        let Order {
            target, template, ..
        } = order;
        let checkout = self.checkout(&target.origin, alternative).await?;
        let connection = &checkout.connection;
        fetched.timeline.opening = checkout.opening;
        fetched.connection = Some(connection.clone());
        connection.requests.fetch_add(1, Ordering::Relaxed);
        let mut sender = connection.sender.clone();
        let timeline = &mut fetched.timeline;
        let over_alternative = alternative.filter(|_| connection.is_quic());
        let response = match over_alternative {
            Some(at) => {
                let mut template = (*template).clone();
                template.headers.extend(alt_used(at));
                exchange::send(&mut sender, &template, target, timeline).await?
            }
            None => exchange::send(&mut sender, template, target, timeline).await?,
        };
        if let Some(at) = over_alternative {
            self.client.cache.lock().works(at);
        }
        fetched.status = Some(response.status);
        fetched.headers.clone_from(&response.headers);
        self.take_in_alt_svc(&target.origin, &response.headers, order.more_follow);
        let progress = &self.client.progress;
        if let Some(bytes) = exchange::content_length(&response.headers) {
            progress.expect(bytes);
        }
        response.read(sink, &mut fetched.body, progress).await
    }

    /// Returns a connection for a request to `origin`.
    pub(super) async fn checkout(
        &self,
        origin: &Origin,
        alternative: Option<&Authority>,
    ) -> Result<Checkout, FetchError> {
        let settings = &self.client.settings;
        if settings.http == HttpChoice::Http3 {
            let own = Authority {
                host: origin.host.clone(),
                port: origin.port,
            };
            return self
                .pool(&Destination::Quic(origin.clone(), own))
                .checkout()
                .await;
        }
        let tcp = self.pool(&Destination::Tcp(origin.clone()));
        let Some(authority) = alternative else {
            return tcp.checkout().await;
        };
        let quic = self.pool(&Destination::Quic(origin.clone(), authority.clone()));
        if settings.alt_svc == AltSvcMode::Race {
            race(&quic, &tcp).await
        } else {
            quic.checkout().await
        }
    }

    /// Returns the advertised alternative for requests to `origin`, in place of TCP.
    fn alternative(&self, origin: &Origin) -> Option<Authority> {
        if self.client.settings.alt_svc == AltSvcMode::Ignore {
            return None;
        }
        let cache = self.client.cache.lock();
        cache
            .lookup(SystemTime::now(), &origin.to_string())
            .cloned()
    }

    fn take_in_alt_svc(&self, origin: &Origin, headers: &HeaderMap, more_follow: bool) {
        let mode = self.client.settings.alt_svc;
        // RFC 7838 §2.1: only the advertisements of an authenticated origin count.
        if mode == AltSvcMode::Ignore || !origin.secure {
            return;
        }
        let Some(mut value) = field(headers).and_then(|text| alt_svc::parse(&text).ok()) else {
            return;
        };
        if mode == AltSvcMode::Race
            && !keep_alternatives_that_browsers_accept(origin.port, &mut value)
        {
            return;
        }
        let name = origin.to_string();
        let now = SystemTime::now();
        (self.client.cache.lock()).store(now, &name, &origin.host, &value);
        if mode == AltSvcMode::Follow
            && more_follow
            && let Some(authority) = self.alternative(origin)
        {
            self.pool(&Destination::Quic(origin.clone(), authority))
                .preconnect();
        }
    }

    fn pool(&self, destination: &Destination) -> Arc<Pool> {
        let mut pools = self.pools.lock();
        let new = || Arc::new(Pool::new(self.client.clone(), destination.clone()));
        pools.entry(destination.clone()).or_insert_with(new).clone()
    }

    /// Returns every connection that was opened, in the order of opening.
    pub(super) fn connections(&self) -> Vec<Arc<Connection>> {
        let pools = self.pools.lock();
        let mut all: Vec<_> = pools.values().flat_map(|pool| pool.opened()).collect();
        all.sort_by_key(|connection| connection.id);
        all
    }

    /// Closes all connections. [`Client::closed`] waits for the end.
    pub(super) fn close(&self) {
        for connection in self.connections() {
            if let Some(endpoint) = connection.close() {
                self.client.drain(endpoint);
            }
        }
    }
}

/// Races as browsers do: requests use TCP while HTTP/3 is being connected. If neither is connected
/// yet, HTTP/3 has a head start.
async fn race(quic: &Arc<Pool>, tcp: &Arc<Pool>) -> Result<Checkout, FetchError> {
    if quic.is_up() {
        return quic.checkout().await;
    }
    quic.preconnect();
    if tcp.is_up() {
        return tcp.checkout().await;
    }
    let later = async {
        sleep(TCP_DELAY).await;
        tcp.checkout().await
    };
    let mut later = pin!(later);
    tokio::select! {
        Ok(checkout) = quic.checkout() => Ok(checkout),
        result = &mut later => result,
    }
}

impl Fetched {
    fn new() -> Self {
        Self {
            timeline: Timeline::new(Instant::now()),
            connection: None,
            status: None,
            headers: HeaderMap::new(),
            body: 0,
            retry: None,
            path: None,
            error: None,
        }
    }

    /// Whether the request succeeded.
    pub(super) fn succeeded(&self) -> bool {
        self.error.is_none()
    }

    pub(super) fn alt_svc(&self) -> Option<String> {
        field(&self.headers)
    }
}
