//! Keeping up with the agent: its events, and the questions to it.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hikyaku_core::egress::EgressSet;
use hikyaku_core::policy::RoutePolicy;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Egress;
use super::agent::{AgentError, EventStream, MAX_CLIENTS, Requests};
use super::state::{Answer, State, Verdict};
use super::wire::{AgentEvent, Drain, Elsewhere, RouteChange};

use crate::clock;

/// How long egress routes are used after the agent was lost: nobody withdraws routes then.
const GRACE: Duration = Duration::from_secs(3);
/// Before the first and before later attempts to reach the agent.
const BACKOFF: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];
/// A stream that ended sooner than this is opened again as if it had not been.
const STEADY: Duration = Duration::from_secs(10);
/// Time until the same trouble is logged again.
const LOG_AGAIN: Duration = Duration::from_secs(3600);
/// Troubles that are remembered for that.
const MAX_TROUBLES: usize = 8;
/// Lists of verdicts that are compared with those of an answer.
const MAX_SHARED: usize = 16;

/// Follows the agent until `end`.
pub(super) fn start(egress: &Arc<Egress>, tasks: &TaskTracker, end: &CancellationToken) {
    let watching = {
        let egress = Arc::clone(egress);
        async move { egress.watch().await }
    };
    let answering = {
        let egress = Arc::clone(egress);
        async move { egress.ask().await }
    };
    let watch_end = end.clone();
    tasks.spawn(async move { watch_end.run_until_cancelled(watching).await });
    let ask_end = end.clone();
    tasks.spawn(async move { ask_end.run_until_cancelled(answering).await });
}

/// The agent's stream with its first event.
type Connected = (EventStream, AgentEvent);

impl Egress {
    async fn watch(&self) {
        let mut backoff = Backoff::default();
        loop {
            let (stream, snapshot) = self.connect(&mut backoff).await;
            let since = clock::now();
            self.connected.store(true, Ordering::Relaxed);
            self.apply(snapshot);
            let state = self.state();
            let paths = state.paths().map(|(_, path)| {
                let (name, state) = (&path.name, path.standing().0.name());
                format!("{name} ({state})")
            });
            let paths: Vec<String> = paths.collect();
            let socket = self.socket.display();
            tracing::info!(
                "the egress agent at {socket} answers; its paths: {}",
                paths.join(", ")
            );
            self.check_named();
            let error = self.follow(stream).await;
            self.connected.store(false, Ordering::Relaxed);
            self.trouble.report(&self.socket, &error.to_string());
            if clock::since(since) >= STEADY {
                backoff = Backoff::default();
            }
        }
    }

    /// Tries until there is an agent. What it said before does not count for longer than [`GRACE`].
    async fn connect(&self, backoff: &mut Backoff) -> Connected {
        let mut connecting = std::pin::pin!(async {
            loop {
                match self.try_connect().await {
                    Ok(connected) => return connected,
                    Err(error) => self.trouble.report(&self.socket, &error.to_string()),
                }
                backoff.wait().await;
            }
        });
        if let Ok(connected) = tokio::time::timeout(GRACE, &mut connecting).await {
            return connected;
        }
        if self.state().is_usable() {
            let socket = self.socket.display();
            tracing::warn!(
                "no egress agent at {socket} for {}s: all connections take the plain way until it \
                 is there again",
                GRACE.as_secs()
            );
            self.change(State::set_unusable);
        }
        connecting.await
    }

    async fn try_connect(&self) -> Result<Connected, AgentError> {
        let mut stream = EventStream::open(&self.socket).await?;
        let first = stream.next().await?;
        match first {
            AgentEvent::Snapshot(_) => Ok((stream, first)),
            _ => Err(AgentError::Answer {
                request: "GET /v1/events".to_owned(),
                why: "its first event is no snapshot".to_owned(),
            }),
        }
    }

    async fn follow(&self, mut stream: EventStream) -> AgentError {
        loop {
            match stream.next().await {
                Ok(event) => self.apply(event),
                Err(error) => return error,
            }
        }
    }

    /// Says so if `policy.route` names none of the agent's paths.
    pub(super) fn check_named(&self) {
        let rules = self.rules.load();
        let state = self.state();
        if let RoutePolicy::Named(name) = &rules.policy.route
            && state.is_usable()
            && state
                .names()
                .id(name)
                .is_none_or(|id| state.path(id).is_none())
        {
            tracing::warn!(
                "policy.route is `{name}`, but the egress agent has no such path: all connections \
                 take the plain way"
            );
        }
    }

    fn apply(&self, event: AgentEvent) {
        match event {
            AgentEvent::Snapshot(snapshot) => {
                self.hints.renew();
                if !self.change_paths(|state| state.replace(snapshot)) {
                    self.lookups.outdate(&[]);
                }
            }
            AgentEvent::Path(path) => {
                let path = *path;
                let mut outdates = false;
                let moved = self.change_paths(|state| {
                    let moved;
                    (outdates, moved) = state.put_path(path);
                    moved
                });
                if outdates && !moved {
                    self.lookups.outdate(&[]);
                }
            }
            AgentEvent::Policies(policies) => {
                self.set_state(|state| state.set_policies(policies));
                // Others may match, which connections follow when the answers say so.
                self.lookups.outdate(&[]);
            }
            AgentEvent::Routes(RouteChange { prefixes }) => self.lookups.outdate(&prefixes),
            // Lookups report only present routes, and events the future ones.
            AgentEvent::Ready(_) | AgentEvent::Other => {}
        }
    }

    /// Puts a state with other egress routes into force, and forgets the records of those indices that `change`
    /// gave to another egress route. Returns whether there are such.
    fn change_paths(&self, change: impl FnOnce(&mut State) -> EgressSet) -> bool {
        // A record that is written to the store meanwhile would have the new egress route's name.
        let mut table = self.table.lock();
        let mut moved = EgressSet::EMPTY;
        self.set_state(|state| moved = change(state));
        moved.iter().for_each(|path| table.forget_egress(path));
        drop(table);
        if !moved.is_empty() {
            self.lookups.clear();
        }
        self.reroute_all();
        !moved.is_empty()
    }

    /// Takes egress routes of these names for drained, and no others. Answers of the agent name them all the
    /// same.
    pub(crate) fn drain_elsewhere(&self, drains: BTreeMap<String, Arc<Elsewhere>>) {
        if *self.state().elsewhere() != drains {
            let drains = Arc::new(drains);
            self.change(|state| state.set_elsewhere(drains));
        }
    }

    /// The drains at this host's agent, by the names of egress routes. `None` before it has reported any.
    pub(crate) fn own_drains(&self) -> Option<BTreeMap<String, Drain>> {
        let state = self.state();
        let drained = state.paths().filter_map(|(_, path)| {
            let drain = path.drain.as_ref()?;
            Some((path.name.clone(), drain.clone()))
        });
        state.is_usable().then(|| drained.collect())
    }

    /// Puts another state into force, which all connections follow.
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.set_state(change);
        self.reroute_all();
    }

    fn set_state(&self, change: impl FnOnce(&mut State)) {
        // The agent's follower and that of other edges both change it.
        let changing = self.changing.lock();
        let mut state = State::clone(&self.state());
        change(&mut state);
        self.state.store(Arc::new(state));
        drop(changing);
        self.set_gate();
    }

    /// Asks about clients.
    async fn ask(&self) {
        let mut requests = Requests::new(self.socket.clone());
        let mut backoff = Backoff::default();
        let mut shared = SharedVerdicts::default();
        loop {
            // Answers name egress routes, which only the agent's events describe.
            let usable = self.state().is_usable();
            let questions = match usable {
                true => self.lookups.questions(MAX_CLIENTS),
                false => Vec::new(),
            };
            if questions.is_empty() {
                self.lookups.woken().await;
                continue;
            }
            let clients: Vec<_> = questions.iter().map(|question| question.net).collect();
            match requests.lookup(&clients).await {
                Ok(answers) => {
                    backoff = Backoff::default();
                    let state = self.state();
                    for (question, answer) in questions.iter().zip(&answers) {
                        let answer = shared.share(state.answer(answer));
                        let subscribers = self.lookups.answered(question, answer);
                        for subscriber in subscribers.iter().filter_map(std::sync::Weak::upgrade) {
                            subscriber.reroute();
                        }
                    }
                }
                Err(error) => {
                    self.trouble.report(&self.socket, &error.to_string());
                    self.lookups.ask_again(&questions);
                    // Also when the agent is back.
                    let _ = tokio::time::timeout(backoff.next(), self.lookups.woken()).await;
                }
            }
        }
    }
}

/// Lists of verdicts of the last answers. Most clients have one of few, which is then kept once.
#[derive(Debug, Default)]
struct SharedVerdicts(VecDeque<Arc<[Verdict]>>);

impl SharedVerdicts {
    fn share(&mut self, answer: Answer) -> Answer {
        if let Some(known) = self.0.iter().find(|known| **known == answer.verdicts) {
            let verdicts = Arc::clone(known);
            return Answer { verdicts, ..answer };
        }
        if self.0.len() == MAX_SHARED {
            self.0.pop_front();
        }
        self.0.push_back(Arc::clone(&answer.verdicts));
        answer
    }
}

/// Times between attempts.
#[derive(Debug)]
struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(BACKOFF[0])
    }
}

impl Backoff {
    fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(BACKOFF[1]);
        now
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
}

/// Logs each trouble with the agent once, not at each attempt.
#[derive(Debug, Default)]
pub(super) struct Trouble(Mutex<VecDeque<(String, Instant)>>);

impl Trouble {
    pub(super) fn report(&self, socket: &Path, text: &str) {
        let socket = socket.display();
        if self.is_news(text, clock::now()) {
            tracing::warn!("the egress agent at {socket}: {text}");
        } else {
            tracing::debug!("the egress agent at {socket}: {text}");
        }
    }

    fn is_news(&self, text: &str, now: Instant) -> bool {
        let mut logged = self.0.lock();
        logged.retain(|(_, at)| now.saturating_duration_since(*at) < LOG_AGAIN);
        if logged.iter().any(|(before, _)| before == text) {
            return false;
        }
        if logged.len() == MAX_TROUBLES {
            logged.pop_front();
        }
        logged.push_back((text.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_logged_once_an_hour() {
        let trouble = Trouble::default();
        let begin = Instant::now();
        let is_news = |text: &str, minutes| {
            let now = begin + Duration::from_secs(60) * minutes;
            trouble.is_news(text, now)
        };
        assert!(is_news("a", 0));
        assert!(is_news("b", 1), "another one, of another task");
        assert!(!is_news("a", 2));
        assert!(!is_news("b", 59));
        assert!(is_news("a", 60));
        assert!(!is_news("b", 60));
        for number in 0..MAX_TROUBLES {
            assert!(is_news(&number.to_string(), 60));
        }
        assert!(is_news("b", 60), "the oldest are forgotten");
    }
}
