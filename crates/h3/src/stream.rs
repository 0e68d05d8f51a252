//! Request streams (RFC 9114 §4.1), as far as they do not need the rest of the connection.

mod reader;
mod writer;

pub use reader::{Read, Reader};
pub use writer::{Unsent, Writer};
