//! Counts of the reports of browsers.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hikyaku_units::arm::Version;
use prometheus_client::registry::{Registry, Unit};

use super::histogram::{Histogram, Histograms};
use super::{add, counters, value};
use crate::pages::Seen;

/// Counts pages with a script, and the reports of browsers.
#[derive(Debug, Default)]
pub(crate) struct BeaconCounts {
    scripts: [AtomicU64; ScriptKind::ALL.len()],
    /// Of pages that were loaded, and of those that were left before.
    received: [AtomicU64; 2],
    counted: AtomicU64,
    refused: [AtomicU64; BeaconRefusal::ALL.len()],
    page_load: [Histogram; Version::ALL.len()],
    lcp: [Histogram; Version::ALL.len()],
    /// By phase and type.
    failures: [Failures; PHASES.len()],
}

/// Failures of one phase by their type.
#[derive(Debug)]
struct Failures([AtomicU64; TYPES.len()]);

impl Default for Failures {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::default()))
    }
}

/// How a page has got the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptKind {
    /// In the page.
    Inline,
    /// As a file.
    File,
    /// Not at all, as its policy forbids it.
    None,
}

impl ScriptKind {
    const ALL: [Self; 3] = [Self::Inline, Self::File, Self::None];

    const fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::File => "file",
            Self::None => "none",
        }
    }
}

/// Why a report was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeaconRefusal {
    /// It is none, or cannot be true.
    Malformed,
    TooLarge,
    /// Its id was given to no page, too long ago, or has reported already.
    Unknown,
    /// Its client has sent too many.
    TooMany,
}

impl BeaconRefusal {
    const ALL: [Self; 4] = [
        Self::Malformed,
        Self::TooLarge,
        Self::Unknown,
        Self::TooMany,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Unknown => "unknown",
            Self::TooMany => "too_many",
        }
    }
}

impl BeaconCounts {
    pub(crate) fn on_script(&self, kind: ScriptKind) {
        add(&self.scripts[kind as usize], 1);
    }

    pub(crate) fn on_refusal(&self, refusal: BeaconRefusal) {
        add(&self.refused[refusal as usize], 1);
    }

    /// Counts the report of a page that came over `version`. The times of a page that nobody saw are not
    /// those of a page that somebody waits for.
    pub(crate) fn on_page(&self, version: Version, seen: &Seen) {
        add(&self.received[usize::from(seen.load_us.is_none())], 1);
        add(&self.counted, u64::from(seen.counted));
        let (Some(load), false) = (seen.load_us, seen.hidden) else {
            return;
        };
        let version = version.index();
        self.page_load[version].observe(Duration::from_micros(load));
        if let Some(lcp) = seen.lcp_us {
            self.lcp[version].observe(Duration::from_micros(lcp));
        }
    }

    /// Counts a failure that a browser reports.
    pub(crate) fn on_nel(&self, phase: &str, kind: &str) {
        let phase = PHASES.iter().position(|known| *known == phase);
        let counts = &self.failures[phase.unwrap_or(PHASES.len() - 1)];
        add(&counts.0[index_of(kind)], 1);
    }

    /// Adds these counters to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        counters(
            registry,
            "beacon_pages",
            "Pages by how they got the beacon's script",
            ScriptKind::ALL
                .map(|kind| {
                    let count = value(&self.scripts[kind as usize]);
                    (vec![("script", kind.name())], count)
                })
                .to_vec(),
        );
        let received = ["loaded", "left"].into_iter().zip(&self.received);
        counters(
            registry,
            "beacon_received",
            "Reports of pages",
            received
                .map(|(page, count)| (vec![("page", page)], value(count)))
                .collect(),
        );
        counters(
            registry,
            "beacon_refused",
            "Reports that were not taken",
            BeaconRefusal::ALL
                .map(|refusal| {
                    let count = value(&self.refused[refusal as usize]);
                    (vec![("reason", refusal.name())], count)
                })
                .to_vec(),
        );
        counters(
            registry,
            "beacon_outcomes",
            "Reports of pages that counted for the choice of the version",
            vec![(Vec::<(&str, &str)>::new(), value(&self.counted))],
        );
        for (name, help, times) in [
            (
                "beacon_page_load",
                "From a navigation's start until the page was loaded, as browsers saw it",
                &self.page_load,
            ),
            ("beacon_lcp", "Largest Contentful Paint of pages", &self.lcp),
        ] {
            let times = Version::ALL.map(|v| (v.name().to_owned(), times[v.index()].snapshot()));
            let times = Histograms::by("version", times.into());
            registry.register_with_unit(name, help, Unit::Seconds, times);
        }
        counters(
            registry,
            "nel_reports",
            "Failures that browsers report",
            self.failures(),
        );
    }

    /// The failures by phase and type. A type is there under the phase that it belongs to, and under others
    /// once it was reported there.
    fn failures(&self) -> Vec<(Vec<(&'static str, &'static str)>, u64)> {
        let mut failures = Vec::new();
        for (phase, counts) in PHASES.into_iter().zip(&self.failures) {
            for (kind, count) in TYPES.into_iter().zip(&counts.0) {
                let count = value(count);
                if count > 0 || phase == phase_of(kind) {
                    failures.push((vec![("phase", phase), ("type", kind)], count));
                }
            }
        }
        failures
    }
}

/// The index of a type, or of the type that it is a kind of: of `http.response.invalid` where it is
/// `http.response.invalid.empty`.
fn index_of(kind: &str) -> usize {
    let mut kinds = std::iter::successors(Some(kind), outer).take(MAX_DEPTH);
    let known = kinds.find_map(|kind| TYPES.iter().position(|known| *known == kind));
    known.unwrap_or(TYPES.len() - 1)
}

fn outer<'a>(kind: &&'a str) -> Option<&'a str> {
    kind.rsplit_once('.').map(|(outer, _)| outer)
}

/// The phase of a request in which failures of a type happen (Network Error Logging §6, and Chromium).
fn phase_of(kind: &str) -> &'static str {
    match kind.split('.').next() {
        Some("dns") => "dns",
        Some("tcp" | "tls" | "h3") => "connection",
        _ if kind == "h2.protocol.error" => "connection",
        _ => "application",
    }
}

/// The phases (Network Error Logging §5), and all else.
const PHASES: [&str; 4] = ["dns", "connection", "application", "other"];

/// The predefined types (Network Error Logging §6), Chromium's own, and all others.
const TYPES: [&str; 37] = [
    "dns.unreachable",
    "dns.name_not_resolved",
    "dns.failed",
    "dns.address_changed",
    "dns.protocol",
    "dns.server",
    "tcp.timed_out",
    "tcp.closed",
    "tcp.reset",
    "tcp.refused",
    "tcp.aborted",
    "tcp.address_invalid",
    "tcp.address_unreachable",
    "tcp.failed",
    "tls.version_or_cipher_mismatch",
    "tls.bad_client_auth_cert",
    "tls.cert.name_invalid",
    "tls.cert.date_invalid",
    "tls.cert.authority_invalid",
    "tls.cert.invalid",
    "tls.cert.revoked",
    "tls.cert.pinned_key_not_in_cert_chain",
    "tls.protocol.error",
    "tls.unrecognized_name_alert",
    "tls.failed",
    "http.error",
    "http.protocol.error",
    "http.response.invalid",
    "http.response.redirect_loop",
    "http.failed",
    "h2.ping_failed",
    "h2.protocol.error",
    "h3.protocol.error",
    "ok",
    "abandoned",
    "unknown",
    "other",
];

const MAX_DEPTH: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_what_is_known() {
        let counts = BeaconCounts::default();
        let before = counts.failures().len();
        assert_eq!(before, TYPES.len());
        for (phase, kind) in [
            ("dns", "dns.failed"),
            ("application", "h2.ping_failed"),
            ("connection", "abandoned"),
            ("connection", "h3.protocol.error"),
            ("application", "http.response.invalid.empty"),
            ("x", "dns.failed"),
            ("connection", "<script>"),
        ] {
            counts.on_nel(phase, kind);
        }
        let counted: Vec<_> = counts
            .failures()
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(labels, _)| (labels[0].1, labels[1].1))
            .collect();
        let want = [
            ("dns", "dns.failed"),
            ("connection", "h3.protocol.error"),
            ("connection", "abandoned"),
            ("connection", "other"),
            ("application", "http.response.invalid"),
            ("application", "h2.ping_failed"),
            ("other", "dns.failed"),
        ];
        assert_eq!(counted, want);
    }
}
