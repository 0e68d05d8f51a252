//! QUIC's sockets, whose packets can take the path that was chosen for their destination.

mod marks;

pub(crate) use marks::Marks;
