//! Accepting MPTCP from the clients that it serves. Those are the clients whose estimates call for
//! several egress routes, and the share of the others' connections that is an experiment.

use std::io;
use std::net::IpAddr;

use hikyaku_core::egress::{Mptcp, RouteView, mptcp_share};
use hikyaku_core::policy::RoutePolicy;

use super::{Answer, Content, Egress, MptcpFor};
use crate::bpf::Prefix;
use crate::mptcp::{MptcpGate, Share};
use crate::seed::SEED;

/// Lengths of the prefixes that count as one client, and as neighbours, as [`RouteTable`] has them.
///
/// [`RouteTable`]: hikyaku_core::egress::RouteTable
const LENGTHS_V4: [u8; 2] = [32, 24];
const LENGTHS_V6: [u8; 2] = [56, 48];

/// The gate that takes MPTCP `of` these clients, if `mptcp` is spoken at all; `None` for none, and where it
/// can't be had.
pub(super) fn open(mptcp: bool, of: MptcpFor) -> Option<MptcpGate> {
    if !mptcp || of == MptcpFor::All {
        return None;
    }
    match MptcpGate::load() {
        Ok(gate) => Some(gate),
        Err(error) => {
            let cause = std::error::Error::source(&error);
            let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            tracing::info!(
                "MPTCP is taken of all clients, also where it costs 2 % of the goodput and gains \
                 nothing: {error}{cause}"
            );
            None
        }
    }
}

impl Egress {
    /// The gate, where there is one.
    pub(crate) const fn gate(&self) -> Option<&MptcpGate> {
        self.gate.as_ref()
    }

    /// Has the gate follow what the agent and the policy say. Where nothing is chosen by connection, MPTCP
    /// is taken of all, as without egress routes.
    pub(super) fn set_gate(&self) {
        let Some(gate) = &self.gate else {
            return;
        };
        let (rules, state) = (self.rules.load(), self.state());
        let policy = &rules.policy;
        let chooses =
            policy.route == RoutePolicy::Adaptive && state.is_usable() && self.hints.are_obeyed();
        let set = gate
            .set_operators(state.aggregated().collect())
            .and_then(|()| {
                gate.set_share(chooses.then(|| Share::new(policy.unknown_mptcp_share())))
            });
        log_failure(set);
    }

    /// Sets at the gate the share for the next connections of a client and of its neighbours. They are
    /// taken to carry the like of `content`, as the client's last connection did.
    pub(super) fn admit(&self, client: IpAddr, answer: &Answer, content: Content) {
        let Some(gate) = self.gate.as_ref().filter(|gate| gate.is_in_force()) else {
            return;
        };
        let (now, rules) = (self.clock.now(), self.rules.load());
        let table = self.records(&rules);
        let known = table.view(client, answer.reach.asn, now);
        let newcomer = table.view_of_newcomer(client, answer.reach.asn, now);
        drop(table);
        let candidates = self.candidates(&rules, client, Some(answer), content.class, Mptcp::Taken);
        let share = |view: &RouteView, seed| {
            let wants = rules.wants(content, view);
            Share::new(mptcp_share(view, wants, &candidates, &rules.policy, seed))
        };
        let (its, theirs) = (share(&known, Some(SEED)), share(&newcomer, None));
        let strangers = Share::new(rules.policy.unknown_mptcp_share());
        let lengths = match client.to_canonical() {
            IpAddr::V4(_) => LENGTHS_V4,
            IpAddr::V6(_) => LENGTHS_V6,
        };
        let [own, near] = lengths.map(|length| Prefix::around(client, length));
        let put = gate
            .put(near, (theirs != strangers).then_some(theirs))
            .and_then(|()| gate.put(own, (its != theirs).then_some(its)));
        log_failure(put);
    }
}

fn log_failure(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::warn!("notifying the kernel of which clients MPTCP is taken: {error}");
    }
}
