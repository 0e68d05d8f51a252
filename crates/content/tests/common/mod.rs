//! Both kinds of content on a real socket, as the server has it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use hikyaku_content::{Body, Content, Peer, RequestBody, Scheme, omit_content};
use hikyaku_units::arm::Version;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

/// Serves HTTP/1.1 and 2 on loopback until the test's runtime ends.
pub(crate) async fn listen(content: &Arc<Content>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let content = Arc::clone(content);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let content = Arc::clone(&content);
            let service = service_fn(move |request: Request<Incoming>| {
                let content = Arc::clone(&content);
                async move {
                    let version = match request.version() {
                        http::Version::HTTP_2 => Version::H2,
                        _ => Version::H1,
                    };
                    let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
                    Ok::<_, Infallible>(respond(&content, request, version).await)
                }
            });
            tokio::spawn(async move {
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder
                    .serve_connection_with_upgrades(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

/// Responds as the server does: content that must not be sent is left out.
pub(crate) async fn respond(
    content: &Content,
    request: Request<RequestBody>,
    version: Version,
) -> Response<Body> {
    respond_to(content, request, &peer(version)).await
}

/// Responds to the client of a connection.
pub(crate) async fn respond_to(
    content: &Content,
    request: Request<RequestBody>,
    peer: &Peer,
) -> Response<Body> {
    let method = request.method().clone();
    let mut response = content.respond(request, peer).await;
    omit_content(&method, &mut response);
    response
}

/// The connection of all requests.
pub(crate) fn peer(version: Version) -> Peer {
    Peer {
        remote: SocketAddr::from(([192, 0, 2, 1], 1234)),
        local: SocketAddr::from(([192, 0, 2, 2], 443)),
        version,
        tls: None,
        server_name: Some("site.example".into()),
        scheme: Scheme::Https,
        via: None,
    }
}

pub(crate) fn no_body() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}
