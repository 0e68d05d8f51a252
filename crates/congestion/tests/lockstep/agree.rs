//! Tolerances within which the two sides count as the same.

use std::f64::consts::LN_2;

use hikyaku_congestion::rule::{Answer, Step as RoundStep};

use crate::native::State;
use crate::world::{Decision, MSS, RATE, Step};

/// How far the sides may be apart, as it grows from event to event.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    evidence: f64,
}

impl Difference {
    /// Compares after an event.
    pub(crate) fn check(&mut self, step: &Step, tcp: &State) -> Result<(), String> {
        self.decisions(step, tcp)?;
        self.trust(step, tcp)?;
        path(step, tcp)
    }

    fn decisions(&self, step: &Step, tcp: &State) -> Result<(), String> {
        let rule = &step.rule;
        let growing = u64::from(step.growing);
        equal("decision", code(step.decision), tcp.decision)?;
        equal("round", step.round, tcp.round)?;
        equal("rounds of doubt", rule.doubt_left, tcp.doubt_left)?;
        equal("probing", u64::from(rule.probing), tcp.probing)?;
        equal("of a probe", u64::from(rule.of_probe), tcp.of_probe)?;
        equal("drains", u64::from(rule.drains), tcp.drains)?;
        equal("interval", rule.interval, tcp.interval)?;
        equal("startup", u64::from(rule.startup), tcp.startup)?;
        equal("growing", growing, tcp.growing)
    }

    /// TCP's logarithms are at most 2^-16 bits too small each. Ageing leaves up to ten 1024ths of
    /// a packet more. That is up to a hundredth of the lost ones where only the prior's was lost.
    fn trust(&mut self, step: &Step, tcp: &State) -> Result<(), String> {
        let evidence = tcp.evidence as f64 / 65_536.0 * LN_2;
        if step.rule.of_probe {
            let event = &step.event;
            self.evidence += event.acked as f64 * ACKED + event.lost as f64 * LOST;
        }
        near("evidence", step.rule.evidence, evidence, self.evidence)?;
        if step.rule.evidence == 0.0 && tcp.evidence == 0 {
            self.evidence = 0.0;
        }
        let sum = (tcp.calm_acked + tcp.calm_lost) as f64 / 1024.0;
        let loss = tcp.calm_lost as f64 / 1024.0 / sum.max(1.0);
        near("loss", step.rule.loss, loss, AGED / sum.max(1.0))
    }
}

/// Errors of evidence for each packet of a probe that is acknowledged or lost,
const ACKED: f64 = 1e-4;
const LOST: f64 = 0.011;
/// and of packets that ageing leaves.
const AGED: f64 = 0.011;

/// Microseconds are whole on TCP, the loss is one of 1024 parts, and the BDP is rounded down twice.
fn path(step: &Step, tcp: &State) -> Result<(), String> {
    near("RTT", step.min_rtt, tcp.min_rtt as f64, 1e-3)?;
    near("queue", step.threshold, tcp.queue_least as f64, 1.0)?;
    near("rate", step.rate / RATE, tcp.rate as f64, 1e-3)?;
    near(
        "last rate",
        step.last_rate / RATE,
        tcp.last_rate as f64,
        1e-3,
    )?;
    let bdp = step.bdp / MSS;
    let part = 1.2 / 1024.0 + 1.0 / step.min_rtt.max(1.0);
    let loss = AGED / ((tcp.calm_acked + tcp.calm_lost) as f64 / 1024.0).max(1.0);
    near("BDP", bdp, tcp.bdp as f64, 2.2 + bdp * (part + loss))
}

/// As `enum step` and `enum answer` have it.
fn code(decision: Decision) -> u64 {
    match decision {
        Decision::None => 0,
        Decision::Round(step) => step_code(step),
        Decision::Loss(answer) => answer_code(answer),
    }
}

fn step_code(step: RoundStep) -> u64 {
    match step {
        RoundStep::None => 0,
        RoundStep::Doubt => 1,
        RoundStep::Plateau => 2,
        RoundStep::Raise => 3,
    }
}

fn answer_code(answer: Answer) -> u64 {
    match answer {
        Answer::Forgiven => 0,
        Answer::Probe => 1,
        Answer::Congestion => 2,
    }
}

fn equal(what: &str, quic: u64, tcp: u64) -> Result<(), String> {
    if quic == tcp {
        return Ok(());
    }
    Err(format!("{what}: QUIC {quic}, TCP {tcp}"))
}

fn near(what: &str, quic: f64, tcp: f64, within: f64) -> Result<(), String> {
    if (quic - tcp).abs() <= within {
        return Ok(());
    }
    Err(format!(
        "{what}: QUIC {quic}, TCP {tcp}, more than {within} apart"
    ))
}
