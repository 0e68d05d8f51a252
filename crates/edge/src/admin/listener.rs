//! The admin address: binding it, and its connections.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Admin, series};
use crate::accept::AcceptFailures;
use crate::clock;
use crate::handover::{Pool, Role};
use crate::listen::PlainListener;
use crate::sections::{AdminConfig, ListenAddress};
use crate::seldom::Seldom;

/// For a request's headers to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// For the last answer to be written: streams of events have no end.
const LAST_ANSWER: Duration = Duration::from_millis(200);
/// Connections at once: descriptors and memory belong to the clients that are served.
const MAX_CONNECTIONS: usize = 256;

/// Why the admin address can't be served.
#[derive(Debug, thiserror::Error)]
#[error("listening on the admin address {address}")]
pub struct AdminError {
    address: ListenAddress,
    #[source]
    source: io::Error,
}

/// Binds the admin address, if there is one; of a name all of its addresses.
///
/// # Errors
/// When it can't be bound.
pub(crate) fn bind(config: &AdminConfig, pool: &Pool) -> Result<Vec<PlainListener>, AdminError> {
    let Some(address) = &config.listen.0 else {
        return Ok(Vec::new());
    };
    PlainListener::bind(address, Role::Admin, pool).map_err(|source| AdminError {
        address: address.clone(),
        source,
    })
}

/// When serving ends.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// No more connections are accepted.
    pub(crate) closing: CancellationToken,
    /// Those that are open end.
    pub(crate) end: CancellationToken,
}

/// Accepts connections until it is closed. They are `tasks`.
pub(crate) async fn serve(
    listener: TcpListener,
    admin: Arc<Admin>,
    times: Times,
    tasks: TaskTracker,
) {
    let Times { closing, end } = times;
    tasks.spawn(series::keep(Arc::clone(&admin), closing.clone()));
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let (failures, full) = (AcceptFailures::of("admin"), Seldom::default());
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                failures.pause(&error, &admin.shared.metrics).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            if full.is_due(clock::now()) {
                tracing::warn!("admin connections beyond {MAX_CONNECTIONS} are closed");
            }
            continue;
        };
        let connection = connection(stream, Arc::clone(&admin), end.clone());
        tasks.spawn(async move {
            connection.await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, admin: Arc<Admin>, end: CancellationToken) {
    // Also where the client's window is closed (tcp(7)), so that who takes nothing goes.
    let send = admin.settings.load().send_timeout;
    if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(Some(send)) {
        tracing::debug!("bounding an admin connection: {error}");
    }
    talk(stream, admin, end).await;
}

/// Answers the requests of a client. At the `end` an answer that is due is still written.
pub(super) async fn talk<T>(stream: T, admin: Arc<Admin>, end: CancellationToken)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, Infallible>(super::respond(request, &admin).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let served = match end.run_until_cancelled(connection.as_mut()).await {
        Some(served) => served,
        None => {
            connection.as_mut().graceful_shutdown();
            let last = tokio::time::timeout(LAST_ANSWER, connection).await;
            last.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = served {
        tracing::debug!("admin connection: {error}");
    }
}
