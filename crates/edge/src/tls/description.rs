//! A certificate's description for people, and when its end is warned of.

use std::fmt::Write as _;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::SignatureAlgorithm;
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY: i64 = 24 * 3600;
/// Warnings begin this long before the end, in seconds, where a third of the certificate's life is
/// not shorter: clients renew in the last third.
const WARN_BEFORE: i64 = 14 * DAY;

/// The properties of a certificate that people are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Kind of the key: `ecdsa`, `rsa` or `ed25519`.
    pub key: &'static str,
    /// The authority's common name, or all of its name without one.
    pub issuer: String,
    /// SHA-256 of the certificate, as browsers show it: colon-separated hex.
    pub fingerprint: String,
    /// SHA-256 of the public key (SubjectPublicKeyInfo), Base64: what Chromium's
    /// `--ignore-certificate-errors-spki-list` and curl's `--pinnedpubkey` take.
    pub spki: String,
    /// Seconds since the Unix epoch.
    pub not_before: i64,
    /// Seconds since the Unix epoch.
    pub not_after: i64,
}

impl Description {
    pub(super) fn of(key: &CertifiedKey) -> Self {
        let mut description = Self {
            key: kind(key.key.algorithm()),
            ..Self::default()
        };
        let Some(leaf) = key.cert.first() else {
            return description;
        };
        description.fingerprint = hex(&Sha256::digest(leaf));
        if let Ok((_, parsed)) = X509Certificate::from_der(leaf) {
            description.spki = STANDARD.encode(Sha256::digest(parsed.public_key().raw));
            let issuer = parsed.issuer();
            let name = issuer
                .iter_common_name()
                .find_map(|name| name.as_str().ok());
            description.issuer = name.map_or_else(|| issuer.to_string(), str::to_owned);
            description.not_before = parsed.validity().not_before.timestamp();
            description.not_after = parsed.validity().not_after.timestamp();
        }
        description
    }

    pub(super) fn half_over(&self, now: SystemTime) -> bool {
        seconds(now) > i64::midpoint(self.not_before, self.not_after)
    }

    /// A fault of the certificate's time, present or soon; another text each day.
    pub(crate) fn concern(&self, now: SystemTime) -> Option<String> {
        let now = seconds(now);
        let left = self.not_after - now;
        let third = (self.not_after - self.not_before) / 3;
        let what = if now < self.not_before {
            let from = date(self.not_before);
            format!("is not valid before {from}: clients refuse it")
        } else if left < 0 {
            let ago = days(-left);
            format!("has expired {ago} ago: clients refuse it")
        } else if left < WARN_BEFORE.min(third) {
            let (left, at) = (days(left), date(self.not_after));
            format!("expires in {left}, at {at}: renew it")
        } else {
            return None;
        };
        Some(format!("the {} certificate {what}", self.key))
    }
}

const fn kind(algorithm: SignatureAlgorithm) -> &'static str {
    match algorithm {
        SignatureAlgorithm::RSA => "rsa",
        SignatureAlgorithm::ECDSA => "ecdsa",
        SignatureAlgorithm::ED25519 => "ed25519",
        _ => "other",
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let colon = if text.is_empty() { "" } else { ":" };
        let _ = write!(text, "{colon}{byte:02X}");
    }
    text
}

fn seconds(time: SystemTime) -> i64 {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.map_or(0, |time| time.as_secs().try_into().unwrap_or(i64::MAX))
}

fn days(seconds: i64) -> String {
    match seconds / DAY {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

fn date(seconds: i64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let text = date.and_then(|date| date.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{seconds} s after 1970"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn people_are_warned_in_time() {
        const START: i64 = 1_800_000_000;
        const HOUR: i64 = 3600;
        // name, validity, time since its start, what the warning holds
        let cases = [
            ("fresh", 90 * DAY, 0, None),
            ("15 days left", 90 * DAY, 75 * DAY, None),
            ("14 days left", 90 * DAY, 76 * DAY, None),
            (
                "just below",
                90 * DAY,
                76 * DAY + 1,
                Some("in 13 days, at 2027-"),
            ),
            ("a day on", 90 * DAY, 77 * DAY + 1, Some("in 12 days")),
            ("two days left", 90 * DAY, 88 * DAY, Some("in 2 days")),
            (
                "36 hours left",
                90 * DAY,
                88 * DAY + 12 * HOUR,
                Some("in 1 day,"),
            ),
            (
                "an hour left",
                90 * DAY,
                90 * DAY - HOUR,
                Some("less than a day, at"),
            ),
            (
                "the last second",
                90 * DAY,
                90 * DAY,
                Some("less than a day, at"),
            ),
            (
                "over",
                90 * DAY,
                90 * DAY + 1,
                Some("has expired less than a day ago"),
            ),
            (
                "long over",
                90 * DAY,
                93 * DAY,
                Some("has expired 3 days ago"),
            ),
            ("short-lived", 6 * DAY, 4 * DAY - 1, None),
            (
                "short-lived, last third",
                6 * DAY,
                4 * DAY + 1,
                Some("in 1 day,"),
            ),
            (
                "too early",
                90 * DAY,
                -1,
                Some("is not valid before 2027-01-15T08:00:00Z"),
            ),
        ];
        for (name, validity, at, want) in cases {
            let description = Description {
                key: "ecdsa",
                not_before: START,
                not_after: START + validity,
                ..Description::default()
            };
            let now = Duration::from_secs((START + at).cast_unsigned());
            let got = description.concern(SystemTime::UNIX_EPOCH + now);
            match (want, &got) {
                (None, None) => {}
                (Some(want), Some(got)) if got.contains(want) => {}
                _ => panic!("{name}: {got:?}"),
            }
        }
    }
}
