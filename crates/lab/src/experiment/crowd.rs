//! The members of a crowd.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::axis::{Axis, Cell};
use super::error::{Fault, fault};
use super::link;
use super::record::Links;
use super::spec::{Arm, Client, ClientKind, Http, Kind, Spec};

/// Largest number of clients of a crowd: each has a network of [`Member::address`].
pub(super) const MAX_CLIENTS: u16 = 10_000;

/// One client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// Name of its kind, with a number from 1 if the kind has several clients.
    pub(crate) name: String,
    pub(crate) http: Http,
    pub(crate) address: Ipv4Addr,
    pub(crate) links: Links,
    /// Time at which the client begins.
    pub(crate) start: Duration,
}

impl Spec {
    /// Returns the kinds of clients by their names, such as `dsl-h2`, in the file's order.
    pub(crate) fn client_kinds(&self) -> Vec<(String, Http, &ClientKind)> {
        let mut kinds = Vec::new();
        for kind in &self.workload.clients {
            let named = |http: &Http| (format!("{}-{}", kind.name, suffix(*http)), *http, kind);
            kinds.extend(kind.http.iter().map(named));
        }
        kinds
    }

    /// Returns the clients of a session. They are all clients of a cell, whose kinds take turns. An
    /// arm with `alone` has one client of the session's kind, in each repeat another of the
    /// crowd's. The address matters, since the server chooses experiment sessions and the hold-back
    /// group by it.
    ///
    /// # Errors
    /// Never for a spec from [`Self::parse`]; otherwise those of its checks.
    pub(crate) fn crowd(
        &self,
        cell: &Cell,
        arm: &Arm,
        repeat: u32,
        session: u32,
    ) -> Result<Vec<Member>, String> {
        let kinds = self.client_kinds();
        let count = cell.get(Axis::Clients).and_then(|text| text.parse().ok());
        let count: usize = count.unwrap_or(1);
        let member = |place: usize| {
            let (name, http, kind) = &kinds[place % kinds.len()];
            Ok(Member {
                name: format!("{name}-{}", place / kinds.len() + 1),
                http: *http,
                address: address(place),
                links: self.client_links(cell, kind)?,
                start: self.workload.stagger * place as u32 / count as u32,
            })
        };
        if !arm.alone {
            return (0..count).map(member).collect();
        }
        let kind = session as usize % kinds.len();
        let of_kind = (kind..count).step_by(kinds.len()).len().max(1);
        let alone = member(kind + repeat as usize % of_kind * kinds.len())?;
        Ok(vec![Member {
            name: kinds[kind].0.clone(),
            start: Duration::ZERO,
            ..alone
        }])
    }

    fn client_links(&self, cell: &Cell, kind: &ClientKind) -> Result<Links, String> {
        let mut link = self.link_keys(cell);
        link.extend(kind.link.clone());
        link::resolve(&link, cell)
    }

    /// Checks the keys of a crowd, and that no other workload has them.
    pub(super) fn check_crowd(&self) -> Result<(), Fault> {
        let workload = &self.workload;
        let swept = self.axes.contains_key(&Axis::Clients);
        if workload.kind != Kind::Crowd {
            return match () {
                () if swept => Err(fault("axes.clients", "is for `kind = \"crowd\"`")),
                () if !workload.clients.is_empty() => {
                    Err(fault("workload.client", "is for `kind = \"crowd\"`"))
                }
                () if workload.visits => Err(fault("workload.visits", "is for `kind = \"crowd\"`")),
                () => Ok(()),
            };
        }
        if !swept {
            let why = "a crowd needs it: how many clients, such as `clients = [\"500\"]`";
            return Err(fault("axes.clients", why));
        }
        if workload.page || workload.series || !workload.change.is_empty() {
            let why = "a crowd has no `page`, `series` or `change`";
            return Err(fault("workload", why));
        }
        if !workload.visits && !workload.pause.is_zero() {
            let why = "a crowd pauses between visits: it needs `visits = true`";
            return Err(fault("workload.pause", why));
        }
        let duration = workload.duration.unwrap_or_default();
        if workload.stagger > duration / 4 {
            let why = "must be at most a quarter of `duration`: else not all clients are there while one is measured";
            return Err(fault("workload.stagger", why));
        }
        self.check_client_kinds()
    }

    fn check_client_kinds(&self) -> Result<(), Fault> {
        let kinds = self.client_kinds();
        let names: BTreeSet<&String> = kinds.iter().map(|(name, ..)| name).collect();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if kinds.is_empty()
            || self
                .workload
                .clients
                .iter()
                .any(|kind| kind.http.is_empty())
        {
            let why = "a crowd needs kinds of clients, each with a list of versions in `http`";
            return Err(fault("workload.client", why));
        }
        if names.len() < kinds.len() || !names.iter().all(|name| name.chars().all(plain)) {
            let why = "names are of lower-case letters, digits and `-`, each once";
            return Err(fault("workload.client", why));
        }
        // All cells share the kinds' keys; values of axes have been checked.
        let first = self
            .axes
            .iter()
            .map(|(axis, values)| (*axis, values[0].clone()));
        let first = Cell(first.collect());
        for kind in &self.workload.clients {
            self.client_links(&first, kind)
                .map_err(|why| fault(format!("workload.client `{}`", kind.name), why))?;
        }
        Ok(())
    }

    /// Checks an arm of a crowd.
    pub(super) fn check_crowd_arm(&self, arm: &Arm) -> Result<(), String> {
        if self.workload.kind != Kind::Crowd {
            return match arm.alone {
                true => Err("`alone` is for `kind = \"crowd\"`".to_owned()),
                false => Ok(()),
            };
        }
        let Arm {
            http,
            connections,
            client,
            sessions,
            warmup,
            ..
        } = arm;
        let is_server_alone = *http == Http::Auto
            && *client == Client::Get
            && connections
                .or(sessions.map(|_| 1))
                .or(warmup.map(|_| 1))
                .is_none()
            && arm.shards == 0;
        if !is_server_alone {
            return Err("of a crowd an arm gives the server alone: `server`, `set`, and `alone`; its clients are in `workload.client`".to_owned());
        }
        Ok(())
    }
}

/// Returns an address in a network of its own (/24) for each client. The server takes neighbours
/// for clients on the same client path, which these are not.
fn address(place: usize) -> Ipv4Addr {
    // Crowds have at most [`MAX_CLIENTS`] clients.
    let [high, low] = (place as u16).to_be_bytes();
    Ipv4Addr::new(10, 128 + high, low, 1)
}

/// The network of all addresses by [`address`], for the server's route.
pub(crate) const ADDRESSES: &str = "10.128.0.0/9";

fn suffix(http: Http) -> &'static str {
    match http {
        Http::Http1 => "h1",
        Http::Http2 => "h2",
        Http::Http3 => "h3",
        Http::Auto => "auto",
    }
}

#[cfg(test)]
mod tests;
