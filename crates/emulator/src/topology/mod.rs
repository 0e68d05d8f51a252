//! Networks of namespaces, described in TOML.
//!
//! A [`TopologySpec`] is read from a file or is one of the [shipped](SHIPPED) ones. A [`Network`]
//! is built from it: nodes, which are network namespaces, joined by emulated links, by wires and by
//! LANs. `docs/topologies.md` explains every key.

mod check;
mod error;
mod load;
mod network;
mod node;
mod spec;

pub use error::{SpecError, SpecProblem};
pub use load::{SHIPPED, ShippedTopology};
pub use network::Network;
pub use spec::{
    Changes, EndSpec, InterfaceAddress, LanSpec, LinkSpec, NodeSpec, Sysctl, TopologySpec, WireSpec,
};
