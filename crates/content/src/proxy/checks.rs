//! Active checks of upstreams.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hikyaku_units::mix::{draw, mix};
use http::uri::Authority;
use http::{HeaderValue, Request, Uri, header};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::activity::Activity;
use super::config::{HealthConfig, ProxyConfig};
use super::connect::Connector;
use super::error::{ProxyError, SendError};
use super::group::Member;
use super::outgoing::{Outgoing, Route};
use super::pool::Pool;
use super::upstream::Upstream;
use crate::RequestBody;

/// The request that shows whether an upstream is well.
#[derive(Debug)]
pub(super) struct Check {
    health: HealthConfig,
    path: Uri,
    host: Option<Authority>,
    /// Connections of its own. Those of HTTP/1.1 are closed after each check, so that the next one shows
    /// whether the upstream takes connections.
    pool: Pool,
}

impl Check {
    /// # Errors
    /// If a setting cannot be used.
    pub(super) fn new(
        health: &HealthConfig,
        connector: &Arc<Connector>,
        config: &ProxyConfig,
    ) -> Result<Self, ProxyError> {
        if let Some((key, problem)) = health.fault() {
            return Err(ProxyError::Setting { key, problem });
        }
        let wrong = |key, problem| move |_| ProxyError::Setting { key, problem };
        let path = match health.path.starts_with('/') {
            true => health.path.parse::<Uri>().ok(),
            false => None,
        };
        let path = path.ok_or(ProxyError::Setting {
            key: "health.path",
            problem: "it is no path that begins with a slash",
        })?;
        let host = health.host.as_ref().map(|host| host.parse()).transpose();
        let host = host.map_err(wrong("health.host", "it is no host"))?;
        let unkept = ProxyConfig {
            keep_connections: 0,
            ..config.clone()
        };
        Ok(Self {
            health: health.clone(),
            path,
            host,
            pool: Pool::new(Arc::clone(connector), &unkept),
        })
    }

    /// Asks the upstream once.
    async fn run(&self, upstream: &Upstream) -> Result<(), SendError> {
        let mut request = Request::new(());
        *request.uri_mut() = self.path.clone();
        let agent = HeaderValue::from_static("hikyaku");
        request.headers_mut().insert(header::USER_AGENT, agent);
        let (parts, ()) = request.into_parts();
        let route = Route {
            target: Uri::default(),
            host: self.host.clone(),
            is_upgrade: false,
            activity: Activity::new(),
            interim: None,
        };
        let mut outgoing = Outgoing::new(parts, None, RequestBody::default(), route);
        outgoing.aim(upstream).map_err(SendError::Target)?;
        let limit = self.health.timeout;
        let answer = tokio::time::timeout(limit, self.pool.send(&mut outgoing));
        let answer = answer
            .await
            .map_err(|_| SendError::ResponseTimeout(limit))?
            .map_err(|unanswered| unanswered.error)?;
        match answer.response.status() {
            status if self.health.status.has(status) => Ok(()),
            status => Err(SendError::Status(status)),
        }
    }

    /// The time of the first check, by the URL: the checks of many upstreams are spread.
    fn first(&self, url: &str) -> Duration {
        let bytes = url.bytes().map(u64::from);
        let seed = bytes.fold(0, |seed, byte| mix(seed ^ byte));
        self.health.interval.mul_f64(draw([seed, 0, 0, 0]))
    }
}

/// The time to the next check of an upstream of this age. Checks keep their times over reloads, so that these
/// put none off.
fn next(age: Duration, first: Duration, interval: Duration) -> Duration {
    match age.checked_sub(first) {
        None => first - age,
        Some(passed) => {
            let passed = passed.as_nanos() % interval.as_nanos().max(1);
            interval.saturating_sub(Duration::from_nanos(u64::try_from(passed).unwrap_or(0)))
        }
    }
}

/// Starts the checks of an upstream among `tasks`. They end with it.
pub(super) fn start(member: &Arc<Member>, tasks: &mut JoinSet<()>) {
    if let Some(check) = &member.check {
        let interval = check.health.interval;
        let first = check.first(&member.state.url);
        let first = Instant::now() + next(member.state.age(), first, interval);
        tasks.spawn(run(Arc::downgrade(member), first, interval));
    }
}

async fn run(member: Weak<Member>, first: Instant, interval: Duration) {
    let mut ticks = tokio::time::interval_at(first, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(member) = member.upgrade() else {
            return;
        };
        if let Some(check) = &member.check {
            let outcome = check.run(&member.upstream).await;
            member.state.checked(&outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_keep_their_times_over_reloads() {
        let seconds = Duration::from_secs_f64;
        for (age, want) in [
            (0.0, 2.0),
            (1.5, 0.5),
            (2.0, 5.0),
            (3.0, 4.0),
            (6.5, 0.5),
            (7.0, 5.0),
            (102.0, 5.0),
        ] {
            let got = next(seconds(age), seconds(2.0), seconds(5.0));
            assert_eq!(got, seconds(want), "{age}");
        }
    }
}
