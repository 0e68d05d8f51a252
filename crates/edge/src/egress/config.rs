//! Settings of egress routes and of content classes.

use std::path::PathBuf;

use hikyaku_core::egress::{Criterion, Scheduling};
use serde::Deserialize;

/// Where the agent of the egress routes is, and how its egress routes are taken (`[egress]`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressConfig {
    /// `api.socket` of `hikyaku-egress server` on this host. Default: none, every connection takes the
    /// way that BGP chose.
    pub socket: Option<PathBuf>,
    /// How connections are brought onto an egress route. Default `auto`.
    pub steer: Steer,
    /// Of which clients MPTCP is taken. Default `all`.
    pub mptcp: MptcpFor,
}

/// Of which clients MPTCP is taken, where there are egress routes and `policy.route` is `adaptive`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MptcpFor {
    /// Of those that get several egress routes, and of the others in the sessions that explore several. Needs
    /// CAP_BPF and CAP_PERFMON. Clients of some Linux kernels lose data after their MPTCP has fallen back to
    /// TCP (docs/steering.md).
    Adaptive,
    /// Of all.
    #[default]
    All,
}

/// How connections are brought onto an egress route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Steer {
    /// By marks where the process may set them, else by addresses.
    #[default]
    Auto,
    /// By `SO_MARK` on their packets, also while they live. Needs CAP_NET_ADMIN.
    Mark,
    /// New HTTP/3 connections alone: `Alt-Svc` names the egress route's EPE address.
    Address,
}

/// A class of content, and what it wants of its egress route (`[[class]]`).
///
/// Content is of the first class that has its path or its media type; a class without either has all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// The name, by which the agents' policies know it, too: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Globs: one without a slash is matched against the file's name, else against the whole path; case
    /// does not matter. Default `[]`.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Media types, such as `text/html` or `video/*`. Default `[]`.
    #[serde(default)]
    pub types: Vec<String>,
    /// `goodput` (bulk), `stall` (live) or `rtt` (interactive). Default `goodput`.
    #[serde(default)]
    pub wants: Criterion,
    /// Which subflows of an MPTCP connection over several paths carry its data: `capacity` (all) or
    /// `lowest_rtt`. Default: that of `wants`, which is `lowest_rtt` for `rtt` alone.
    #[serde(default)]
    pub scheduling: Option<Scheduling>,
}

impl ClassConfig {
    /// The classes where none are configured.
    pub(crate) fn defaults() -> Vec<Self> {
        let class = |name: &str, paths: &[&str], types: &[&str], wants| Self {
            name: name.to_owned(),
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            types: types.iter().map(|&kind| kind.to_owned()).collect(),
            wants,
            scheduling: None,
        };
        vec![
            class(
                "live",
                &["*.m3u8", "*.mpd", "*.m4s", "*.ts"],
                &[
                    "video/*",
                    "audio/*",
                    "application/vnd.apple.mpegurl",
                    "application/dash+xml",
                ],
                Criterion::Stall,
            ),
            class(
                "interactive",
                &[],
                &[
                    "text/html",
                    "text/css",
                    "text/javascript",
                    "application/javascript",
                    "application/json",
                    "text/event-stream",
                ],
                Criterion::Rtt,
            ),
            class("bulk", &[], &[], Criterion::Goodput),
        ]
    }
}
