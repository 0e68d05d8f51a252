//! Emulated links between network namespaces, with no kernel module.
//!
//! A [`Topology`] is a client and a server namespace, each with one TUN interface. A thread, the
//! pump, carries packets between the two through a pair of [`hikyaku_netsim::Link`]s. Programs run
//! inside the namespaces on the kernel's own stack and sockets. So measurements are of the code
//! that ships.
//!
//! Segmentation and checksum offload stay on, as on real interfaces. The pump reads super-packets
//! of up to 64 KiB, and queue, rate and loss act on each of their segments. Neighbouring segments
//! that are due together leave as one super-packet again.
//!
//! Needs root (`CAP_NET_ADMIN`, `CAP_SYS_ADMIN`), `/dev/net/tun` and iproute2.

mod awake;
mod congestion;
mod emulated;
mod error;
mod ip;
mod lateness;
pub(crate) mod leftovers;
mod lock;
mod netem;
mod netns;
pub(crate) mod owner;
mod packet_log;
pub mod privileges;
pub(crate) mod processes;
mod pump;
mod report;
pub mod scratch;
mod steal;
mod super_packet;
mod sys;
mod topology;
mod traces;
mod tun;

pub use awake::KeepAwake;
pub use emulated::EmulatedLink;
pub use error::LinkError;
pub use lateness::Lateness;
pub use netem::Backend;
pub use netns::Netns;
pub use pump::{ChangePair, LinkPair, LinkSet};
pub use report::{DirectionState, Report, Sample};
pub use sys::become_realtime;
pub use topology::{CLIENT_V4, CLIENT_V6, INTERFACE, SERVER_V4, SERVER_V6, Topology};
pub use traces::{TraceFileError, read_traces};
