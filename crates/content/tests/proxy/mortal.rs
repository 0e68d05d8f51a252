//! Servers that are killed, and come back.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::support::{ServerBody, full};

/// A server of HTTP/1.1 that names itself in `x-from`.
pub(crate) struct Mortal {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Mortal {
    pub(crate) async fn start() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub(crate) async fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                let service = service_fn(move |request| answer(request, address, Arc::clone(&log)));
                let serving = hyper::server::conn::http1::Builder::new();
                let serving = serving.serve_connection(TokioIo::new(stream), service);
                connections.spawn(async { drop(serving.await) });
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The methods and paths of its requests.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Ends it with its connections, whatever is under way.
    pub(crate) async fn kill(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

async fn answer(
    request: Request<Incoming>,
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
) -> Result<Response<ServerBody>, Infallible> {
    let line = format!("{} {}", request.method(), request.uri().path());
    seen.lock().unwrap().push(line);
    // So that some are under way at any time.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let response = Response::builder().header("x-from", address.to_string());
    Ok(response.body(full("x")).unwrap())
}

/// The address of a server that is not there.
pub(crate) async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}
