//! Reading the configuration, and checking how its keys fit together.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hikyaku_acme::ChallengeKind;

use super::{Config, InClear, SiteSection};
use crate::egress::{Classes, ClassesError};
use crate::tls;

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("reading the configuration from {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A key or value in the file is wrong; the text shows the line.
    #[error("in {}:\n{why}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, caret and the value that was expected.
        why: String,
    },
    /// A `--set` is wrong.
    #[error("in `--set {assignment}`: {why}")]
    Set {
        /// As it was given.
        assignment: String,
        /// The value that was expected.
        why: String,
    },
    /// Keys that do not fit together.
    #[error("{0}")]
    Conflict(String),
}

impl From<ClassesError> for ConfigError {
    fn from(error: ClassesError) -> Self {
        Self::Conflict(error.to_string())
    }
}

impl Config {
    /// Reads `file`, if given, and then applies `KEY=VALUE` assignments to it, such as
    /// `policy.version=h2`. Values may be written without quotes.
    ///
    /// # Errors
    /// When the file can't be read, or a key or value is wrong.
    // Inlined into the program, which is built for size: readers of all keys are 2 MB of fast code.
    #[inline]
    pub fn load(file: Option<&Path>, assignments: &[String]) -> Result<Self, ConfigError> {
        let mut table = match file {
            Some(path) => read_table(path)?,
            None => toml::Table::new(),
        };
        for assignment in assignments {
            table = set(&table, assignment).map_err(|why| ConfigError::Set {
                assignment: assignment.clone(),
                why,
            })?;
        }
        inherit(&mut table);
        of_table(&table).map_err(|error| ConfigError::Conflict(error.message().to_owned()))
    }

    /// Checks how the keys fit together, which no single key can show.
    ///
    /// # Errors
    /// When keys do not fit together; the text says which and what to do.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
    }

    /// All keys that do not fit together.
    pub(crate) fn faults(&self) -> Vec<ConfigError> {
        let sites = self.sites.iter().map(check_site);
        let others = [
            self.check_content(),
            self.check_listen(),
            self.check_tls(),
            self.check_state_of_acme(),
            Classes::new(&self.classes).map(drop).map_err(Into::into),
            self.check_admin(),
        ];
        let acme = self.faults_of_acme().into_iter().map(ConfigError::Conflict);
        let faults = sites.chain(others).filter_map(Result::err);
        let fleet = self
            .faults_of_fleet()
            .into_iter()
            .map(ConfigError::Conflict);
        let gain = self.gain.faults().into_iter().map(ConfigError::Conflict);
        let tracing = self.tracing.fault().map(ConfigError::Conflict);
        let faults = faults.chain(acme).chain(fleet);
        faults.chain(gain).chain(tracing).collect()
    }

    fn faults_of_fleet(&self) -> Vec<String> {
        let mut faults = self.fleet.faults();
        if self.fleet.is_on() {
            faults.extend(self.fleet.edge_name().err());
        }
        faults
    }

    /// Whether there is content for hosts that no site names.
    pub(crate) fn serves_all_hosts(&self) -> bool {
        self.root.is_some() || self.upstream.is_some() || !self.routes.is_empty()
    }

    /// Whether the content of any site is served in the clear.
    #[must_use]
    pub fn serves_in_clear(&self) -> bool {
        let sites = self
            .sites
            .iter()
            .map(|site| site.http.unwrap_or(self.http.serve));
        let mut all = sites.chain([self.http.serve]);
        !self.http.listen.is_empty() && all.any(|one| one == InClear::Content)
    }

    /// The names of each certificate that is got by ACME: the server's, then those of sites.
    pub(crate) fn names_by_acme(&self) -> impl Iterator<Item = &Vec<String>> {
        let server = (!self.tls.acme.is_empty()).then_some(&self.tls.acme);
        let sites = self.sites.iter().filter(|site| site.tls.acme);
        server.into_iter().chain(sites.map(|site| &site.names))
    }

    /// How authorities check these names, in order of preference; nothing where there are none.
    pub(crate) fn challenges(&self) -> Vec<ChallengeKind> {
        match self.names_by_acme().next() {
            Some(_) => self.acme.challenges(!self.http.listen.is_empty()),
            None => Vec::new(),
        }
    }

    fn faults_of_acme(&self) -> Vec<String> {
        let cleartext = !self.http.listen.is_empty();
        let names = self.names_by_acme().flatten();
        let refusals = names.filter_map(|name| self.acme.refusal(name, cleartext));
        let mut faults = self.acme.faults(cleartext);
        faults.extend(refusals);
        faults
    }

    fn check_state_of_acme(&self) -> Result<(), ConfigError> {
        match self.names_by_acme().next() {
            Some(_) if self.state.dir.is_none() => Err(conflict(
                "certificates by ACME need `state.dir`: without it, each start would order them anew, and \
                 authorities soon refuse that",
            )),
            _ => Ok(()),
        }
    }

    fn check_listen(&self) -> Result<(), ConfigError> {
        match self.listen.is_empty() && !self.serves_in_clear() {
            true => Err(conflict(
                "`listen` is empty: name at least one ADDRESS:PORT or PORT, or serve content in the clear \
                 (`http.listen` and `http.serve = \"content\"`)",
            )),
            false => Ok(()),
        }
    }

    fn check_content(&self) -> Result<(), ConfigError> {
        if !self.sites.is_empty() && !self.shards.hosts.is_empty() {
            return Err(conflict(
                "`shards.hosts` and `[[site]]` can't be together: a shard has the content of one site",
            ));
        }
        match (&self.root, &self.upstream) {
            (None, None) if !self.serves_all_hosts() && self.sites.is_empty() => Err(conflict(
                "nothing to serve: give a directory (ROOT or `root`) or a server to pass \
                 requests to (`--upstream URL` or `upstream`)",
            )),
            (Some(_), Some(_)) => Err(conflict(
                "both `root` and `upstream` are set: keep one of them",
            )),
            _ => Ok(()),
        }
    }

    fn check_tls(&self) -> Result<(), ConfigError> {
        if self.tls.cert.is_empty() != self.tls.key.is_empty() {
            return Err(conflict(
                "`tls.cert` and `tls.key` belong together: set both or none",
            ));
        }
        let (certs, keys) = (self.tls.cert.len(), self.tls.key.len());
        if certs != keys {
            return Err(ConfigError::Conflict(format!(
                "`tls.cert` has {certs} files and `tls.key` {keys}: each certificate has a key"
            )));
        }
        if !self.tls.acme.is_empty() && certs > 0 {
            return Err(conflict(
                "both `tls.acme` and `tls.cert` are set: keep one of them",
            ));
        }
        if let Some(name) = self.tls.acme.iter().find(|name| !tls::is_valid_name(name)) {
            return Err(ConfigError::Conflict(format!(
                "`tls.acme` holds `{name}`, which is no DNS name"
            )));
        }
        if let Some(name) = self.tls.names.iter().find(|name| !tls::is_valid_name(name)) {
            return Err(ConfigError::Conflict(format!(
                "`tls.names` holds `{name}`, which is neither a DNS name nor an IP address"
            )));
        }
        Ok(())
    }

    fn check_admin(&self) -> Result<(), ConfigError> {
        if let Some(address) = &self.admin.listen.0
            && !address.is_loopback()
            && self.admin.token.as_deref().unwrap_or_default().is_empty()
        {
            return Err(ConfigError::Conflict(format!(
                "`admin.listen` is {address}, which others can reach: set `admin.token`, or use \
                 a loopback address"
            )));
        }
        Ok(())
    }
}

fn check_site(site: &SiteSection) -> Result<(), ConfigError> {
    let Some(name) = site.names.first() else {
        return Err(conflict(
            "a `[[site]]` has no `names`: what is for all other hosts stands outside of the sites",
        ));
    };
    let fault = match (&site.root, &site.upstream) {
        (None, None) if site.routes.is_empty() => {
            "has nothing to serve: give it a `root`, an `upstream` or routes"
        }
        (Some(_), Some(_)) => "has both `root` and `upstream`: keep one of them",
        _ if site.tls.cert.len() != site.tls.key.len() => {
            "needs as many files in `tls.key` as in `tls.cert`"
        }
        _ if site.tls.acme && !site.tls.cert.is_empty() => {
            "has both `tls.acme` and `tls.cert`: keep one of them"
        }
        _ => return Ok(()),
    };
    Err(ConfigError::Conflict(format!("the site `{name}` {fault}")))
}

fn conflict(text: &str) -> ConfigError {
    ConfigError::Conflict(text.to_owned())
}

#[inline]
fn read_table(path: &Path) -> Result<toml::Table, ConfigError> {
    let text = fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    // Parsed into `Config` for its messages: they show the line and the accepted keys.
    let parse = |error: toml::de::Error| ConfigError::Parse {
        path: path.to_owned(),
        why: error.to_string(),
    };
    toml::from_str::<Config>(&text).map_err(parse)?;
    toml::from_str(&text).map_err(parse)
}

/// By way of text: a second kind of deserializer would be two megabytes more of code.
#[inline]
fn of_table(table: &toml::Table) -> Result<Config, toml::de::Error> {
    toml::from_str(&table.to_string())
}

/// Gives sites and routes the keys that their own [`SETTINGS`] lack, from what they are in.
fn inherit(table: &mut toml::Table) {
    for key in SETTINGS {
        let outer = table.get(key).and_then(toml::Value::as_table).cloned();
        let outer = outer.unwrap_or_default();
        for site in tables(table, "site") {
            let own = site.entry(key).or_insert_with(|| toml::Table::new().into());
            if let Some(own) = own.as_table_mut() {
                fill_in(own, &outer);
            }
            let own = site.get(key).and_then(toml::Value::as_table).cloned();
            fill_in_routes(site, key, &own.unwrap_or_default());
        }
        fill_in_routes(table, key, &outer);
    }
}

/// Gives the routes of a site the keys that their own settings lack.
fn fill_in_routes(site: &mut toml::Table, key: &str, outer: &toml::Table) {
    for route in tables(site, "route") {
        if let Some(toml::Value::Table(own)) = route.get_mut(key) {
            fill_in(own, outer);
        }
    }
}

/// The tables of an array.
fn tables<'a>(table: &'a mut toml::Table, key: &str) -> impl Iterator<Item = &'a mut toml::Table> {
    let array = table.get_mut(key).and_then(toml::Value::as_array_mut);
    let values = array.into_iter().flatten();
    values.filter_map(toml::Value::as_table_mut)
}

/// Sections that sites and routes may have of their own.
const SETTINGS: [&str; 5] = ["files", "proxy", "cache", "compression", "beacon"];

fn fill_in(inner: &mut toml::Table, outer: &toml::Table) {
    for (key, value) in outer {
        match (inner.get_mut(key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(outer)) => fill_in(inner, outer),
            (Some(_), _) => {}
            (None, value) => {
                inner.insert(key.clone(), value.clone());
            }
        }
    }
}

/// `table` with `KEY=VALUE` applied. The value is taken as TOML where that gives a usable
/// configuration, else as a string: `1.3` may be a number or a version.
#[inline]
fn set(table: &toml::Table, assignment: &str) -> Result<toml::Table, String> {
    let (key, text) = assignment
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or("expected KEY=VALUE, such as policy.version=h2")?;
    let parsed = format!("v = {text}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut table| table.remove("v"));
    let string = toml::Value::String(text.to_owned());
    let mut wrong = String::new();
    for value in parsed.into_iter().chain([string]) {
        let mut changed = table.clone();
        insert(&mut changed, key, value)?;
        match of_table(&changed) {
            Ok(_) => return Ok(changed),
            // A string is expected, and this is none: the next try names the mistake.
            Err(error) if error.message().ends_with("expected a string") => {}
            Err(error) if wrong.is_empty() => wrong = error.message().to_owned(),
            Err(_) => {}
        }
    }
    Err(wrong)
}

fn insert(table: &mut toml::Table, key: &str, value: toml::Value) -> Result<(), String> {
    let (parents, last) = match key.rsplit_once('.') {
        Some((parents, last)) => (parents.split('.').collect(), last),
        None => (Vec::new(), key),
    };
    let mut at = table;
    for name in parents {
        at = at
            .entry(name)
            .or_insert_with(|| toml::Table::new().into())
            .as_table_mut()
            .ok_or_else(|| format!("`{name}` holds a value, not keys"))?;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}
