//! The admin address: binding it, and its connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
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

use super::Admin;
use crate::accept::AcceptFailures;
use crate::clock;
use crate::listen::{bind_each, is_absent};
use crate::sections::{AdminConfig, ListenAddress};
use crate::seldom::Seldom;

/// For a request's headers to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
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
pub(crate) fn bind(config: &AdminConfig) -> Result<Vec<TcpListener>, AdminError> {
    let Some(address) = &config.listen.0 else {
        return Ok(Vec::new());
    };
    let bind = |address: SocketAddr| {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    bind_each(address, bind, is_absent, |error| error).map_err(|source| AdminError {
        address: address.clone(),
        source,
    })
}

/// Serves until `end`.
pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>, end: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let (failures, full) = (AcceptFailures::of("admin"), Seldom::default());
    while let Some(accepted) = end.run_until_cancelled(listener.accept()).await {
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
        let connection = connection(stream, Arc::clone(&admin));
        let end = end.clone();
        tokio::spawn(async move {
            end.run_until_cancelled(connection).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, admin: Arc<Admin>) {
    // Also where the client's window is closed (tcp(7)), so that who takes nothing goes.
    let send = admin.settings.load().send_timeout;
    if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(Some(send)) {
        tracing::debug!("bounding an admin connection: {error}");
    }
    talk(stream, admin).await;
}

/// Answers the requests of a client.
pub(super) async fn talk<T>(stream: T, admin: Arc<Admin>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, Infallible>(super::respond(request, &admin).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("admin connection: {error}");
    }
}
