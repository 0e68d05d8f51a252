//! The policies that decisions go by: the server's, and those of sites that have one of their own.

use std::sync::Arc;

use hikyaku_content::Hosts;
use hikyaku_core::gain::Site;
use hikyaku_core::policy::{PolicyConfig, PolicyError, VersionPolicy};

use crate::config::{Config, ConfigError};

/// The server's policy and those of sites.
///
/// A connection has the policy of the site that its handshake names (RFC 6066 §3), whatever hosts its
/// requests are for.
#[derive(Debug)]
pub(crate) struct Policies {
    server: Arc<PolicyConfig>,
    sites: Hosts<Arc<PolicyConfig>>,
    /// The site's policy that holds back most clients, where that is more than the server does.
    strictest: Option<Arc<PolicyConfig>>,
    /// A policy that decides beside the server's, and never acts.
    shadow: Option<Arc<PolicyConfig>>,
    /// All sites, whether they have a policy of their own or not.
    named: Hosts<Site>,
}

impl Policies {
    /// The policies of a configuration.
    ///
    /// # Errors
    /// When a site's settings are wrong, or do not fit the server's.
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let mut policies = Self::of_server(config.policy.clone());
        if let Some(shadow) = config.shadow.over(&config.policy) {
            let fault = |error| ConfigError::Conflict(format!("[shadow]: {error}"));
            shadow.validate().map_err(fault)?;
            policies.shadow = Some(Arc::new(shadow));
        }
        for site in &config.sites {
            let first = site.names.first().map_or("", String::as_str);
            for name in &site.names {
                // Wrong names are refused with the site's content.
                let _ = policies.named.add(name, Site::named(first));
            }
            let Some(policy) = site.policy.over(&config.policy) else {
                continue;
            };
            check(first, &policy, &config.policy)?;
            let policy = Arc::new(policy);
            let most = policies.strictest.as_ref().unwrap_or(&policies.server);
            if policy.holdback > most.holdback {
                policies.strictest = Some(Arc::clone(&policy));
            }
            for name in &site.names {
                let _ = policies.sites.add(name, Arc::clone(&policy));
            }
        }
        Ok(policies)
    }

    /// The server's policy for all.
    pub(crate) fn of_server(policy: PolicyConfig) -> Self {
        Self {
            server: Arc::new(policy),
            sites: Hosts::default(),
            strictest: None,
            shadow: None,
            named: Hosts::default(),
        }
    }

    /// The server's policy.
    pub(crate) const fn server(&self) -> &Arc<PolicyConfig> {
        &self.server
    }

    /// The site's policy that holds back most clients, where that is more than the server does.
    pub(crate) const fn strictest(&self) -> Option<&Arc<PolicyConfig>> {
        self.strictest.as_ref()
    }

    /// The policy that decides beside the server's, and never acts.
    pub(crate) const fn shadow(&self) -> Option<&Arc<PolicyConfig>> {
        self.shadow.as_ref()
    }

    /// The policy of the site that a handshake has named, if it has one of its own.
    pub(crate) fn own(&self, server_name: Option<&str>) -> Option<&Arc<PolicyConfig>> {
        self.sites.get(server_name?)
    }

    /// The site that a handshake has named; that of all other hosts where it has named none.
    pub(crate) fn site(&self, server_name: Option<&str>) -> Site {
        let named = server_name.and_then(|name| self.named.get(name));
        named.copied().unwrap_or_else(|| Site::named(""))
    }

    /// The policy for a connection whose handshake has named this host.
    pub(crate) fn of(&self, server_name: Option<&str>) -> &Arc<PolicyConfig> {
        self.own(server_name).unwrap_or(&self.server)
    }
}

/// Checks a site's policy.
fn check(name: &str, site: &PolicyConfig, server: &PolicyConfig) -> Result<(), ConfigError> {
    let fault = |why: String| Err(ConfigError::Conflict(format!("the site `{name}`: {why}")));
    if let Err(error) = site.validate() {
        return fault(PolicyError::to_string(&error));
    }
    match (site.version, server.version) {
        (VersionPolicy::H1, VersionPolicy::H1) => Ok(()),
        (VersionPolicy::H1, _) => fault(
            "policy.version = \"h1\" is for the whole server, whose handshakes offer HTTP/2: use \"h2\""
                .to_owned(),
        ),
        (_, VersionPolicy::H1) => fault(
            "policy.version asks for other versions than the server's \"h1\": leave the server's out"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(text: &str) -> Result<Policies, String> {
        let config: Config = toml::from_str(text).unwrap();
        Policies::new(&config).map_err(|error| error.to_string())
    }

    const SITES: &str = r#"
        [policy]
        holdback = 0.1
        [[site]]
        names = ["a.example", "*.a.example"]
        root = "/srv"
        policy = { version = "h2" }
        [[site]]
        names = ["b.example"]
        root = "/srv"
    "#;

    #[test]
    fn a_handshakes_name_has_the_policy_of_its_site() {
        let policies = policies(SITES).unwrap();
        let version = |name| policies.of(name).version;
        assert_eq!(version(Some("a.example")), VersionPolicy::H2);
        assert_eq!(version(Some("X.a.example")), VersionPolicy::H2);
        assert_eq!(version(Some("b.example")), VersionPolicy::Adaptive);
        assert_eq!(version(None), VersionPolicy::Adaptive);
        assert!(policies.own(Some("b.example")).is_none());
        let holdback = policies.of(Some("a.example")).holdback;
        assert!((holdback - 0.1).abs() < 1e-9, "the server's: {holdback}");
    }

    #[test]
    fn settings_that_do_not_fit_are_refused() {
        // the server's version, the site's policy, part of the message
        let cases = [
            (
                "adaptive",
                "version = \"h1\"",
                "the site `a.example`: policy.version = \"h1\" is for the whole",
            ),
            (
                "h1",
                "version = \"h3\"",
                "other versions than the server's \"h1\"",
            ),
            (
                "h2",
                "holdback = 1.5",
                "policy.holdback: 1.5 is not between 0 and 1",
            ),
        ];
        for (server, site, want) in cases {
            let text = format!(
                "[policy]\nversion = \"{server}\"\n[[site]]\nnames = [\"a.example\"]\nroot = \"/srv\"\n\
                 policy = {{ {site} }}\n"
            );
            let error = policies(&text).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
        assert!(policies("[policy]\nversion = \"h1\"\n[[site]]\nnames = [\"a.example\"]\nroot = \"/s\"\npolicy = { holdback = 0.5 }\n").is_ok());
    }
}
