//! HTTP/3 for hikyaku's server and client: an adaptor of the `h3` crate to quinn, and parts of an
//! engine without I/O that is to replace it.

mod adaptor;
pub mod qpack;

pub use adaptor::{BidiStream, Connection, FinishObserver, FrameGuard, FrameTooLarge};
pub use adaptor::{OpenStreams, Payload, RecvStream, SendStream};
