use serde::Deserialize;

use super::{CongestionPolicy, MaxPacingRate, Plain, PolicyConfig, SitePlain, VersionPolicy};

/// The settings that a site may have of its own, in place of the server's.
///
/// The knowledge of clients, and how it fades, is the same for all sites.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SitePolicy {
    /// `adaptive`, `h2` or `h3`. Default: the server's.
    pub version: Option<VersionPolicy>,
    /// `adaptive`, `cubic` or `bbr`. Default: the server's.
    pub congestion: Option<CongestionPolicy>,
    /// `off`, or at least `64kbps`. Default: the server's.
    pub max_pacing_rate: Option<MaxPacingRate>,
    /// The plain choice: `h3` or `h2`. Default: the server's.
    pub unknown: Option<Plain>,
    /// At most 0.02. Default: the server's.
    pub exploration: Option<f64>,
    /// From 0 to 1. Default: the server's.
    pub holdback: Option<f64>,
    /// The transport of the hold-back group.
    pub plain: SitePlain,
    /// From 0 to 1. Default: the server's.
    pub min_gain: Option<f64>,
    /// From 0 to 1. Default: the server's.
    pub min_gain_bbr: Option<f64>,
}

impl SitePolicy {
    /// The policy of the site on a server with the policy `server`; `None` if it has no setting of its own.
    #[must_use]
    pub fn over(&self, server: &PolicyConfig) -> Option<PolicyConfig> {
        (*self != Self::default()).then(|| PolicyConfig {
            version: self.version.unwrap_or(server.version),
            congestion: self.congestion.unwrap_or(server.congestion),
            max_pacing_rate: self.max_pacing_rate.unwrap_or(server.max_pacing_rate),
            unknown: self.unknown.unwrap_or(server.unknown),
            exploration: self.exploration.unwrap_or(server.exploration),
            holdback: self.holdback.unwrap_or(server.holdback),
            plain: self.plain.over(server.plain),
            min_gain: self.min_gain.unwrap_or(server.min_gain),
            min_gain_bbr: self.min_gain_bbr.unwrap_or(server.min_gain_bbr),
            ..server.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PlainCongestion, PlainPolicy};
    use super::{Plain, PolicyConfig, SitePolicy, VersionPolicy};

    #[test]
    fn a_site_changes_the_settings_that_it_names() {
        let server = PolicyConfig {
            holdback: 0.1,
            min_samples: 3,
            plain: PlainPolicy {
                version: Plain::H3,
                congestion: PlainCongestion::Bbr,
            },
            ..PolicyConfig::default()
        };
        let site: SitePolicy = serde_json::from_str(
            r#"{"version": "h2", "unknown": "h2", "plain": {"version": "h2"}}"#,
        )
        .unwrap();
        let want = PolicyConfig {
            version: VersionPolicy::H2,
            unknown: Plain::H2,
            plain: PlainPolicy {
                version: Plain::H2,
                congestion: PlainCongestion::Bbr,
            },
            ..server.clone()
        };
        assert_eq!(site.over(&server), Some(want));
        assert_eq!(SitePolicy::default().over(&server), None);
    }
}
