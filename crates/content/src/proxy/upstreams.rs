//! The upstreams of a server, over reloads.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::checks;
use super::config::ProxyConfig;
use super::failure::UpstreamError;
use super::group::{LatencySnapshot, Member, State, Terms};

/// The upstreams of a server; clones share them. They outlive a reload: one whose URL and settings stay
/// keeps its health and its counts.
#[derive(Clone, Debug, Default)]
pub struct Upstreams(Arc<Mutex<Registry>>);

#[derive(Debug, Default)]
struct Registry {
    /// By URL, with the settings that it has in several places.
    states: HashMap<Box<str>, Vec<Known>>,
    /// Upstreams whose checks have not been started.
    unchecked: Vec<Weak<Member>>,
    /// The checks that go on.
    checks: JoinSet<()>,
}

#[derive(Debug)]
struct Known {
    config: ProxyConfig,
    state: Weak<State>,
}

/// The state of an upstream, and what it has done since the server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// The URL as it was given.
    pub url: String,
    /// Whether it gets requests: it neither fails nor do checks turn it off.
    pub is_up: bool,
    /// Requests that it was asked to answer.
    pub requests: u64,
    /// Those of them that it failed to answer.
    pub failures: u64,
    /// Those failures after which another upstream was asked.
    pub repeats: u64,
    /// Requests whose responses are not over.
    pub under_way: u64,
    /// Its errors, by their kind's place in [`UpstreamError::ALL`].
    pub errors: [u64; UpstreamError::ALL.len()],
    /// The times that it has taken to answer.
    pub latency: LatencySnapshot,
}

impl Upstreams {
    /// Starts the checks of upstreams that have been added since the last call, on the runtime of the
    /// caller, and ends all former checks. To be called when new content takes the place of the former.
    pub fn start_checks(&self) {
        let registry = &mut *self.0.lock();
        registry.states.retain(|_, states| {
            states.retain(|known| known.state.strong_count() > 0);
            !states.is_empty()
        });
        // Dropped, it ends its tasks.
        registry.checks = JoinSet::new();
        let unchecked = std::mem::take(&mut registry.unchecked);
        for member in unchecked.iter().filter_map(Weak::upgrade) {
            checks::start(&member, &mut registry.checks);
        }
    }

    /// All upstreams in the order of their URLs. Among them are those that a reload has removed, as long
    /// as something from before uses them.
    pub fn statuses(&self) -> Vec<UpstreamStatus> {
        let mut all = BTreeMap::new();
        let registry = self.0.lock();
        let states = registry.states.values().flatten();
        for state in states.filter_map(|known| known.state.upgrade()) {
            let status = all
                .entry(state.url.clone())
                .or_insert_with(|| UpstreamStatus {
                    url: state.url.clone().into(),
                    is_up: true,
                    ..UpstreamStatus::default()
                });
            // The same URL with several settings counts as one.
            status.is_up &= state.is_up();
            status.requests += state.requests();
            status.failures += state.failures();
            status.repeats += state.repeats();
            status.under_way += state.under_way();
            for (sum, count) in status.errors.iter_mut().zip(state.errors()) {
                *sum += count;
            }
            status.latency.add(&state.latency());
        }
        all.into_values().collect()
    }

    /// The state of an upstream, which is a new one unless it is there with the same settings.
    pub(super) fn state(&self, url: &str, config: &ProxyConfig) -> Arc<State> {
        let mut registry = self.0.lock();
        let states = registry.states.entry(url.into()).or_default();
        let mut same = states.iter().filter(|known| known.config == *config);
        same.find_map(|known| known.state.upgrade())
            .unwrap_or_else(|| {
                let state = Arc::new(State::new(url, Terms::from(config)));
                states.push(Known {
                    config: config.clone(),
                    state: Arc::downgrade(&state),
                });
                state
            })
    }

    pub(super) fn add_unchecked(&self, member: &Arc<Member>) {
        self.0.lock().unchecked.push(Arc::downgrade(member));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_are_known_by_url_and_settings_while_somebody_has_them() {
        let (upstreams, config) = (Upstreams::default(), ProxyConfig::default());
        let other = ProxyConfig {
            retries: 2,
            ..ProxyConfig::default()
        };
        let a = upstreams.state("http://a", &config);
        assert!(Arc::ptr_eq(&a, &upstreams.state("http://a", &config)));
        let b = upstreams.state("http://b", &config);
        let again = upstreams.state("http://a", &other);
        assert!(!Arc::ptr_eq(&a, &b) && !Arc::ptr_eq(&a, &again));
        let urls = |upstreams: &Upstreams| {
            let all = upstreams.statuses().into_iter();
            all.map(|status| status.url).collect::<Vec<_>>()
        };
        assert_eq!(urls(&upstreams), ["http://a", "http://b"]);
        drop((a, again));
        assert_eq!(urls(&upstreams), ["http://b"]);
    }
}
