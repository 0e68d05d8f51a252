//! Doubts about HTTP in the clear.

use super::Findings;
use crate::config::{Config, InClear};
use hikyaku_content::{AccessConfig, RouteConfig};

impl Findings {
    /// Warns of passwords in the clear, and of keys that have no effect.
    pub(super) fn check_cleartext(&mut self, config: &Config) {
        if config.http.listen.is_empty() {
            self.warn_of_idle_keys(config);
            return;
        }
        let content = |own: Option<InClear>| own.unwrap_or(config.http.serve) == InClear::Content;
        for site in config.sites.iter().filter(|site| content(site.http)) {
            let name = site.names.first().map_or("", String::as_str);
            let access = site.access.as_ref().unwrap_or(&config.access);
            if asks_for_passwords(access, &site.routes) {
                self.warn_of_passwords(&format!("the site `{name}`"));
            }
        }
        let others = config.serves_all_hosts() && content(None);
        if others && asks_for_passwords(&config.access, &config.routes) {
            self.warn_of_passwords("the hosts that no site names");
        }
        if config.listen.is_empty() && has_certificate(config) {
            self.warnings.push(
                "`listen` is empty: no client gets the certificates that are configured".to_owned(),
            );
        }
    }

    fn warn_of_idle_keys(&mut self, config: &Config) {
        let sites = config.sites.iter();
        let named = sites.filter(|site| site.http == Some(InClear::Content));
        let names = named.filter_map(|site| site.names.first());
        let keys = names.map(|name| format!("`http = \"content\"` of the site `{name}`"));
        let server = (config.http.serve == InClear::Content)
            .then(|| "`http.serve = \"content\"`".to_owned());
        for key in keys.chain(server) {
            self.warnings.push(format!(
                "{key} has no effect: name addresses in `http.listen`"
            ));
        }
    }

    fn warn_of_passwords(&mut self, what: &str) {
        self.warnings.push(format!(
            "`basic_auth` of {what} asks for passwords that come in the clear to `http.listen`: set \
             `http = \"redirect\"`, unless TLS ends at a balancer before this server"
        ));
    }
}

/// Whether a site, or one of its routes, has users with passwords.
fn asks_for_passwords(access: &AccessConfig, routes: &[RouteConfig]) -> bool {
    let own = routes.iter().filter_map(|route| route.access.as_ref());
    let mut all = own.chain([access]);
    all.any(|access| access.basic_auth.is_some())
}

fn has_certificate(config: &Config) -> bool {
    let files = config.sites.iter().any(|site| !site.tls.cert.is_empty());
    files || !config.tls.cert.is_empty() || config.names_by_acme().next().is_some()
}
