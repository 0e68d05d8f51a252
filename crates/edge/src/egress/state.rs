//! The agent's last report: its egress routes and the operator's policies.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hikyaku_core::egress::{
    Candidates, Criterion, EgressDrain, EgressId, EgressNames, EgressSet, KnownEgresses,
    MAX_EGRESSES, Mode, Mptcp, Port, Room,
};
use hikyaku_units::Timestamp;

use super::net::Net;
use super::wire::{self, EgressState, Elsewhere, Lookup, Path, Policy, Snapshot};
use crate::bpf::Prefix;

/// The agent's last report, and whether it still counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The agent answers, or did a few seconds ago.
    usable: bool,
    names: EgressNames,
    /// By their place in `names`.
    paths: Vec<(EgressId, Path)>,
    policies: Vec<Policy>,
    /// Drains at other edges, by the names of egress routes.
    elsewhere: Arc<BTreeMap<String, Arc<Elsewhere>>>,
}

/// The agent's answer for clients of a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) reach: Reach,
    /// The operator's policies that match, in the order in which they count.
    pub(super) verdicts: Arc<[Verdict]>,
    /// Why the agent does not know which path plain packets take, a clause.
    pub(super) plain_unknown: Option<Arc<str>>,
}

/// A policy that matches clients of a prefix, and what it allows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The parts of the prefix that it holds for; empty: all of it.
    clients: Box<[Net]>,
    /// Classes of content; empty: all.
    classes: Box<[String]>,
    mode: Mode,
    allowed: EgressSet,
    backup: EgressSet,
}

/// Which egress routes reach a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) paths: EgressSet,
    /// The egress route that plain packets take, where it is known and one of the egress routes.
    pub(crate) plain_is: Option<EgressId>,
    /// The client's AS.
    pub(crate) asn: Option<u32>,
}

impl State {
    /// Nothing reported yet, but names known from before.
    pub(super) fn knowing(names: EgressNames) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    /// Whether egress routes may be used.
    pub(crate) const fn is_usable(&self) -> bool {
        self.usable
    }

    /// Its egress routes' names.
    pub(crate) const fn names(&self) -> &EgressNames {
        &self.names
    }

    /// Its egress routes.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (EgressId, &Path)> {
        self.paths.iter().map(|(id, path)| (*id, path))
    }

    /// An egress route; `None` while the agent has none in its place.
    pub(crate) fn path(&self, id: EgressId) -> Option<&Path> {
        let entry = self.paths.iter().find(|(other, _)| *other == id);
        entry.map(|(_, path)| path)
    }

    /// The egress route that packets sent from a local address take.
    pub(crate) fn path_of_address(&self, local: IpAddr) -> Option<EgressId> {
        let local = local.to_canonical();
        let mut paths = self.paths.iter();
        let path = paths.find(|(_, path)| path.addresses.contains(&local));
        path.map(|(id, _)| *id)
    }

    /// Takes all that there is now. Returns the places that went from one egress route to another.
    pub(super) fn replace(&mut self, snapshot: Snapshot) -> EgressSet {
        let present: Vec<&str> = snapshot.paths.iter().map(|path| &*path.name).collect();
        let changed = self.names.update(&present);
        self.usable = true;
        self.paths.clear();
        for path in snapshot.paths {
            self.set_path(path);
        }
        self.set_policies(snapshot.policies);
        changed
    }

    /// Puts an egress route in place of the former one of its name. Returns whether answers to lookups may have
    /// changed, as they leave out egress routes that are down. The set holds the indices that went to another
    /// egress route.
    pub(super) fn put_path(&mut self, path: Path) -> (bool, EgressSet) {
        let former = self.names.id(&path.name).and_then(|id| self.path(id));
        let comes_up = former.is_none_or(|former| former.state == EgressState::Down);
        let mut changed = EgressSet::EMPTY;
        if former.is_none() {
            let mut present: Vec<&str> = self.paths.iter().map(|(_, path)| &*path.name).collect();
            present.push(&path.name);
            changed = self.names.update(&present);
        }
        self.set_path(path);
        (comes_up, changed)
    }

    fn set_path(&mut self, mut path: Path) {
        path.elsewhere = self.elsewhere.get(&path.name).cloned();
        let Some(id) = self.names.id(&path.name) else {
            tracing::warn!(
                "the egress agent has more than {MAX_EGRESSES} paths: `{}` is not used",
                path.name
            );
            return;
        };
        self.paths.retain(|(other, _)| *other != id);
        self.paths.push((id, path));
        self.paths.sort_unstable_by_key(|(id, _)| *id);
    }

    /// Takes egress routes of these names for drained, and no others.
    pub(super) fn set_elsewhere(&mut self, elsewhere: Arc<BTreeMap<String, Arc<Elsewhere>>>) {
        self.elsewhere = elsewhere;
        for (_, path) in &mut self.paths {
            path.elsewhere = self.elsewhere.get(&path.name).cloned();
        }
    }

    /// Drains at other edges, by the names of egress routes.
    pub(super) fn elsewhere(&self) -> &BTreeMap<String, Arc<Elsewhere>> {
        &self.elsewhere
    }

    pub(super) fn set_policies(&mut self, policies: Vec<Policy>) {
        self.policies = policies;
    }

    /// The agent has been away for too long.
    pub(super) const fn set_unusable(&mut self) {
        self.usable = false;
    }

    /// Meaning of an answer to a lookup.
    pub(super) fn answer(&self, lookup: &Lookup) -> Answer {
        let names = lookup.paths.iter().map(|reach| &reach.name);
        let best = lookup.best.as_deref();
        let routes = || lookup.paths.iter();
        let by_best = routes().find(|reach| Some(&*reach.name) == best);
        let route = by_best.or_else(|| routes().next());
        let verdicts = lookup.policies.iter();
        Answer {
            reach: Reach {
                paths: self.named(names),
                plain_is: best.and_then(|name| self.names.id(name)),
                asn: route.and_then(|reach| reach.as_path.last().copied()),
            },
            verdicts: verdicts.map(|verdict| self.verdict(verdict)).collect(),
            plain_unknown: lookup.best_unknown.as_deref().map(Arc::from),
        }
    }

    fn verdict(&self, verdict: &wire::Verdict) -> Verdict {
        Verdict {
            clients: verdict.clients.as_slice().into(),
            classes: verdict.classes.as_slice().into(),
            mode: verdict.mode,
            allowed: match &verdict.paths[..] {
                [] => EgressSet::ALL,
                names => self.named(names),
            },
            backup: self.named(&verdict.backup),
        }
    }

    /// The egress routes of these names.
    fn named<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> EgressSet {
        let ids = names.into_iter().filter_map(|name| self.names.id(name));
        ids.collect()
    }

    /// The drains of egress routes at `now`.
    pub(super) fn drains(&self, now: Timestamp) -> Vec<(EgressId, EgressDrain)> {
        let drained = self
            .paths()
            .filter_map(|(id, path)| Some((id, path.drained(now)?)));
        drained.collect()
    }

    /// The egress routes in the form that explanations need, for clients with an answer.
    pub(super) fn known_paths<'a>(
        &'a self,
        answer: &'a Answer,
        drains: &'a [(EgressId, EgressDrain)],
    ) -> KnownEgresses<'a> {
        KnownEgresses {
            plain_unknown: answer.plain_unknown.as_deref(),
            names: &self.names,
            present: self.those(|_| true),
            up: self.those(is_up),
            drains,
        }
    }

    /// The clients to which the operator's policies give several egress routes for some content. Those of
    /// an AS are known by their first connection.
    pub(super) fn aggregated(&self) -> impl Iterator<Item = Prefix> {
        let mode = |policy: &&Policy| policy.mode == Mode::Aggregated;
        self.policies.iter().filter(mode).flat_map(|policy| {
            let all = policy.is_for_all().then_some(Prefix::ALL);
            policy.clients.iter().map(Net::prefix).chain(all)
        })
    }

    fn those(&self, wanted: impl Fn(&Path) -> bool) -> EgressSet {
        let of = self.paths().filter(|(_, path)| wanted(path));
        of.map(|(id, _)| id).collect()
    }

    /// The ports of egress routes, and of the one that plain takes.
    fn ports(
        &self,
        egresses: EgressSet,
        plain_is: Option<EgressId>,
    ) -> impl Iterator<Item = (EgressId, Option<Port>)> {
        let of_interest = move |id: EgressId| egresses.contains(id) || plain_is == Some(id);
        let paths = self
            .paths()
            .filter(move |(id, path)| of_interest(*id) && !path.is_dead());
        paths.map(|(id, path)| (id, path.port()))
    }

    /// The routes to choose from for a client and a class of content; `named` is the egress route in
    /// `policy.route`.
    pub(crate) fn candidates(
        &self,
        answer: Option<&Answer>,
        client: IpAddr,
        (class, criterion): (&str, Criterion),
        mptcp: Mptcp,
        named: Option<&str>,
    ) -> Candidates {
        if !self.usable {
            return Candidates::default();
        }
        let reach = answer.map_or_else(Reach::default, |answer| answer.reach);
        let mut verdicts = answer.iter().flat_map(|answer| &*answer.verdicts);
        let policy = verdicts.find(|verdict| verdict.is_for(client, class));
        let by_policy = policy.map_or(EgressSet::EMPTY, |policy| policy.backup);
        let backup = self.those(|path| path.backup);
        let egresses = reach.paths.and(self.those(is_up));
        let plain_is = reach.plain_is;
        Candidates {
            plain_is,
            plain_is_dead: plain_is
                .and_then(|id| self.path(id))
                .is_some_and(Path::is_dead),
            egresses,
            room: Room::new(client, criterion, plain_is, self.ports(egresses, plain_is)),
            backup: backup.iter().chain(by_policy.iter()).collect(),
            mptcp,
            mode: policy.map_or(Mode::Adaptive, |policy| policy.mode),
            allowed: policy.map_or(EgressSet::ALL, |policy| policy.allowed),
            named: named.and_then(|name| self.names.id(name)),
        }
    }
}

impl Verdict {
    /// Whether it holds for a client of the answer's prefix and a class of content.
    fn is_for(&self, client: IpAddr, class: &str) -> bool {
        (self.clients.is_empty() || self.clients.iter().any(|net| net.contains(client)))
            && (self.classes.is_empty() || self.classes.iter().any(|name| name == class))
    }
}

/// Whether it may be used for clients that it reaches.
fn is_up(path: &Path) -> bool {
    path.standing().0 == EgressState::Up && path.mark != 0
}

#[cfg(test)]
mod tests {
    use hikyaku_core::egress::{Criterion, EgressId, EgressNames, EgressSet, MAX_EGRESSES};
    use serde_json::json;

    use super::State;

    #[test]
    fn plain_is_dead_with_the_path_that_it_takes() {
        let path = |state: &str, probe: &str| {
            let path = json!({"name": "a", "state": state, "reason": "", "mark": 1,
                              "addresses": [], "backup": false, "probe": {"state": probe, "rtt_us": 9}});
            serde_json::from_value(path).unwrap()
        };
        let mut state = State::default();
        state.put_path(path("up", "up"));
        state.usable = true;
        let lookup = json!({"client": "2001:db8::/48", "best": "a", "paths": [], "policies": []});
        let answer = state.answer(&serde_json::from_value(lookup).unwrap());
        let client = "2001:db8::1".parse().unwrap();
        let is_dead = |state: &State| {
            let mptcp = hikyaku_core::egress::Mptcp::None;
            state
                .candidates(
                    Some(&answer),
                    client,
                    ("bulk", Criterion::Goodput),
                    mptcp,
                    None,
                )
                .plain_is_dead
        };
        assert!(!is_dead(&state));
        state.put_path(path("down", "unknown"));
        assert!(
            !is_dead(&state),
            "BGP has taken it away, and plain elsewhere"
        );
        state.put_path(path("down", "down"));
        assert!(is_dead(&state));
    }

    #[test]
    fn a_path_that_comes_takes_the_place_of_one_that_is_away() {
        let known: Vec<String> = (0..MAX_EGRESSES).map(|n| format!("path-{n}")).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let mut names = EgressNames::default();
        assert!(names.update(&known).is_empty());
        let mut state = State::knowing(names);
        let mut put = |name: &str| {
            let path = json!({"name": name, "state": "up", "reason": "", "mark": 1,
                              "addresses": [], "backup": false});
            state.put_path(serde_json::from_value(path).unwrap())
        };
        assert_eq!(put("path-0"), (true, EgressSet::EMPTY), "it has its place");
        assert_eq!(put("path-0"), (false, EgressSet::EMPTY));
        let second = EgressId::new(1).into_iter().collect();
        assert_eq!(put("peer-new"), (true, second), "path-1 makes room");
        assert_eq!(state.names().id("path-1"), None);
    }
}
