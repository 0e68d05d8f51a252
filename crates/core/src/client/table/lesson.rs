//! What an observation teaches a client's estimate and those of its prefixes.

use crate::client::estimate::{CLIENT, Estimate, PREFIX};
use crate::client::sample::Observation;
use crate::client::udp::{RateVerdict, UdpHealth};
use crate::policy::PolicyConfig;
use hikyaku_units::Timestamp;

/// An observation, made ready to change several estimates.
pub(super) struct Lesson<'a> {
    pub(super) observation: &'a Observation,
    /// Of an outcome: logarithm of the real by the predicted load time, where it says something of the
    /// arm.
    pub(super) log_ratio: Option<f32>,
}

/// What an observation did to its client's own estimate.
pub(super) struct Effect {
    before: UdpHealth,
    after: UdpHealth,
    rates: Option<RateVerdict>,
}

impl Lesson<'_> {
    pub(super) fn teach(
        &self,
        client: &mut Estimate,
        now: Timestamp,
        policy: &PolicyConfig,
    ) -> Effect {
        let before = client.udp;
        let mut rates = None;
        match self.observation {
            Observation::Path(sample) => rates = client.on_path(sample, now, policy),
            Observation::Outcome(outcome) => {
                client.on_outcome(outcome, self.log_ratio, now, policy, CLIENT);
            }
            Observation::Udp(event) => client.on_udp(*event, now, policy),
            Observation::Decided(decided) => client.on_decided(decided, now, policy),
        }
        Effect {
            before,
            after: client.udp,
            rates,
        }
    }

    pub(super) fn teach_prefix(
        &self,
        prefix: &mut Estimate,
        effect: &Effect,
        now: Timestamp,
        policy: &PolicyConfig,
    ) {
        match self.observation {
            Observation::Path(sample) => prefix.on_client_path(sample, effect.rates, now, policy),
            Observation::Outcome(outcome) => {
                prefix.on_outcome(outcome, self.log_ratio, now, policy, PREFIX);
            }
            Observation::Udp(event) => {
                prefix.on_client_udp(*event, &effect.before, &effect.after, now, policy);
            }
            // Sessions and choices are a client's own.
            Observation::Decided(_) => {}
        }
    }
}
