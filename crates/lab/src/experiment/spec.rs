//! The experiment's file.

use std::collections::BTreeMap;
use std::time::Duration;

use hikyaku_units::{ByteSize, duration};
use serde::{Deserialize, Serialize};

use super::axis::Axis;
use super::quick::Quick;

mod control;
mod paths;

pub use control::{Control, Measure, Routers};
pub(crate) use paths::PAUSE;
pub use paths::{Event, Pattern, Then, Traffic, Training};

/// One experiment: `experiments/NAME.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What it is, in a line.
    pub title: String,
    /// What it answers.
    pub question: String,
    /// The part of a paper that it repeats, such as `VERSION §4.2, table 2`.
    pub paper: Option<String>,
    /// Where it runs.
    pub backend: Backend,
    /// How often each cell is measured with each arm.
    pub repeats: u32,
    /// Seed of all random streams, unless `--seed` gives another.
    #[serde(default = "one")]
    pub seed: u64,
    /// A session that takes longer is given up and counts as timed out.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Once a session timed out, the later repeats of its cell and arm are not
    /// measured.
    #[serde(default)]
    pub stop_after_timeout: bool,
    /// Link of every cell: the keys of a [`LinkConfig`](hikyaku_netsim::LinkConfig),
    /// with `up` and `down` for what differs by direction.
    #[serde(default)]
    pub link: toml::Table,
    /// What is swept: every cell has one value of each axis.
    #[serde(default)]
    pub axes: BTreeMap<Axis, Vec<String>>,
    /// Measures so many cells only, a random choice that the seed gives.
    pub cells: Option<usize>,
    /// Of [`Kind::Paths`]: links by the names that the axis `pattern` sweeps.
    #[serde(default, rename = "pattern")]
    pub patterns: BTreeMap<String, Pattern>,
    /// What is left out.
    #[serde(default)]
    pub skip: Vec<Skip>,
    /// Other repeats or time limits for some cells; the last that matches holds.
    #[serde(default)]
    pub adjust: Vec<Adjust>,
    /// What clients ask for.
    pub workload: Workload,
    /// What is compared.
    #[serde(rename = "arm")]
    pub arms: Vec<Arm>,
    /// What the report shows, in this order.
    #[serde(default, rename = "figure")]
    pub figures: Vec<toml::Table>,
    /// What `--quick` measures instead.
    pub quick: Option<Quick>,
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

/// Where an experiment runs.
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
    /// Why.
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
    /// Instead of [`Spec::repeats`].
    pub repeats: Option<u32>,
    /// Instead of [`Spec::timeout`].
    #[serde(default, with = "duration::option")]
    pub timeout: Option<Duration>,
}

/// Values that a cell must have: one of those listed for each axis named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Filter(pub BTreeMap<Axis, OneOrMany>);

/// One value or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// What the clients of every cell ask for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Sessions of one client, concurrent flows, or many clients.
    #[serde(default)]
    pub kind: Kind,
    /// What a session fetches, in this order. [`Kind::Flows`] needs none; a client of
    /// [`Kind::Crowd`] fetches them over and over.
    #[serde(default)]
    pub files: Vec<File>,
    /// The first file is HTML that names all others, and is fetched as a page.
    #[serde(default)]
    pub page: bool,
    /// Measured sessions of one run, one after another against the same server.
    #[serde(default = "one")]
    pub sessions: u32,
    /// Sessions before them.
    #[serde(default)]
    pub warmup: u32,
    /// The client keeps what Alt-Svc told it from one session to the next.
    #[serde(default)]
    pub returning: bool,
    /// Time between two sessions of a run.
    #[serde(default, with = "duration")]
    pub pause: Duration,
    /// Changes of the link between or within sessions, in order.
    #[serde(default)]
    pub change: Vec<Change>,
    /// Records goodput over time, each 100 ms.
    #[serde(default)]
    pub series: bool,
    /// How long a run of [`Kind::Flows`] lasts, from the start of its first flow. It is
    /// measured from the start of its last. Of [`Kind::Crowd`]: how long each client loads;
    /// it is measured in the middle half of that. Of [`Kind::Control`]: how long routes change.
    #[serde(default, with = "duration::option")]
    pub duration: Option<Duration>,
    /// Time between the starts of two flows that do not give their own. Of
    /// [`Kind::Crowd`]: within which all clients begin.
    #[serde(default, with = "duration")]
    pub stagger: Duration,
    /// What the clients of [`Kind::Crowd`] are like.
    #[serde(default, rename = "client")]
    pub clients: Vec<ClientKind>,
    /// What [`Kind::Control`] measures.
    pub control: Option<Control>,
    /// What a client of [`Kind::Paths`] loads; the axis `traffic` sweeps the names, without it
    /// the first counts.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    /// Of [`Kind::Paths`]: what sessions of the warm-up do instead.
    pub training: Option<Training>,
}

/// What kind of traffic.
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
    /// Sessions of one client that two paths reach: the test bed of the EPE paper (topology
    /// `epe`).
    Paths,
}

/// A file that the server has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name, without a slash.
    pub name: String,
    /// Its size.
    pub size: ByteSize,
    /// So many files `NAME-1.EXT`, `NAME-2.EXT`, ... instead of one.
    #[serde(default = "one")]
    pub copies: u32,
}

/// What some of the clients of [`Kind::Crowd`] are like.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientKind {
    /// Its name in metrics, with the version behind it: `dsl-h2`.
    pub name: String,
    /// `get --http`; a kind of its own for each.
    pub http: Vec<Http>,
    /// Keys of its link, instead of those of [`Spec::link`].
    #[serde(default)]
    pub link: toml::Table,
}

/// A change of the link.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Before this session, counted from 0 with warm-up included.
    pub session: u32,
    /// Not before it, but so long after its client's first packet.
    #[serde(default, with = "duration::option")]
    pub at: Option<Duration>,
    /// Keys that change in both directions.
    #[serde(default)]
    pub both: toml::Table,
    /// From client to server.
    #[serde(default)]
    pub up: toml::Table,
    /// From server to client.
    #[serde(default)]
    pub down: toml::Table,
}

/// What is compared: a server and a client with their settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name in records and figures.
    pub name: String,
    /// The server's program.
    #[serde(default)]
    pub server: Server,
    /// Keys of hikyaku's configuration, as for `--set`.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// `get --http`.
    #[serde(default)]
    pub http: Http,
    /// `get --alt-svc`.
    #[serde(default)]
    pub alt_svc: AltSvc,
    /// `get --connections`; its default if not given.
    pub connections: Option<u16>,
    /// So many more ports of the server, over which it may spread pages (`shards.hosts`);
    /// at most 7.
    #[serde(default)]
    pub shards: u8,
    /// The client's program.
    #[serde(default)]
    pub client: Client,
    /// Instead of [`Workload::sessions`].
    pub sessions: Option<u32>,
    /// Instead of [`Workload::warmup`].
    pub warmup: Option<u32>,
    /// Instead of [`Workload::returning`].
    pub returning: Option<bool>,
    /// The flows of [`Kind::Flows`].
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// Of [`Kind::Crowd`]: one client of each kind, each alone on a server.
    #[serde(default)]
    pub alone: bool,
    /// Of [`Kind::Control`]: whose routers there are.
    #[serde(default)]
    pub routers: Routers,
    /// `get --mptcp`, of [`Kind::Paths`].
    #[serde(default)]
    pub mptcp: bool,
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

/// The HTTP version that the client asks for.
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
    /// As the server offers: ALPN, then Alt-Svc.
    #[default]
    #[serde(rename = "auto")]
    Auto,
}

/// What the client does with Alt-Svc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AltSvc {
    /// Waits for the HTTP/3 connection and goes on there.
    #[default]
    Follow,
    /// Goes on over TCP until the HTTP/3 connection is there, as browsers.
    Race,
    /// Nothing.
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
    /// Its name in metrics and series.
    pub name: String,
    /// What carries it.
    pub transport: Transport,
    /// Congestion control of its sender.
    pub congestion: String,
    /// Floor of its congestion window, as for `policy.min_cwnd`. Default `off`.
    pub min_cwnd: Option<String>,
    /// When it begins; [`Workload::stagger`] after the one before it by default.
    #[serde(default, with = "duration::option")]
    pub start: Option<Duration>,
    /// So many flows `NAME-1`, `NAME-2`, ... instead of one.
    #[serde(default = "one")]
    pub count: u32,
}

/// What carries a flow.
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
