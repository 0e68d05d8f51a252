//! `h3` over quinn, until the drivers of the engine replace it.
//!
//! Three things set it apart from the published adaptor: response bodies given as
//! [`Payload`] reach quinn's send buffer without a copy, a stream that is stopped or
//! dropped in any state is reset and never panics, and the length that a peer
//! announces for a frame is bounded before `h3` buffers it (`FrameGuard`).

mod connection;
mod error;
mod guard;
mod payload;
mod stream;

pub use connection::{Connection, OpenStreams};
pub use guard::{FrameGuard, FrameTooLarge};
pub use payload::Payload;
pub use stream::{BidiStream, FinishObserver, RecvStream, SendStream};
