//! The section `[fleet]` of the configuration.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::key::is_name;
use crate::store_url::{Place, Secret, StoreUrl};

/// Shortest and longest time that knowledge may be kept.
const TTL: (Duration, Duration) = (
    Duration::from_secs(60),
    Duration::from_secs(365 * 24 * 3600),
);
/// Longest time that a connection or an answer may take.
const LONGEST: Duration = Duration::from_secs(60);

/// Keys that the edges of a fleet have in common, and the store of their knowledge (`[fleet]`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetConfig {
    /// File of secrets that all edges have: 64 hexadecimal digits on each line, the newest first. Keys of
    /// session tickets and of QUIC are derived from them, so that clients may come to any edge. Read
    /// again when it changes and on SIGHUP. Default: none, and other edges' clients are new ones.
    pub key_file: Option<PathBuf>,
    /// Edges have addresses in common, by anycast or behind a balancer, so that a connection may come to
    /// another edge. That edge then ends it by a stateless reset (RFC 9000 §10.3). Edges with
    /// addresses of their own must not (§21.11). Default `false`.
    pub shared_addresses: bool,
    /// Clients carry a summary of their path in session tickets, of 64 bytes at most. An edge that knows
    /// less of a client begins with that. Default `true`.
    pub carry: bool,
    /// Accounts and certificates by ACME, with their private keys, go through the store, sealed by the secrets of
    /// `key_file`. Default `false`.
    pub share_certificates: bool,
    /// URL of the store, or a list: nodes of a cluster, or sentinels. Default: none, nothing is shared.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub store: Vec<StoreUrl>,
    /// Whether `store` names nodes of a Redis cluster, which name the others. Default `false`.
    pub cluster: bool,
    /// Name of the primary that the sentinels in `store` watch. Default: none, `store` is the store itself.
    pub sentinel: Option<String>,
    /// User of the store's ACL, in place of one in `store`. With `sentinel`, URLs have the sentinels' user and
    /// password, and these keys the store's. Default: none, the store's default user.
    pub user: Option<String>,
    /// File whose first line is the password. Default: none.
    pub password_file: Option<PathBuf>,
    /// Environment variable that has the password. Default: none.
    pub password_env: Option<String>,
    /// PEM file of the roots that the store's certificate is checked against. Default: the system's.
    pub ca_file: Option<PathBuf>,
    /// Name of this edge, which no other of the fleet may have: 1 to 64 letters, digits, `.`, `_` and `-`.
    /// Default: the host's name.
    pub name: Option<String>,
    /// Point of presence that this edge is in, by the same rules. Default: none.
    pub pop: Option<String>,
    /// The beginning of all keys in the store, so that several fleets can share one. Default `hikyaku`.
    pub prefix: String,
    /// How long the store keeps what no edge has written again. From `1m` to a year, default `1d`.
    #[serde(with = "hikyaku_units::duration")]
    pub ttl: Duration,
    /// Keys of the store's database, of which no edge adds more. Default 1000000.
    pub max_keys: u64,
    /// Time that a connection to the store may take. Up to `1m`, default `2s`.
    #[serde(with = "hikyaku_units::duration")]
    pub connect_timeout: Duration,
    /// Time that an answer of the store may take. Up to `1m`, default `500ms`.
    #[serde(with = "hikyaku_units::duration")]
    pub timeout: Duration,
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self {
            key_file: None,
            shared_addresses: false,
            carry: true,
            share_certificates: false,
            store: Vec::new(),
            cluster: false,
            sentinel: None,
            user: None,
            password_file: None,
            password_env: None,
            ca_file: None,
            name: None,
            pop: None,
            prefix: "hikyaku".to_owned(),
            ttl: Duration::from_secs(24 * 3600),
            max_keys: 1_000_000,
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_millis(500),
        }
    }
}

impl FleetConfig {
    /// Whether anything is shared.
    pub fn is_on(&self) -> bool {
        !self.store.is_empty()
    }

    /// Whether contents go through the store sealed.
    pub fn seals(&self) -> bool {
        self.is_on() && self.key_file.is_some()
    }

    /// Whether an edge of another configuration has the same part in the store as one of this. What clients carry
    /// does not concern the store.
    pub fn shares_like(&self, other: &Self) -> bool {
        let other = Self {
            carry: self.carry,
            ..other.clone()
        };
        *self == other
    }

    /// The name of this edge.
    ///
    /// # Errors
    /// In words, if none is configured and the host's name is none.
    pub fn edge_name(&self) -> Result<String, String> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let path = "/proc/sys/kernel/hostname";
        let host = fs::read_to_string(path).map_err(|error| {
            format!("the host's name can't be read from {path}: {error}; set `fleet.name`")
        })?;
        match host.trim() {
            host if is_name(host) => Ok(host.to_owned()),
            host => Err(format!(
                "the host's name, `{host}`, can't name an edge; set `fleet.name`"
            )),
        }
    }

    /// The keys that do not fit together, as sentences.
    pub fn faults(&self) -> Vec<String> {
        let unreadable = self.store.iter().filter_map(StoreUrl::error);
        let mut faults: Vec<String> = unreadable.collect();
        if !faults.is_empty() {
            return faults;
        }
        let mut fault = |is: bool, text: &str| {
            if is {
                faults.push(text.to_owned());
            }
        };
        let one_of = |keys: [bool; 3]| keys.iter().filter(|&&is_set| is_set).count() > 1;
        let is_sentinel = self.sentinel.is_some();
        let in_url = |of: fn(&StoreUrl) -> bool| !is_sentinel && self.store.iter().any(of);
        fault(
            self.store.is_empty() && (self.cluster || is_sentinel),
            "`fleet.cluster` and `fleet.sentinel` say what `fleet.store` names: set `fleet.store`, too",
        );
        fault(
            self.share_certificates && (self.store.is_empty() || self.key_file.is_none()),
            "`fleet.share_certificates` sends certificates through `fleet.store`, sealed by the secrets of \
             `fleet.key_file`: set both",
        );
        fault(
            self.cluster && is_sentinel,
            "`fleet.cluster` and `fleet.sentinel` exclude each other: a cluster has no sentinels",
        );
        fault(
            self.store.len() > 1 && !self.cluster && !is_sentinel,
            "`fleet.store` names several stores: set `fleet.cluster = true` or `fleet.sentinel`, or name one",
        );
        fault(
            self.cluster && self.store.iter().any(|url| url.database.unwrap_or(0) != 0),
            "`fleet.store` names a database, and a cluster has only database 0",
        );
        fault(
            self.store.iter().any(|url| url.is_tls() != self.is_tls()),
            "`fleet.store` mixes URLs with TLS and without: use one of redis:// and rediss:// in all",
        );
        fault(
            (self.cluster || is_sentinel) && self.store.iter().any(StoreUrl::is_unix),
            "`fleet.store` names a socket; nodes of a cluster and sentinels are reached by TCP",
        );
        fault(
            self.ca_file.is_some() && !self.is_tls(),
            "`fleet.ca_file` is for TLS: write rediss:// in `fleet.store`, or leave it out",
        );
        fault(
            one_of([
                self.password_file.is_some(),
                self.password_env.is_some(),
                in_url(|url| url.password.is_some()),
            ]),
            "the store's password is given twice: keep one of `fleet.password_file`, `fleet.password_env` and \
             that in `fleet.store`",
        );
        fault(
            self.user.is_some() && in_url(|url| url.user.is_some()),
            "the store's user is given twice: keep `fleet.user` or the one in `fleet.store`",
        );
        for (key, name) in [("name", &self.name), ("pop", &self.pop)] {
            let is_fault = name.as_deref().is_some_and(|name| !is_name(name));
            fault(
                is_fault,
                &format!(
                    "`fleet.{key}` is not 1 to 64 letters, digits, `.`, `_` and `-`: choose another"
                ),
            );
        }
        fault(
            !is_name(&self.prefix),
            "`fleet.prefix` is not 1 to 64 letters, digits, `.`, `_` and `-`: choose another",
        );
        fault(
            !(TTL.0..=TTL.1).contains(&self.ttl),
            "`fleet.ttl` is outside of 1m to a year: choose a time within",
        );
        fault(
            self.max_keys < 1000,
            "`fleet.max_keys` is below 1000: there would be no room for what edges learn",
        );
        for (key, time) in [
            ("connect_timeout", self.connect_timeout),
            ("timeout", self.timeout),
        ] {
            fault(
                time.is_zero() || time > LONGEST,
                &format!("`fleet.{key}` is 0 or above 1m: choose a time between"),
            );
        }
        faults
    }

    /// Whether the store is reached by TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.store.first().is_some_and(StoreUrl::is_tls)
    }

    /// The store, as messages name it.
    pub(crate) fn place(&self) -> String {
        let urls: Vec<String> = self.store.iter().map(ToString::to_string).collect();
        match &self.sentinel {
            Some(name) => format!("{name} of {}", urls.join(", ")),
            None => urls.join(", "),
        }
    }

    /// The store's password, from where it is configured.
    ///
    /// # Errors
    /// In words, if a file or variable can't be read.
    pub(crate) fn password(&self) -> Result<Option<Secret>, String> {
        if let Some(path) = &self.password_file {
            let shown = path.display();
            let text = fs::read_to_string(path).map_err(|error| {
                format!("the store's password can't be read from {shown} (`fleet.password_file`): {error}")
            })?;
            return match text.lines().next().map(str::trim_end) {
                Some(line) if !line.is_empty() => Ok(Some(Secret::new(line))),
                _ => Err(format!(
                    "{shown} (`fleet.password_file`) has an empty first line: write the password there"
                )),
            };
        }
        if let Some(name) = &self.password_env {
            return match std::env::var(name) {
                Ok(text) if !text.is_empty() => Ok(Some(Secret::new(text))),
                _ => Err(format!(
                    "the environment variable `{name}` (`fleet.password_env`) is not set: set it to the \
                     store's password"
                )),
            };
        }
        Ok(None)
    }
}

impl StoreUrl {
    fn is_tls(&self) -> bool {
        matches!(self.place, Place::Net { tls: true, .. })
    }

    /// Why it is none.
    fn error(&self) -> Option<String> {
        match &self.place {
            Place::Unreadable(error) => Some(format!("`fleet.store`: {error}")),
            Place::Net { .. } | Place::Unix(_) => None,
        }
    }

    fn is_unix(&self) -> bool {
        matches!(self.place, Place::Unix(_))
    }
}

#[cfg(test)]
mod tests {
    use super::FleetConfig;

    fn config(text: &str) -> FleetConfig {
        toml::from_str(text).expect(text)
    }

    #[test]
    fn a_configuration_is_read() {
        let read = config(
            "store = [\"redis://a:7000\", \"redis://b:7000\"]\ncluster = true\nname = \"tokyo-1\"\n\
             ttl = \"2h\"\ntimeout = \"100ms\"",
        );
        assert!(read.is_on());
        assert_eq!(read.faults(), Vec::<String>::new());
        assert_eq!(read.edge_name(), Ok("tokyo-1".to_owned()));
        assert!(!FleetConfig::default().is_on());
        assert_eq!(FleetConfig::default().faults(), Vec::<String>::new());
        assert!(toml::from_str::<FleetConfig>("stores = []").is_err());
    }

    #[test]
    fn what_clients_carry_does_not_concern_the_store() {
        let text = "store = \"redis://a\"\npop = \"fra\"";
        let (read, carried) = (config(text), config(&format!("{text}\ncarry = false")));
        assert!(read != carried && read.shares_like(&carried));
        for more in ["ttl = \"2h\"", "key_file = \"x\"", "name = \"b\""] {
            let other = config(&format!("{text}\n{more}"));
            assert!(!read.shares_like(&other), "{more}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        for (text, said) in [
            ("cluster = true", "set `fleet.store`, too"),
            (
                "store = \"redis://a\"\ncluster = true\nsentinel = \"m\"",
                "a cluster has no sentinels",
            ),
            (
                "store = [\"redis://a\", \"redis://b\"]",
                "names several stores",
            ),
            (
                "store = \"redis://a/1\"\ncluster = true",
                "a cluster has only database 0",
            ),
            (
                "store = [\"redis://a\", \"rediss://b\"]\ncluster = true",
                "mixes URLs",
            ),
            (
                "store = \"redis+unix:///s\"\nsentinel = \"m\"",
                "names a socket",
            ),
            ("store = \"redis://a\"\nca_file = \"x\"", "is for TLS"),
            (
                "store = \"redis://:p@a\"\npassword_file = \"x\"",
                "password is given twice",
            ),
            (
                "store = \"redis://u:p@a\"\nuser = \"u\"",
                "user is given twice",
            ),
            (
                "store = \"redis://u:hush@a/x\"",
                "`fleet.store`: `redis://...@a/x` is no URL",
            ),
            ("name = \"a b\"", "`fleet.name` is not 1 to 64 letters"),
            ("pop = \"\"", "`fleet.pop` is not 1 to 64 letters"),
            ("prefix = \"a:b\"", "`fleet.prefix` is not"),
            ("ttl = \"1s\"", "`fleet.ttl` is outside"),
            ("max_keys = 1", "`fleet.max_keys` is below 1000"),
            ("timeout = \"0s\"", "`fleet.timeout` is 0"),
        ] {
            let faults = config(text).faults();
            assert!(
                faults.len() == 1 && faults[0].contains(said),
                "{text}: {faults:?}"
            );
        }
    }

    #[test]
    fn sentinels_have_a_password_of_their_own() {
        let read =
            config("store = \"redis://:p@a\"\nsentinel = \"main\"\npassword_file = \"/nowhere\"");
        assert_eq!(read.faults(), Vec::<String>::new());
        let error = read.password().expect_err("no file");
        assert!(error.contains("/nowhere"), "{error}");
    }

    #[test]
    fn a_password_that_is_missing_is_said() {
        let unset = config("store = \"redis://a\"\npassword_env = \"HIKYAKU_NO_SUCH_VARIABLE\"");
        let error = unset.password().expect_err("not set");
        assert!(error.contains("`HIKYAKU_NO_SUCH_VARIABLE`"), "{error}");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_str().expect("a path");
        let empty = config(&format!(
            "store = \"redis://a\"\npassword_file = \"{path}\""
        ));
        assert!(
            empty
                .password()
                .expect_err("empty")
                .contains("empty first line")
        );
        std::fs::write(file.path(), "hush\n").expect("written");
        let password = empty.password().expect("read").expect("there");
        assert_eq!(password.reveal(), "hush");
        assert_eq!(format!("{password:?}"), "(a secret)");
    }
}
