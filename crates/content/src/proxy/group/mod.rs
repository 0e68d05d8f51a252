//! A group of upstreams: which of them gets a request, and who is asked when that one fails.

mod budget;
mod choice;
mod hash;
mod latency;
mod member;
mod standing;
mod state;
mod tier;
mod traced;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hikyaku_units::mix::mix;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Refusal;
use super::config::{Balance, HashBy, ProxyConfig};
use super::error::SendError;
use super::outgoing::Outgoing;
use super::pool::{Answer, Unanswered};
use crate::{Peer, Trace};
use budget::Budget;
use choice::{Load, Look};
use standing::Standing;
use tier::Tier;
use traced::Attempt;

pub use latency::LatencySnapshot;
pub(super) use member::Member;
pub(super) use standing::Terms;
pub(super) use state::{Kept, State, Turn};

/// One upstream or several, which answer the same requests.
#[derive(Debug)]
pub(super) struct Group {
    /// Backups are the last.
    members: Box<[Arc<Member>]>,
    /// The members that are asked first, then the backups if there are any.
    tiers: Box<[Tier]>,
    balance: Balance,
    /// Random numbers so far.
    draws: AtomicU64,
    /// Requests under way at once, of each member.
    max_requests: Option<u64>,
    failure_status: Box<[StatusCode]>,
    retries: usize,
    since: Instant,
    budget: Mutex<Budget>,
}

/// The answer of one of a group.
pub(super) struct Answered<'a> {
    pub(super) answer: Answer,
    pub(super) turn: Turn<'a>,
    /// The upstream in messages.
    pub(super) name: &'a str,
}

impl Group {
    pub(super) fn new(mut members: Vec<Arc<Member>>, config: &ProxyConfig) -> Self {
        members.sort_by_key(|member| member.is_backup);
        let statuses = config.failure_status.iter();
        let statuses = statuses.filter_map(|status| StatusCode::from_u16(*status).ok());
        Self {
            tiers: Tier::all(&members),
            members: members.into(),
            balance: config.balance.clone(),
            draws: AtomicU64::new(0),
            max_requests: (config.max_requests > 0).then_some(config.max_requests),
            failure_status: statuses.collect(),
            retries: config.retries,
            since: Instant::now(),
            budget: Mutex::default(),
        }
    }

    /// Whether its upstreams can be asked to change the protocol.
    pub(super) fn has_upgrades(&self) -> bool {
        self.members.iter().all(|member| member.pool.has_upgrades())
    }

    /// A number that the request has in common with others that go to the same upstream. 0 where that does
    /// not matter.
    pub(super) fn key(&self, request: &Parts, peer: &Peer) -> u64 {
        let by = match &self.balance {
            Balance::Hash(by) if self.members.len() > 1 => by,
            _ => return 0,
        };
        let value = match by {
            HashBy::Address => None,
            HashBy::Path => Some(request.uri.path().as_bytes()),
            HashBy::Header(name) => field(&request.headers, name),
            HashBy::Cookie(name) => cookie(&request.headers, name),
        };
        match value {
            Some(value) => hash::hash(value),
            None => match peer.remote.ip().to_canonical() {
                IpAddr::V4(address) => hash::hash(&address.octets()),
                IpAddr::V6(address) => hash::hash(&address.octets()),
            },
        }
    }

    /// Sends a request to one upstream, and to others when that one fails and the request may be
    /// repeated. Gives the last answer, or the last failure.
    pub(super) async fn send(
        &self,
        mut outgoing: Outgoing,
        key: u64,
        trace: Option<&Trace>,
    ) -> Result<Answered<'_>, Refusal> {
        let mut tried = Vec::new();
        let mut last = None;
        loop {
            let Some((index, turn)) = self.begin(key, &tried) else {
                return last.unwrap_or(Err(Refusal::Full));
            };
            // Another one's answer is no longer needed.
            drop(last.take());
            let member = &self.members[index];
            outgoing.aim(&member.upstream).map_err(Refusal::Target)?;
            let span = trace.map(|trace| Attempt::begin(trace, &mut outgoing, tried.len()));
            let asked = Instant::now();
            let sent = member.pool.send(&mut outgoing).await;
            if sent.is_ok() {
                member.state.answered(asked.elapsed());
            }
            if let Some(span) = span {
                span.end(&member.upstream, &outgoing, &sent);
            }
            let may_repeat = self.judge(member, &sent, &outgoing);
            let result = match sent {
                Ok(answer) => Ok(Answered {
                    answer,
                    turn,
                    name: &member.upstream.name,
                }),
                Err(unanswered) => Err(Refusal::Upstream {
                    name: member.upstream.name.clone(),
                    source: unanswered.error,
                }),
            };
            let has_retry = may_repeat && self.has_retry(tried.len() + 1);
            if !has_retry || !self.take_retry() || !outgoing.restart() {
                return result;
            }
            member.state.repeated();
            tried.push(index);
            last = Some(result);
        }
    }

    /// Notes what became of a request, and returns whether it failed and may be repeated.
    fn judge(
        &self,
        member: &Member,
        sent: &Result<Answer, Unanswered>,
        outgoing: &Outgoing,
    ) -> bool {
        let begun = outgoing.route.activity.started();
        let is_idempotent = outgoing.method().is_idempotent();
        match sent {
            Ok(answer) if self.failure_status.contains(&answer.response.status()) => {
                let status = answer.response.status();
                member.state.failed(begun, &SendError::Status(status));
                is_idempotent
            }
            Ok(_) => {
                member.state.succeeded(begun);
                false
            }
            // The request itself ended early.
            Err(unanswered) if unanswered.error.is_of_client() => false,
            Err(unanswered) => {
                member.state.failed(begun, &unanswered.error);
                unanswered.is_unsent || is_idempotent
            }
        }
    }

    /// Whether so many tries leave another one.
    fn has_retry(&self, tries: usize) -> bool {
        tries <= self.retries && tries < self.members.len()
    }

    fn take_retry(&self) -> bool {
        let states = self.members.iter().map(|member| &member.state);
        // Without the repeats themselves.
        let requests = states.map(|state| state.requests().saturating_sub(state.repeats()));
        let requests = requests.sum();
        self.budget.lock().take(requests, self.since.elapsed())
    }

    /// Begins the request at an upstream that has not been tried. Backups are used where no other can be, and
    /// those that are down where there is no backup either.
    fn begin(&self, key: u64, tried: &[usize]) -> Option<(usize, Turn<'_>)> {
        if let [member] = &*self.members {
            let turn = member.state.begin(self.max_requests);
            return turn.map(|turn| (0, turn));
        }
        for heeds_health in [true, false] {
            for tier in &self.tiers {
                let look = |index: usize| match tried.contains(&index) {
                    true => Look::Unusable,
                    false => self.look(&self.members[index].state, heeds_health),
                };
                // Another request may take the last place of the chosen one meanwhile.
                while let Some(index) = self.choose(tier, key, look) {
                    if let Some(turn) = self.members[index].state.begin(self.max_requests) {
                        return Some((index, turn));
                    }
                }
            }
        }
        None
    }

    fn choose(&self, tier: &Tier, key: u64, look: impl Fn(usize) -> Look) -> Option<usize> {
        match self.balance {
            Balance::Hash(_) => tier.by_key(key, look),
            Balance::LeastRequests => tier.of_two(mix(self.draws.fetch_add(1, Relaxed)), look),
        }
    }

    fn look(&self, state: &State, heeds_health: bool) -> Look {
        let under_way = state.under_way();
        if self.max_requests.is_some_and(|most| under_way >= most) {
            return Look::Unusable;
        }
        let standing = match heeds_health {
            true => state.standing(),
            false => Standing::Up(1.0),
        };
        match standing {
            Standing::Up(share) => Look::Usable(Load { under_way, share }),
            Standing::Trial => Look::Trial,
            Standing::Down => Look::Unusable,
        }
    }
}

/// The value of a field, of its first line.
fn field<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    headers.get(name).map(HeaderValue::as_bytes)
}

/// The value of a cookie (RFC 6265 §4.2).
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let fields = headers.get_all(header::COOKIE).iter();
    let mut pairs = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
    pairs.find_map(|pair| {
        let pair = pair.trim_ascii();
        pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
    })
}

#[cfg(test)]
mod tests;
