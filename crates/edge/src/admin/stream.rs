//! The stream of events (WHATWG HTML §9.2, server-sent events).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::broadcast::error::RecvError;

use crate::events::Event;
use crate::shared::Shared;

/// Between comments that keep the stream alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type NextEvent = Pin<Box<dyn Future<Output = (Bytes, EventSource)> + Send>>;
type EventSource = Option<tokio::sync::broadcast::Receiver<Event>>;

/// Server-sent events (WHATWG HTML §9.2).
pub(super) struct EventStream {
    next: Option<NextEvent>,
}

impl EventStream {
    pub(super) fn new(shared: &Shared) -> Self {
        Self {
            next: Some(Box::pin(next_event(shared.events.watch()))),
        }
    }
}

async fn next_event(mut source: tokio::sync::broadcast::Receiver<Event>) -> (Bytes, EventSource) {
    let text = match tokio::time::timeout(KEEP_ALIVE, source.recv()).await {
        Err(_) => ": nothing new\n\n".to_owned(),
        Ok(Ok(event)) => format!("event: {}\ndata: {}\n\n", event.name, event.data),
        Ok(Err(RecvError::Lagged(missed))) => {
            format!("event: missed\ndata: {{\"events\":{missed}}}\n\n")
        }
        Ok(Err(RecvError::Closed)) => return (Bytes::new(), None),
    };
    (text.into(), Some(source))
}

impl http_body::Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(next) = &mut self.next else {
            return Poll::Ready(None);
        };
        let (text, source) = std::task::ready!(next.as_mut().poll(cx));
        self.next = source.map(|source| Box::pin(next_event(source)) as NextEvent);
        Poll::Ready((!text.is_empty()).then(|| Ok(Frame::data(text))))
    }
}
