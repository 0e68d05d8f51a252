//! The section `[acme]` of the configuration.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

/// How certificates are got by ACME (`[acme]` of the configuration). Which names they are for stands with
/// `tls.acme` and with the sites.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AcmeConfig {
    /// Mail address that the authority may write to, or a list. Default: none.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub email: Vec<String>,
    /// URL of the authority's directory (RFC 8555 §7.1.1), or a list in order of preference. An
    /// authority that fails gives way to the next. Default: that of Let's Encrypt.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub directory: Vec<String>,
    /// PEM file of roots that a directory's own certificate may be checked against, besides the system's.
    /// Default: none.
    pub ca_file: Option<PathBuf>,
    /// TOML file with the keys of accounts at authorities that want one (RFC 8555 §7.3.4), by directory.
    /// Default: none.
    pub eab_file: Option<PathBuf>,
    /// How the control of a name is proved, or a list in order of preference. Default: `dns-01` where there
    /// is a `hook`, `tls-alpn-01`, and `http-01` where `http.listen` is.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub challenge: Vec<ChallengeKind>,
    /// Program that sets and removes the records of `dns-01`. Default: none.
    pub hook: Option<PathBuf>,
    /// Time that a call of the hook may take. Default `2m`.
    #[serde(with = "hikyaku_units::duration")]
    pub hook_timeout: Duration,
    /// Kind of the certificates' keys, or both, so that each client gets one that it understands. Default
    /// `"ecdsa-p256"`.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub key_type: Vec<KeyType>,
}

impl Default for AcmeConfig {
    fn default() -> Self {
        Self {
            email: Vec::new(),
            directory: vec![instant_acme::LetsEncrypt::Production.url().to_owned()],
            ca_file: None,
            eab_file: None,
            challenge: Vec::new(),
            hook: None,
            hook_timeout: Duration::from_secs(120),
            key_type: vec![KeyType::EcdsaP256],
        }
    }
}

/// How the control of a name is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ChallengeKind {
    /// A file on port 80 (RFC 8555 §8.3).
    #[serde(rename = "http-01")]
    Http01,
    /// A certificate on port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
    /// A TXT record (RFC 8555 §8.4), the only one for wildcards.
    #[serde(rename = "dns-01")]
    Dns01,
}

impl ChallengeKind {
    /// Its name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
        }
    }

    /// Whether it can prove the control of a name.
    pub fn fits(self, name: &str) -> bool {
        self == Self::Dns01 || !name.starts_with("*.")
    }
}

/// A kind of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
pub enum KeyType {
    /// ECDSA with the curve P-256.
    #[serde(rename = "ecdsa-p256")]
    EcdsaP256,
    /// RSA with 2048 bits, for clients that understand nothing else.
    #[serde(rename = "rsa-2048")]
    Rsa2048,
}

impl AcmeConfig {
    /// The challenges that are used, in order of preference. `cleartext`: whether the server listens for
    /// HTTP in the clear.
    pub fn challenges(&self, cleartext: bool) -> Vec<ChallengeKind> {
        if !self.challenge.is_empty() {
            return self.challenge.clone();
        }
        let dns = self.hook.is_some().then_some(ChallengeKind::Dns01);
        let http = cleartext.then_some(ChallengeKind::Http01);
        let tls = Some(ChallengeKind::TlsAlpn01);
        [dns, tls, http].into_iter().flatten().collect()
    }

    /// The keys that do not fit together, as sentences. `cleartext`: whether the server listens for HTTP in the clear.
    pub fn faults(&self, cleartext: bool) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |text: String| faults.push(text);
        if self.directory.is_empty() {
            fault(
                "`acme.directory` is empty: name at least one directory, or leave it out"
                    .to_owned(),
            );
        }
        for url in &self.directory {
            if !url.starts_with("https://") || url.parse::<http::Uri>().is_err() {
                fault(format!(
                    "`acme.directory` holds `{url}`, which is no URL that begins with https://"
                ));
            }
        }
        for email in &self.email {
            if !email.contains('@') || email.contains(char::is_whitespace) {
                fault(format!(
                    "`acme.email` holds `{email}`, which is no mail address"
                ));
            }
        }
        if self.key_type.is_empty() {
            fault("`acme.key_type` is empty: name a kind of key, or leave it out".to_owned());
        }
        if self.challenge.contains(&ChallengeKind::Dns01) && self.hook.is_none() {
            fault("`acme.challenge` has dns-01, which needs `acme.hook`: the program that sets the record".to_owned());
        }
        if self.challenge.contains(&ChallengeKind::Http01) && !cleartext {
            fault("`acme.challenge` has http-01, which needs HTTP in the clear: set `http.listen`, such as [80]".to_owned());
        }
        faults
    }

    /// Why no certificate can be got for a name; `None` if one can.
    pub fn refusal(&self, name: &str, cleartext: bool) -> Option<String> {
        if name.parse::<std::net::IpAddr>().is_ok() {
            return Some(format!(
                "`{name}` is an address: certificates by ACME are for names; give it files (`cert`, `key`)"
            ));
        }
        let kinds = self.challenges(cleartext);
        if kinds.iter().any(|kind| kind.fits(name)) {
            return None;
        }
        Some(format!(
            "`{name}` is a wildcard, whose control dns-01 alone proves: set `acme.hook` to a program that \
             sets the record (docs/certificates.md)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_follow_from_what_there_is() {
        use ChallengeKind::{Dns01, Http01, TlsAlpn01};
        let cases: &[(&str, bool, &[ChallengeKind])] = &[
            ("", false, &[TlsAlpn01]),
            ("", true, &[TlsAlpn01, Http01]),
            ("hook = \"/h\"", true, &[Dns01, TlsAlpn01, Http01]),
            ("challenge = \"http-01\"", true, &[Http01]),
            (
                "hook = \"/h\"\nchallenge = [\"http-01\", \"dns-01\"]",
                true,
                &[Http01, Dns01],
            ),
        ];
        for (text, cleartext, want) in cases {
            let config: AcmeConfig = toml::from_str(text).unwrap();
            assert_eq!(config.challenges(*cleartext), *want, "{text} {cleartext}");
            assert_eq!(config.faults(*cleartext), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        let cases = [
            ("directory = []", true, "`acme.directory` is empty"),
            (
                "directory = \"http://ca.example/dir\"",
                true,
                "holds `http://ca.example/dir`",
            ),
            ("email = \"me\"", true, "no mail address"),
            ("key_type = []", true, "`acme.key_type` is empty"),
            ("challenge = \"dns-01\"", true, "needs `acme.hook`"),
            ("challenge = \"http-01\"", false, "set `http.listen`"),
        ];
        for (text, cleartext, want) in cases {
            let config: AcmeConfig = toml::from_str(text).unwrap();
            let faults = config.faults(cleartext);
            assert!(
                faults.len() == 1 && faults[0].contains(want),
                "{text}: {faults:?}"
            );
        }
        for text in [
            "challenge = \"dns-02\"",
            "key_type = \"rsa\"",
            "mail = \"a@b\"",
        ] {
            toml::from_str::<AcmeConfig>(text).unwrap_err();
        }
    }

    #[test]
    fn names_without_a_challenge_are_refused() {
        let cases = [
            ("", "a.example", None),
            ("", "*.a.example", Some("set `acme.hook`")),
            ("hook = \"/h\"", "*.a.example", None),
            ("", "192.0.2.1", Some("is an address")),
            ("", "2001:db8::1", Some("is an address")),
        ];
        for (text, name, want) in cases {
            let config: AcmeConfig = toml::from_str(text).unwrap();
            let got = config.refusal(name, false);
            match (&got, want) {
                (None, None) => {}
                (Some(got), Some(want)) if got.contains(want) && got.contains(name) => {}
                _ => panic!("{text} {name}: {got:?}"),
            }
        }
    }
}
