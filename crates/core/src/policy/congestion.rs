use serde::{Deserialize, Serialize};

use super::{MinCwnd, PolicyConfig};
use hikyaku_units::arm::{ByTransport, Congestion, CongestionSet};

/// Which congestion control may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionPolicy {
    /// Per client and transport.
    Adaptive,
    /// CUBIC for all, with a floor unless `min_cwnd` is off.
    Cubic,
    /// BBR for all.
    Bbr,
}

impl CongestionPolicy {
    /// `adaptive`, `cubic` or `bbr`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

impl PolicyConfig {
    /// The congestion controls that these settings allow.
    #[must_use]
    pub fn allowed(&self) -> CongestionSet {
        use Congestion::{Bbr, Cubic, Floor};
        match (self.congestion, self.min_cwnd) {
            (CongestionPolicy::Bbr, _) => CongestionSet::of(&[Bbr]),
            (CongestionPolicy::Cubic, MinCwnd::Adaptive) => CongestionSet::of(&[Floor]),
            (CongestionPolicy::Adaptive, MinCwnd::Adaptive) => CongestionSet::ALL,
            (CongestionPolicy::Adaptive, MinCwnd::Off) => CongestionSet::of(&[Cubic, Bbr]),
            (CongestionPolicy::Cubic, MinCwnd::Off)
            | (
                CongestionPolicy::Cubic | CongestionPolicy::Adaptive,
                MinCwnd::Bytes(_) | MinCwnd::Segments(_),
            ) => CongestionSet::of(&[Cubic]),
        }
    }

    /// The congestion controls that a client may get on each transport: those that are allowed and
    /// available there, and CUBIC where none is both.
    #[must_use]
    pub fn candidates(&self, available: &ByTransport<CongestionSet>) -> ByTransport<CongestionSet> {
        let allowed = self.allowed();
        ByTransport::from_fn(|transport| {
            let both = allowed.and(*available.get(transport));
            if both.is_empty() {
                CongestionSet::of(&[Congestion::Cubic])
            } else {
                both
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ByTransport, Congestion, CongestionSet, MinCwnd, PolicyConfig};
    use hikyaku_units::arm::Transport;

    #[test]
    fn settings_allow_congestion_controls() {
        use Congestion::{Bbr, Cubic, Floor};
        let all = CongestionSet::ALL;
        let no_floor = CongestionSet::of(&[Cubic, Bbr]);
        let cubic_alone = CongestionSet::of(&[Cubic]);
        // congestion, min_cwnd, available, candidates
        type Case<'a> = (&'a str, &'a str, CongestionSet, &'a [Congestion]);
        let cases: &[Case<'_>] = &[
            ("adaptive", "adaptive", all, &[Cubic, Floor, Bbr]),
            ("adaptive", "adaptive", no_floor, &[Cubic, Bbr]),
            ("adaptive", "adaptive", cubic_alone, &[Cubic]),
            ("adaptive", "off", all, &[Cubic, Bbr]),
            ("adaptive", "256xMSS", all, &[Cubic]),
            ("cubic", "adaptive", all, &[Floor]),
            ("cubic", "adaptive", no_floor, &[Cubic]),
            ("cubic", "off", all, &[Cubic]),
            ("cubic", "365KiB", all, &[Cubic]),
            ("bbr", "adaptive", all, &[Bbr]),
            ("bbr", "off", all, &[Bbr]),
            ("bbr", "365KiB", all, &[Bbr]),
            ("bbr", "off", cubic_alone, &[Cubic]),
        ];
        for (congestion, min_cwnd, tcp, want) in cases {
            let config = PolicyConfig {
                congestion: serde_json::from_str(&format!("\"{congestion}\"")).unwrap(),
                min_cwnd: min_cwnd.parse::<MinCwnd>().unwrap(),
                ..PolicyConfig::default()
            };
            let available = ByTransport {
                tcp: *tcp,
                quic: all,
            };
            let got = *config.candidates(&available).get(Transport::Tcp);
            assert_eq!(got, CongestionSet::of(want), "{congestion}, {min_cwnd}");
        }
    }
}
