//! How decisions are made: the operator's settings.

mod congestion;
mod connections;
mod max_pacing_rate;
mod min_cwnd;
mod plain;
mod route;
mod scheduling;
mod site;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use hikyaku_units::arm::Version;
use hikyaku_units::{ByteSize, duration};

pub use congestion::CongestionPolicy;
pub use connections::{ConnectionsPolicy, MAX_CONNECTIONS};
pub use max_pacing_rate::{MaxPacingRate, ParseMaxPacingRateError};
pub use min_cwnd::{MinCwnd, ParseMinCwndError};
pub use plain::{PlainCongestion, PlainPolicy, SitePlain};
pub use route::{ParseRoutePolicyError, RoutePolicy};
pub use scheduling::SchedulingPolicy;
pub use site::SitePolicy;

/// Settings of the choice of transport. How they work together: `docs/decisions.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// `adaptive` chooses per client between HTTP/2 and HTTP/3; `h1`, `h2` or `h3` pins all. Default
    /// `adaptive`.
    pub version: VersionPolicy,
    /// `adaptive` chooses congestion control per client and transport; `cubic` or `bbr` pins all. Default
    /// `adaptive`.
    pub congestion: CongestionPolicy,
    /// Floor under CUBIC's congestion window. `adaptive` follows the path; `off` has none; a number of
    /// bytes, or `NxMSS`, is fixed and unfit for networks that others share (FLOOR §7). Default
    /// `adaptive`.
    pub min_cwnd: MinCwnd,
    /// Rate at which each connection sends at most: `off`, or at least `64kbps`. Default `off`.
    pub max_pacing_rate: MaxPacingRate,
    /// Over how many connections pages are spread, where there are shards: `adaptive` or 1 to 8, the
    /// page's own included. Default `adaptive`.
    pub connections: ConnectionsPolicy,
    /// Route: `adaptive` chooses per client and content class; `plain`, `aggregate` or an egress route's
    /// name pins all. Default `adaptive`.
    pub route: RoutePolicy,
    /// Subflows of MPTCP connections over several egress routes: `class` follows the content's class;
    /// `capacity` or `lowest_rtt` is for all. Default `class`.
    pub scheduling: SchedulingPolicy,
    /// The plain choice for a client of which too little is known: `h3` (it is then measured on both)
    /// or `h2`. Default `h3`.
    pub unknown: Plain,
    /// Path samples of a client or its prefix needed before the model is asked. Default 8.
    pub min_samples: u32,
    /// Share of sessions that get the arm not chosen, to keep its outcomes known; at most 0.02. Default
    /// 0.02.
    pub exploration: f64,
    /// Where it is in doubt which version is faster, one with fewer outcomes than this gets the next
    /// session; 0: never. Default 3.
    pub trials: u8,
    /// Share of clients that always get what an ordinary server gives (`plain`), so that the gain of the
    /// others can be proved; from 0 to 1. They go without that gain. Default 0.01.
    pub holdback: f64,
    /// A client changes its version for an expected gain above this share of the load time; from 0 to 1.
    /// Default 0.02.
    pub min_gain: f64,
    /// A client gets BBR where it surely gains more than this share over the best fair congestion
    /// control; from 0 to 1. BBR takes up to nine tenths of a shallow queue that others share. Default
    /// 0.1.
    pub min_gain_bbr: f64,
    /// A client is steered onto another egress route, or gets several, where that surely gains more than this share;
    /// from 0 to 1. Default 0.05.
    pub min_gain_route: f64,
    /// Responses by a route from which on the bounds of its gain are taken as they are. With fewer, two
    /// at least, they lie farther off in proportion. Default 4.
    pub min_samples_route: u32,
    /// How long a route that stalled is avoided at first; the setting is at least `1s`. The time is as
    /// much shorter as the best of the others is known to carry less goodput, down to `2s`. Default
    /// `10s`.
    #[serde(with = "duration")]
    pub avoid_min: Duration,
    /// With each further stall this doubles, up to here. Default `10m`.
    #[serde(with = "duration")]
    pub avoid_max: Duration,
    /// Response size to predict for while the client's own are unknown. Default `1MB`.
    pub typical_size: ByteSize,
    /// Shortest `ma` of an advertisement: about one session; at least `1s`. Default `1m`.
    #[serde(with = "duration")]
    pub ma_min: Duration,
    /// Longest `ma`, given where HTTP/3 has long been right. Default `1d`.
    #[serde(with = "duration")]
    pub ma_max: Duration,
    /// A client that was idle this long begins a new session. Default `15m`.
    #[serde(with = "duration")]
    pub session_idle: Duration,
    /// A session of a client that is never idle ends after this time. Default `1h`.
    #[serde(with = "duration")]
    pub session_max: Duration,
    /// The transport of the hold-back group.
    pub plain: PlainPolicy,
    /// How fast knowledge fades.
    pub half_life: HalfLife,
    /// When UDP counts as failed, and when it is tried again.
    pub udp: UdpPolicy,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            version: VersionPolicy::Adaptive,
            congestion: CongestionPolicy::Adaptive,
            min_cwnd: MinCwnd::Adaptive,
            max_pacing_rate: MaxPacingRate::default(),
            connections: ConnectionsPolicy::Adaptive,
            route: RoutePolicy::Adaptive,
            scheduling: SchedulingPolicy::Class,
            unknown: Plain::H3,
            min_samples: 8,
            exploration: 0.02,
            trials: 3,
            holdback: 0.01,
            min_gain: 0.02,
            min_gain_bbr: 0.1,
            min_gain_route: 0.05,
            min_samples_route: 4,
            avoid_min: Duration::from_secs(10),
            avoid_max: MINUTE.saturating_mul(10),
            typical_size: ByteSize::from_bytes(1_000_000),
            ma_min: MINUTE,
            ma_max: DAY,
            session_idle: MINUTE.saturating_mul(15),
            session_max: HOUR,
            plain: PlainPolicy::default(),
            half_life: HalfLife::default(),
            udp: UdpPolicy::default(),
        }
    }
}

impl PolicyConfig {
    /// The share of the sessions of clients with MPTCP that explores several egress routes where nothing is known:
    /// seven tenths of [`PolicyConfig::exploration`]. With more, better single routes are found late in
    /// networks whose clients all have MPTCP (`egress/tests/simulation.rs`).
    #[must_use]
    pub fn unknown_mptcp_share(&self) -> f64 {
        0.7 * self.exploration
    }

    /// Checks the rules that the types cannot.
    ///
    /// # Errors
    /// When a share is outside its range or the durations contradict each other.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let shares = [
            ("exploration", self.exploration, 0.02),
            ("holdback", self.holdback, 1.0),
            ("min_gain", self.min_gain, 1.0),
            ("min_gain_bbr", self.min_gain_bbr, 1.0),
            ("min_gain_route", self.min_gain_route, 1.0),
        ];
        for (key, value, max) in shares {
            if !(0.0..=max).contains(&value) {
                return Err(PolicyError::Share { key, value, max });
            }
        }
        for (key, value) in self.periods() {
            if value < Duration::from_secs(1) {
                return Err(PolicyError::Order {
                    low: "1s",
                    high: key,
                });
            }
        }
        let udp = &self.udp;
        let ordered = [
            ("ma_min", self.ma_min, "ma_max", self.ma_max),
            (
                "session_idle",
                self.session_idle,
                "session_max",
                self.session_max,
            ),
            ("avoid_min", self.avoid_min, "avoid_max", self.avoid_max),
            (
                "udp.probe_min",
                udp.probe_min,
                "udp.probe_max",
                udp.probe_max,
            ),
        ];
        for (low, low_value, high, high_value) in ordered {
            if low_value > high_value {
                return Err(PolicyError::Order { low, high });
            }
        }
        if udp.never_came_sessions == 0 {
            return Err(PolicyError::NoSessions);
        }
        Ok(())
    }

    /// Times that must not vanish.
    fn periods(&self) -> [(&'static str, Duration); 10] {
        let half_life = &self.half_life;
        [
            ("ma_min", self.ma_min),
            ("session_idle", self.session_idle),
            ("half_life.rtt", half_life.rtt),
            ("half_life.loss", half_life.loss),
            ("half_life.rate", half_life.rate),
            ("half_life.outcome", half_life.outcome),
            ("half_life.samples", half_life.samples),
            ("half_life.route", half_life.route),
            ("avoid_min", self.avoid_min),
            ("udp.probe_min", self.udp.probe_min),
        ]
    }
}

/// The routes that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionPolicy {
    /// HTTP/2 or HTTP/3, per client.
    Adaptive,
    /// HTTP/1.1 for all.
    H1,
    /// HTTP/2 for all.
    H2,
    /// HTTP/3 is advertised to all.
    H3,
}

impl VersionPolicy {
    /// The version that all clients get; `None` when it is chosen per client.
    #[must_use]
    pub const fn pinned(self) -> Option<Version> {
        match self {
            Self::Adaptive => None,
            Self::H1 => Some(Version::H1),
            Self::H2 => Some(Version::H2),
            Self::H3 => Some(Version::H3),
        }
    }
}

/// The version for a client of which nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plain {
    /// HTTP/3 is not advertised.
    H2,
    /// HTTP/3 is advertised.
    H3,
}

impl Plain {
    /// The HTTP version.
    #[must_use]
    pub const fn version(self) -> Version {
        match self {
            Self::H2 => Version::H2,
            Self::H3 => Version::H3,
        }
    }
}

/// Time after which old samples count half.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HalfLife {
    /// How long the smallest round-trip time is kept: at least once, at most twice this. Default `10m`.
    #[serde(with = "duration")]
    pub rtt: Duration,
    /// Packets sent and lost. Default `10m`.
    #[serde(with = "duration")]
    pub loss: Duration,
    /// Delivery rates of a transport that is not in use; one in use follows its last samples. Default
    /// `6h`.
    #[serde(with = "duration")]
    pub rate: Duration,
    /// Outcomes and response sizes of an arm that is not in use. Long, since an outcome says how far the
    /// model is off for a client, whatever its path is like now. Default `3d`.
    #[serde(with = "duration")]
    pub outcome: Duration,
    /// The number of samples, which `min_samples` looks at. Default `1d`.
    #[serde(with = "duration")]
    pub samples: Duration,
    /// Samples of an egress route that is not in use; of one in use the last 16 responses count. Default `3h`.
    #[serde(with = "duration")]
    pub route: Duration,
}

impl Default for HalfLife {
    fn default() -> Self {
        Self {
            rtt: MINUTE.saturating_mul(10),
            loss: MINUTE.saturating_mul(10),
            rate: HOUR.saturating_mul(6),
            outcome: DAY.saturating_mul(3),
            samples: DAY,
            route: HOUR.saturating_mul(3),
        }
    }
}

/// When UDP counts as failed, and when it is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UdpPolicy {
    /// Advertised sessions without a QUIC connection after which HTTP/3 is no longer advertised; at
    /// least 1. Default 2.
    pub never_came_sessions: u8,
    /// Time to the first probe; also the time between probes of a UDP that broke or is throttled. Default
    /// `1h`.
    #[serde(with = "duration")]
    pub probe_min: Duration,
    /// Where QUIC never came the time between probes doubles up to this. Default `1d`.
    #[serde(with = "duration")]
    pub probe_max: Duration,
}

impl Default for UdpPolicy {
    fn default() -> Self {
        Self {
            never_came_sessions: 2,
            probe_min: HOUR,
            probe_max: DAY,
        }
    }
}

/// Why settings are refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A share is out of its range.
    #[error("checking policy.{key}: {value} is not between 0 and {max}")]
    Share {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: f64,
        /// The largest permitted one.
        max: f64,
    },
    /// Two durations are in the wrong order.
    #[error("checking policy.{high}: it must be at least {low}")]
    Order {
        /// The value that must be shorter: another setting, or a time.
        low: &'static str,
        /// The setting that must be longer.
        high: &'static str,
    },
    /// HTTP/3 could never be advertised.
    #[error("checking policy.udp.never_came_sessions: it must be at least 1")]
    NoSessions,
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::{CongestionPolicy, Duration, PolicyConfig, PolicyError, VersionPolicy};

    #[test]
    fn the_empty_configuration_is_the_default_one() {
        let empty: PolicyConfig = serde_json::from_str("{}").unwrap();
        assert_eq!(empty, PolicyConfig::default());
        assert_eq!(empty.validate(), Ok(()));
        let text = serde_json::to_string(&empty).unwrap();
        assert_eq!(serde_json::from_str::<PolicyConfig>(&text).unwrap(), empty);
    }

    #[test]
    fn keys_are_read_strictly() {
        let config: PolicyConfig = serde_json::from_str(
            r#"{"version": "h2", "congestion": "bbr", "ma_max": "2d", "udp": {"probe_min": "5m"}}"#,
        )
        .unwrap();
        assert_eq!(config.version, VersionPolicy::H2);
        assert_eq!(config.congestion, CongestionPolicy::Bbr);
        assert_eq!(config.ma_max, Duration::from_secs(172_800));
        assert_eq!(config.udp.probe_min, Duration::from_secs(300));
        let wrong = [
            (r#"{"congestion": "reno"}"#, "unknown variant `reno`"),
            (r#"{"versoin": "h2"}"#, "unknown field `versoin`"),
            (r#"{"version": "h4"}"#, "unknown variant `h4`"),
            (r#"{"ma_min": "60"}"#, "the unit is missing"),
            (r#"{"half_life": {"losss": "1m"}}"#, "unknown field `losss`"),
            (r#"{"plain": {"version": "h1"}}"#, "unknown variant `h1`"),
            (
                r#"{"plain": {"congestion": "floor"}}"#,
                "unknown variant `floor`",
            ),
            (r#"{"plain": {"cc": "bbr"}}"#, "unknown field `cc`"),
        ];
        for (text, want) in wrong {
            let error = serde_json::from_str::<PolicyConfig>(text)
                .unwrap_err()
                .to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let ok = PolicyConfig::default;
        let cases = [
            (
                PolicyConfig {
                    exploration: 0.03,
                    ..ok()
                },
                "exploration: 0.03 is not between 0 and 0.02",
            ),
            (
                PolicyConfig {
                    holdback: f64::NAN,
                    ..ok()
                },
                "holdback: NaN is not between 0 and 1",
            ),
            (
                PolicyConfig {
                    ma_min: Duration::ZERO,
                    ..ok()
                },
                "ma_min: it must be at least 1s",
            ),
            (
                PolicyConfig {
                    ma_max: Duration::from_secs(1),
                    ..ok()
                },
                "ma_max: it must be at least ma_min",
            ),
        ];
        for (config, want) in cases {
            let error = config.validate().unwrap_err().to_string();
            assert_eq!(error, format!("checking policy.{want}"));
        }
        let mut config = ok();
        config.udp.never_came_sessions = 0;
        assert_eq!(config.validate(), Err(PolicyError::NoSessions));
    }
}
