//! The one sentence that comes first: the choice for a client, and its saving.

use std::time::Duration;

use super::Explanation;
use crate::choice::Group;
use crate::transport::{saved, visit_time};
use hikyaku_units::arm::{Arm, Congestion, Version};
use hikyaku_units::human;

impl Explanation {
    /// Says in one sentence what the client gets, and what that saves compared with an ordinary server.
    #[must_use]
    pub fn sentence(&self) -> String {
        let gets = format!("Gets {}", self.decided());
        match (self.decision.group, self.expected()) {
            (Group::HoldBack, _) => format!(
                "{gets}: it is held back with what an ordinary server gives, so that the gain of the others can be measured."
            ),
            (Group::Udp, _) => format!("{gets}: {}.", self.about_udp()),
            (Group::Explore, Some(expected)) => {
                format!(
                    "{gets} in this session, as an experiment: {}.",
                    self.compared(&expected)
                )
            }
            (Group::Explore, None) => format!("{gets} in this session, as an experiment."),
            (Group::Trial, Some(expected)) => format!(
                "{gets} in this session, since little is known of it: {}.",
                self.compared(&expected)
            ),
            (Group::Trial, None) => {
                format!("{gets} in this session, since little is known of it.")
            }
            (Group::Plain | Group::Normal, Some(expected)) => {
                format!("{gets}: {}.", self.compared(&expected))
            }
            (Group::Plain | Group::Normal, None) => format!("{gets}: {}.", self.not_compared()),
        }
    }

    /// The share of an ordinary server's load time that the decision is expected to save; negative where it
    /// takes longer. `None` where that can't be said.
    #[must_use]
    pub fn saves(&self) -> Option<f32> {
        self.expected().map(|expected| expected.saves())
    }

    fn arm(&self) -> Arm {
        let transport = self.decision.version.transport();
        Arm::over(transport, self.decision.congestion.get(transport).chosen)
    }

    /// The decided version and congestion control.
    fn decided(&self) -> String {
        named(self.decision.version, self.arm().congestion)
    }

    fn expected(&self) -> Option<Expected> {
        let min_rtt = self.path.min_rtt?;
        let time = |arm: Arm| {
            let mut loads = self.arms.iter();
            let of = loads.find(|load| load.arm == arm)?;
            Some(visit_time(arm, of.load.time, min_rtt))
        };
        Some(Expected {
            time: time(self.arm())?,
            ordinary: time(self.ordinary)?,
        })
    }

    fn compared(&self, expected: &Expected) -> String {
        let size = human::size(self.path.size);
        let (time, ordinary) = (human::time(expected.time), human::time(expected.ordinary));
        let their = named(self.ordinary.version, self.ordinary.congestion);
        if self.arm() == self.ordinary {
            return format!(
                "{time} for {size}, as from an ordinary server, since nothing else is surely faster"
            );
        }
        let saves = expected.saves();
        let (share, word) = match saves > 0.0 {
            true => (human::percent(saves.into()), "sooner"),
            false => (human::percent((-saves).into()), "later"),
        };
        match saves.abs() < LIKE {
            true => format!(
                "{time} for {size}, about as fast as {their}, which an ordinary server gives"
            ),
            false => format!(
                "{time} for {size}, {share} {word} than {their}, which an ordinary server gives ({ordinary})"
            ),
        }
    }

    fn about_udp(&self) -> String {
        let health = &self.udp.health;
        match (self.decision.version, self.decision.reason_code.as_str()) {
            (Version::H3, _) => "UDP failed before, and is tried again now".to_owned(),
            (_, "udp_throttled") => format!("{health}, so this saves it a slow HTTP/3"),
            (_, "quic_loss") => {
                "QUIC loses far more than TCP on its path, which this spares it".to_owned()
            }
            _ => format!("{health}, so this saves its waits for HTTP/3 that fails"),
        }
    }

    fn not_compared(&self) -> String {
        match self.decision.reason_code.as_str() {
            "pinned" => "its version is pinned, and what that saves is not known".to_owned(),
            _ => format!(
                "too little is known of it, by {:.0} samples, to say what that saves",
                self.path.samples
            ),
        }
    }
}

/// Load times with the decided arm, and with an ordinary server's.
struct Expected {
    time: Duration,
    ordinary: Duration,
}

impl Expected {
    fn saves(&self) -> f32 {
        saved(self.time, self.ordinary)
    }
}

fn named(version: Version, congestion: Congestion) -> String {
    let control = match congestion {
        Congestion::Cubic => "CUBIC",
        Congestion::Floor => "CUBIC and a floor",
        Congestion::Bbr => "BBR",
    };
    format!("{version} with {control}")
}

/// Load times that differ by less of a share are alike.
const LIKE: f32 = 0.005;
