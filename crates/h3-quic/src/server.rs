//! A server's side of a connection.

use std::sync::Arc;
use std::task::{Context, Poll};

use hikyaku_h3::connection::{Config, Connection, Shutdown};
use hikyaku_h3::error::Code;
use hikyaku_h3::message::RequestHead;
use hikyaku_quic::{RecvStream, SendStream};
use http::response;

use crate::driver::Unidirectional;
use crate::error::StreamError;
use crate::receiving::Receiving;
use crate::sending::Sending;
use crate::shared::{Exchange, Shared, number, varint};

/// A server's side of a connection.
pub struct Server {
    shared: Arc<Shared>,
    unidirectional: Unidirectional,
    /// The control streams' bytes have been moved since the last pause.
    has_moved: bool,
}

/// A request that begins to arrive, with its response.
pub struct Request {
    /// The request.
    pub receiving: Receiving<RequestHead>,
    /// The response.
    pub sending: Sending<response::Parts>,
}

impl Server {
    /// Begins HTTP/3 on `quic`, which holds `max_backlog` bytes of responses at most.
    pub fn new(quic: hikyaku_quic::Connection, config: Config, max_backlog: u64) -> Self {
        let shared = Shared::new(quic, Connection::server(config), max_backlog);
        Self {
            unidirectional: Unidirectional::new(Arc::clone(&shared)),
            shared,
            has_moved: false,
        }
    }

    /// Accepts the next request, and moves the bytes of control streams. It has to be polled for as
    /// long as requests are answered.
    ///
    /// # Errors
    /// The error that ended the connection, which is closed.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Request, StreamError>> {
        loop {
            // Once for all requests that have arrived: they need the QPACK encoder's stream.
            if !self.has_moved
                && let Poll::Ready(error) = self.unidirectional.poll(cx)
            {
                return Poll::Ready(Err(error));
            }
            self.has_moved = true;
            match self.shared.quic.poll_accept_bi(cx) {
                Poll::Ready(Ok((send, recv))) => {
                    if let Some(request) = self.accept(send, recv)? {
                        return Poll::Ready(Ok(request));
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => break,
            }
        }
        self.has_moved = false;
        // Instructions of the answers leave with them.
        if self.shared.http().has_output()
            && let Poll::Ready(error) = self.unidirectional.poll(cx)
        {
            return Poll::Ready(Err(error));
        }
        Poll::Pending
    }

    /// Announces that the server stops (RFC 9114 §5.2).
    pub fn shutdown(&mut self, step: Shutdown) {
        self.shared.http().shutdown(step);
    }

    fn accept(
        &self,
        mut send: SendStream,
        mut recv: RecvStream,
    ) -> Result<Option<Request>, StreamError> {
        let id = number(send.id());
        let accepted = self.shared.http().accept(id);
        let Some((reader, writer)) = self.shared.check(accepted)? else {
            let code = varint(Code::RequestRejected.value());
            // These fail only if the stream is closed already.
            let _ = send.reset(code);
            let _ = recv.stop(code);
            return Ok(None);
        };
        let exchange = Exchange::new(Arc::clone(&self.shared), id);
        let (shared, stop) = (Arc::clone(&self.shared), Code::NoError);
        Ok(Some(Request {
            sending: Sending::new(Arc::clone(&shared), Arc::clone(&exchange), send, writer),
            receiving: Receiving::new(shared, exchange, recv, reader, stop),
        }))
    }
}
