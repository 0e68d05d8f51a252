//! A client's side of a connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use hikyaku_h3::connection::{Config, Connection};
use hikyaku_h3::error::Code;
use hikyaku_h3::message::RequestHead;
use http::response;

use crate::driver::Unidirectional;
use crate::error::StreamError;
use crate::receiving::Receiving;
use crate::sending::Sending;
use crate::shared::{Exchange, Shared, number};

/// Sends requests on a connection.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

/// Moves the bytes of a client's connection until it ends, and resolves to the reason.
pub struct Driver(Unidirectional);

impl Client {
    /// Begins HTTP/3 on `quic`. The [`Driver`] has to be polled for as long as the client is used.
    pub fn new(quic: hikyaku_quic::Connection, config: Config) -> (Self, Driver) {
        let shared = Shared::new(quic, Connection::client(config), 0);
        let driver = Driver(Unidirectional::new(Arc::clone(&shared)));
        (Self(shared), driver)
    }

    /// Whether the server takes no more requests on the connection (RFC 9114 §5.2).
    pub fn is_going_away(&self) -> bool {
        self.0.going_away.load(Ordering::Relaxed)
    }

    /// Opens a stream for a request. Its head leaves with the first content, or at the end.
    ///
    /// # Errors
    /// [`StreamError::GoingAway`], [`StreamError::Unsent`], and the end of the connection.
    pub async fn request(
        &self,
        head: &RequestHead,
    ) -> Result<(Sending<RequestHead>, Receiving<response::Parts>), StreamError> {
        let shared = &self.0;
        let (send, recv) = shared.quic.open_bi().await?;
        let id = number(send.id());
        let opened = shared.http().open(id, &head.parts.method);
        let (writer, reader) = opened.map_err(|_| StreamError::GoingAway)?;
        let exchange = Exchange::new(Arc::clone(shared), id);
        let (shared, stop) = (Arc::clone(shared), Code::RequestCancelled);
        let mut sending = Sending::new(Arc::clone(&shared), Arc::clone(&exchange), send, writer);
        sending.head(head)?;
        let receiving = Receiving::new(shared, exchange, recv, reader, stop);
        Ok((sending, receiving))
    }
}

impl Future for Driver {
    type Output = StreamError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<StreamError> {
        self.0.poll(cx)
    }
}
