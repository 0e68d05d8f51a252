//! The estimate with its interval, or why there is none.

use std::fmt;
use std::time::Duration;

use super::{Client, Counts, WhatIf};
use hikyaku_units::arm::Arm;
use hikyaku_units::human;

/// The log's answer on the other policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Clients whose responses count.
    pub clients: usize,
    /// Responses of the log.
    pub responses: u64,
    /// Part of the responses that the other policy decides otherwise.
    pub changed: f64,
    /// The responses that it decides mostly otherwise: how many would say as much of its choice, if all had
    /// the same weight. `None` where there are none.
    pub effective: Option<f64>,
    /// Geometric mean of clients' load times, as logged.
    pub logged: Duration,
    /// The estimate; it is refused where the log cannot answer.
    pub answer: Result<Answer, Refusal>,
}

/// The load time by the other policy, as a ratio to the logged one, with its interval (95 %).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The estimate.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Why the log cannot answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Too few clients.
    #[error("{0} clients are too few: it takes {MIN_CLIENTS}")]
    Clients(usize),
    /// The log is of another policy or model than was taken.
    #[error(
        "{} of the responses were decided by other settings than these, or by another model: give the \
         configuration that was in force (--config)",
        human::percent(*.0)
    )]
    Foreign(f64),
    /// The other policy gives arms that were never drawn.
    #[error(
        "for {} of the responses the other policy gives {}, which was never drawn there: only running it can \
         show that",
        human::percent(*.share),
        .arms.iter().map(Arm::to_string).collect::<Vec<_>>().join(" or ")
    )]
    Unseen {
        /// Part of the responses.
        share: f64,
        /// Its arms there, the most frequent first.
        arms: Vec<Arm>,
    },
    /// The choices of the other policy were hardly ever drawn.
    #[error(
        "the choices of the other policy were drawn too seldom: the log says as much as {0:.0} responses"
    )]
    Seldom(f64),
}

impl WhatIf<'_> {
    /// The estimate so far.
    #[must_use]
    pub fn report(&self) -> Report {
        let counts = &self.counts;
        let clients: Vec<_> = self.clients.values().map(Client::figures).collect();
        let number = clients.len() as f64;
        let sum =
            |of: fn(&(f64, f64)) -> f64| clients.iter().map(of).sum::<f64>() / number.max(1.0);
        let effective = match counts.weights_sq {
            0.0 => 0.0,
            squares => counts.weights * counts.weights / squares,
        };
        let changed = counts.changed / (counts.responses - counts.foreign).max(1.0);
        let change = sum(|(change, _)| *change);
        let squares: f64 = clients
            .iter()
            .map(|(c, _)| (c - change) * (c - change))
            .sum();
        let sd = (squares / (number - 1.0).max(1.0) / number.max(1.0)).sqrt();
        let answer = match counts.refusal(clients.len(), effective) {
            Some(refusal) => Err(refusal),
            None => Ok(Answer {
                mean: change.exp(),
                low: (change - NORMAL_95 * sd).exp(),
                high: (change + NORMAL_95 * sd).exp(),
            }),
        };
        Report {
            clients: clients.len(),
            responses: counts.responses as u64,
            changed,
            effective: (counts.mostly > 0.0).then_some(effective),
            logged: Duration::from_secs_f64(sum(|(_, ln_time)| *ln_time).exp().min(1e6)),
            answer,
        }
    }
}

impl Client {
    /// The change of the logarithm of its load time, and that logarithm, as means of its responses.
    fn figures(&self) -> (f64, f64) {
        let [mut responses, mut residual] = [0.0; 2];
        for (_, sums) in &self.sessions {
            responses += sums.responses;
            residual += sums.residual;
        }
        let change = self.sessions.iter().map(|(_, sums)| {
            // One response for no error at all keeps this small where other sessions say little.
            let others = (residual - sums.residual) / (responses - sums.responses + 1.0);
            sums.predicted + sums.weighted - others * sums.by_session
        });
        (change.sum::<f64>() / responses, self.ln_time / responses)
    }
}

impl Counts {
    fn refusal(&self, clients: usize, effective: f64) -> Option<Refusal> {
        let foreign = self.foreign / self.responses.max(1.0);
        if foreign > MAX_FOREIGN {
            return Some(Refusal::Foreign(foreign));
        }
        if clients < MIN_CLIENTS {
            return Some(Refusal::Clients(clients));
        }
        let counted = self.responses - self.foreign;
        let share = self.unseen.iter().sum::<f64>() / counted;
        if share > MAX_UNSEEN {
            let mut arms: Vec<_> = Arm::ALL.into_iter().zip(self.unseen).collect();
            arms.retain(|(_, part)| *part > 0.1 * share * self.responses);
            arms.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            let arms = arms.into_iter().map(|(arm, _)| arm).collect();
            return Some(Refusal::Unseen { share, arms });
        }
        (self.mostly > SOME_CHANGE * counted && effective < MIN_EFFECTIVE)
            .then_some(Refusal::Seldom(effective))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, text: &dyn fmt::Display| writeln!(f, "{name:14}{text}");
        let Self {
            clients,
            responses,
            effective,
            ..
        } = self;
        row(
            "log",
            &format_args!("{responses} responses of {clients} clients"),
        )?;
        row(
            "changed",
            &format_args!("{} of the responses", human::percent(self.changed)),
        )?;
        if let Some(effective) = effective {
            let text = format_args!("as much as {effective:.0} responses of equal weight");
            row("drawn", &text)?;
        }
        let now = human::time(self.logged);
        row(
            "load time",
            &format_args!("{now} (geometric mean of clients)"),
        )?;
        match &self.answer {
            Ok(answer) => row("with these", &self.estimate(answer)),
            Err(refusal) => row("no answer", refusal),
        }
    }
}

impl Report {
    fn estimate(&self, answer: &Answer) -> String {
        let time = human::time(self.logged.mul_f64(answer.mean));
        let percent = |ratio: f64| human::percent((ratio - 1.0).abs());
        let sign = |ratio: f64| if ratio < 1.0 { "less" } else { "more" };
        let [low, high] =
            [answer.low, answer.high].map(|end| format!("{} {}", percent(end), sign(end)));
        format!(
            "{time}, {} {} ({low} to {high})",
            percent(answer.mean),
            sign(answer.mean)
        )
    }
}

/// Clients from which on there is an interval.
const MIN_CLIENTS: usize = 20;
/// Part of the responses that may not fit the settings: near thresholds the log's digits decide.
const MAX_FOREIGN: f64 = 0.05;
/// Part of the responses for which the model alone may speak.
const MAX_UNSEEN: f64 = 0.05;
/// Part of the responses from which on a change has to be seen, not only predicted.
const SOME_CHANGE: f64 = 0.05;
/// Responses that it takes for that.
const MIN_EFFECTIVE: f64 = 20.0;
/// Quantile of the normal distribution, two-sided.
const NORMAL_95: f64 = 1.96;
