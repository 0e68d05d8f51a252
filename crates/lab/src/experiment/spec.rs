//! The experiment's file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hikyaku_units::{ByteSize, duration};
use serde::{Deserialize, Serialize};

use super::axis::Axis;
use super::quick::Quick;

mod control;
mod fleet;
mod paths;

pub use control::{Control, Measure, Routers};
pub use fleet::{Edge, Fault, Fleet, Stores};
pub(crate) use paths::PAUSE;
pub use paths::{Borders, Event, Pattern, Then, Traffic, Training, Visitors};

/// One experiment: `experiments/NAME.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Title, in one line.
    pub title: String,
    /// Question that the experiment answers.
    pub question: String,
    /// The part of a paper that it repeats, such as `VERSION §4.2, table 2`.
    pub paper: Option<String>,
    /// Backend on which it runs.
    pub backend: Backend,
    /// Number of repeats of each cell with each arm.
    pub repeats: u32,
    /// Seed of all random streams, unless `--seed` gives another.
    #[serde(default = "one")]
    pub seed: u64,
    /// A session that takes longer is given up and counts as timed out.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Whether the later repeats of a cell and arm are skipped once a session timed out.
    #[serde(default)]
    pub stop_after_timeout: bool,
    /// Link of every cell: the keys of a [`LinkConfig`](hikyaku_netsim::LinkConfig), with `up` and
    /// `down` for keys that differ by direction.
    #[serde(default)]
    pub link: toml::Table,
    /// Links by the names on the axis `network`: keys in place of those of [`Self::link`].
    #[serde(default, rename = "network")]
    pub networks: BTreeMap<String, toml::Table>,
    /// Axes of the sweep: every cell has one value of each.
    #[serde(default)]
    pub axes: BTreeMap<Axis, Vec<String>>,
    /// Number of cells to measure, a random choice by the seed. Default all.
    pub cells: Option<usize>,
    /// Of [`Kind::Paths`]: links by the names on the axis `pattern`.
    #[serde(default, rename = "pattern")]
    pub patterns: BTreeMap<String, Pattern>,
    /// Cells and arms that are left out.
    #[serde(default)]
    pub skip: Vec<Skip>,
    /// Other repeats or time limits for some cells; the last match applies.
    #[serde(default)]
    pub adjust: Vec<Adjust>,
    /// Content that clients request.
    pub workload: Workload,
    /// Arms to compare.
    #[serde(rename = "arm")]
    pub arms: Vec<Arm>,
    /// Figures of the report, in this order.
    #[serde(default, rename = "figure")]
    pub figures: Vec<toml::Table>,
    /// Reductions by `--quick`.
    pub quick: Option<Quick>,
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

/// The backend of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Real programs in namespaces joined by emulated links (`lab run`, root).
    Link,
    /// Virtual time (`lab sim`).
    Simulation,
}

/// Cells, or arms in cells, that are not measured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// Values of the cells; all cells if empty.
    #[serde(default, rename = "where")]
    pub cells: Filter,
    /// Arms; all if empty.
    #[serde(default)]
    pub arms: Vec<String>,
    /// Reason for leaving them out.
    pub reason: String,
}

/// Other repeats or time limits for some cells.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adjust {
    /// Values of the cells; all cells if empty.
    #[serde(default, rename = "where")]
    pub cells: Filter,
    /// Arms; all if empty.
    #[serde(default)]
    pub arms: Vec<String>,
    /// Replaces [`Spec::repeats`].
    pub repeats: Option<u32>,
    /// Replaces [`Spec::timeout`].
    #[serde(default, with = "duration::option")]
    pub timeout: Option<Duration>,
}

/// Values that a cell must have: one of the listed values for each named axis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Filter(pub BTreeMap<Axis, OneOrMany>);

/// One value or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One value.
    One(String),
    /// Several values.
    Many(Vec<String>),
}

/// The content that the clients of every cell request.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Sessions of one client, concurrent flows, or many clients.
    #[serde(default)]
    pub kind: Kind,
    /// Files that a session fetches, in this order. [`Kind::Flows`] needs none; a client of
    /// [`Kind::Crowd`] fetches them over and over.
    #[serde(default)]
    pub files: Vec<File>,
    /// Whether the first file is HTML that names all others, and is fetched as a page.
    #[serde(default)]
    pub page: bool,
    /// Measured sessions of one run, one after another against the same server.
    #[serde(default = "one")]
    pub sessions: u32,
    /// Sessions of the warm-up, before the measured ones.
    #[serde(default)]
    pub warmup: u32,
    /// Whether the client keeps its Alt-Svc cache from one session to the next.
    #[serde(default)]
    pub returning: bool,
    /// Time between two sessions of a run.
    #[serde(default, with = "duration")]
    pub pause: Duration,
    /// Changes of the link between or within sessions, in order.
    #[serde(default)]
    pub change: Vec<Change>,
    /// Whether goodput is recorded over time, each 100 ms.
    #[serde(default)]
    pub series: bool,
    /// Duration of a run. For [`Kind::Flows`] it counts from the start of the first flow, and the
    /// measurement from that of the last. Each client of [`Kind::Crowd`] loads for so long, and its
    /// middle half is measured. For [`Kind::Control`] it is the time of changing routes.
    #[serde(default, with = "duration::option")]
    pub duration: Option<Duration>,
    /// Time between the starts of two flows that have none of their own. For [`Kind::Crowd`] it is
    /// the time within which all clients begin.
    #[serde(default, with = "duration")]
    pub stagger: Duration,
    /// Of [`Kind::Crowd`]: whether a client's loads are visits, each over new connections and
    /// [`Self::pause`] after the one before.
    #[serde(default)]
    pub visits: bool,
    /// Kinds of clients of a [`Kind::Crowd`].
    #[serde(default, rename = "client")]
    pub clients: Vec<ClientKind>,
    /// Measurement of [`Kind::Control`].
    pub control: Option<Control>,
    /// Traffic of a client of [`Kind::Paths`]. The axis `traffic` sweeps the names; without it the
    /// first applies.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    /// Of [`Kind::Paths`]: training by sessions of the warm-up.
    pub training: Option<Training>,
    /// Of [`Kind::Paths`]: the programs that route on the borders.
    #[serde(default)]
    pub borders: Borders,
    /// Of [`Kind::Paths`]: clients that visit over and over.
    pub visitors: Option<Visitors>,
    /// Of [`Kind::Fleet`]: one-way delay of the links to `PoP` 2, beyond that of the links to `PoP` 1.
    #[serde(default, with = "duration")]
    pub extra_delay: Duration,
}

/// The kind of workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Sessions of one client.
    #[default]
    Load,
    /// Long flows that share the bottleneck.
    Flows,
    /// Many clients of one server, each over a link of its own.
    Crowd,
    /// The egress agents among routers, without clients.
    Control,
    /// Sessions of one client that two paths reach: the test bed of the EPE paper (topology `epe`).
    Paths,
    /// Sessions of one client with the edges of a fleet (topology `fleet`).
    Fleet,
}

/// A file of the server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Name of the file, without a slash.
    pub name: String,
    /// Size of the file.
    pub size: ByteSize,
    /// Number of files `NAME-1.EXT`, `NAME-2.EXT`, ... in place of one.
    #[serde(default = "one")]
    pub copies: u32,
}

/// A kind of clients of a [`Kind::Crowd`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientKind {
    /// Name of the kind in metrics, with the version behind it: `dsl-h2`.
    pub name: String,
    /// Values of `get --http`; each makes a kind of its own.
    pub http: Vec<Http>,
    /// Keys of its link, in place of those of [`Spec::link`].
    #[serde(default)]
    pub link: toml::Table,
}

/// A change of the link.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Session before which the link changes, counted from 0 with warm-up included.
    pub session: u32,
    /// Time after the first packet of the session's client, for a change within the session.
    #[serde(default, with = "duration::option")]
    pub at: Option<Duration>,
    /// Keys that change in both directions.
    #[serde(default)]
    pub both: toml::Table,
    /// Keys that change from client to server.
    #[serde(default)]
    pub up: toml::Table,
    /// Keys that change from server to client.
    #[serde(default)]
    pub down: toml::Table,
}

/// An arm of the comparison: a server and a client with their settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Name of the arm in records and figures.
    pub name: String,
    /// The server's program.
    #[serde(default)]
    pub server: Server,
    /// Keys of hikyaku's configuration, as for `--set`.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// A peer's configuration file in place of the lab's. It may have the lab's placeholders.
    pub config: Option<PathBuf>,
    /// Congestion control of a peer's TCP, which is the kernel's.
    pub congestion: Option<String>,
    /// Value of `get --http`.
    #[serde(default)]
    pub http: Http,
    /// Value of `get --alt-svc`.
    #[serde(default)]
    pub alt_svc: AltSvc,
    /// Value of `get --connections`; the client's default if missing.
    pub connections: Option<u16>,
    /// Number of further ports of the server, over which it may spread pages (`shards.hosts`); at
    /// most 7.
    #[serde(default)]
    pub shards: u8,
    /// The client's program.
    #[serde(default)]
    pub client: Client,
    /// Replaces [`Workload::sessions`].
    pub sessions: Option<u32>,
    /// Replaces [`Workload::warmup`].
    pub warmup: Option<u32>,
    /// Replaces [`Workload::returning`].
    pub returning: Option<bool>,
    /// The flows of [`Kind::Flows`].
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// Of [`Kind::Crowd`]: whether one client of each kind is measured alone on a server.
    #[serde(default)]
    pub alone: bool,
    /// Of [`Kind::Control`]: the maker of the routers.
    #[serde(default)]
    pub routers: Routers,
    /// Of [`Kind::Paths`]: whether `get --mptcp` is used.
    #[serde(default)]
    pub mptcp: bool,
    /// Of [`Kind::Fleet`]: what the edges share, and the client's visits.
    pub fleet: Option<Fleet>,
}

/// A server's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Server {
    /// `hikyaku serve`.
    #[default]
    Hikyaku,
    /// nginx.
    Nginx,
    /// Caddy.
    Caddy,
    /// h2o.
    H2o,
    /// `HAProxy`.
    Haproxy,
}

/// The HTTP version that the client requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum Http {
    /// HTTP/1.1.
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2.
    #[serde(rename = "2")]
    Http2,
    /// HTTP/3.
    #[serde(rename = "3")]
    Http3,
    /// The server's offer: ALPN, then Alt-Svc.
    #[default]
    #[serde(rename = "auto")]
    Auto,
}

/// The client's reaction to Alt-Svc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AltSvc {
    /// The client waits for the HTTP/3 connection and goes on there.
    #[default]
    Follow,
    /// The client goes on over TCP until the HTTP/3 connection is open, as browsers do.
    Race,
    /// The client ignores the field.
    Ignore,
}

/// A client's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// `hikyaku get`.
    #[default]
    Get,
    /// Headless Chromium.
    Chromium,
}

/// One of several flows that share the bottleneck.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Name of the flow in metrics and series.
    pub name: String,
    /// Transport of the flow.
    pub transport: Transport,
    /// Congestion control of its sender.
    pub congestion: String,
    /// Floor of its congestion window, as for `policy.min_cwnd`. Default `off`.
    pub min_cwnd: Option<String>,
    /// Packets of its initial window. Default that of its congestion control. In simulation only.
    pub initial_packets: Option<u16>,
    /// Whether an adaptive floor triples its window in slow start. Default true. In simulation only.
    pub rapid_start: Option<bool>,
    /// Bytes of a download, in place of one without end. In simulation only.
    pub size: Option<ByteSize>,
    /// Start of the flow. Default [`Workload::stagger`] after the one before it.
    #[serde(default, with = "duration::option")]
    pub start: Option<Duration>,
    /// Number of flows `NAME-1`, `NAME-2`, ... in place of one.
    #[serde(default = "one")]
    pub count: u32,
}

/// The transport of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// HTTP/2 over TCP.
    Tcp,
    /// HTTP/3 over QUIC.
    Quic,
}

#[cfg(test)]
mod tests;
