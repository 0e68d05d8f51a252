//! Interim responses (1xx, RFC 9110 §15.2), which come before a request's response.

use http::{Response, StatusCode};
use tokio::sync::mpsc;

/// Passes interim responses to the client of one request.
///
/// The extensions of each request have one if the client can receive interim responses.
#[derive(Clone, Debug)]
pub struct Interim(mpsc::Sender<Response<()>>);

impl Interim {
    /// Makes the sending end, and the receiving end for the connection.
    pub fn channel() -> (Self, mpsc::Receiver<Response<()>>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self(sender), receiver)
    }

    /// Passes an interim response on, unless too many are waiting. RFC 9110 permits to leave all of
    /// them out.
    pub fn send(&self, head: Response<()>) {
        let _ = self.0.try_send(head);
    }

    /// Has the client send the content that it holds back (RFC 9110 §15.2.1).
    pub(super) fn send_continue(&self) {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::CONTINUE;
        self.send(head);
    }
}

const MAX_WAITING: usize = 8;
