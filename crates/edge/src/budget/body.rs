//! Response bodies that count what they hand on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hikyaku_h2::priority::{Parameters, Priority};
use http::Response;
use http_body::{Frame, SizeHint};

use super::{Account, Place};
use hikyaku_content::{Body, BoxError};

/// Frames below this size are not counted: counting costs an allocation. As many streams as a
/// connection may have by default hold 256 KiB of them.
const UNCOUNTED: usize = 2048;

/// Has the content of `response` count for `account`, and wait for room in it. The more urgent one gets room
/// first, by the `client`'s priority and the response's own (RFC 9218 §8). Content that is in memory in any case,
/// such as a small file, neither counts nor waits.
pub(crate) fn bounded(
    response: Response<Body>,
    account: &Arc<Account>,
    client: Parameters,
) -> Response<Body> {
    let priority = Parameters::of(response.headers()).or(client.or(Priority::default()));
    response.map(|body| match body.own_memory() {
        Some(0..UNCOUNTED) => body,
        _ => Body::boxed(Bounded {
            body,
            account: Arc::clone(account),
            place: Place {
                priority,
                number: None,
            },
        }),
    })
}

struct Bounded {
    body: Body,
    account: Arc<Account>,
    place: Place,
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        ready!(this.account.poll_room(&mut this.place, cx));
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        let frame = frame.map_ok(|frame| {
            frame.map_data(|bytes| match bytes.len() {
                0..UNCOUNTED => bytes,
                _ => this.account.hold(bytes),
            })
        });
        this.account.pass_on();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        self.account.abandon(&mut self.place);
    }
}
