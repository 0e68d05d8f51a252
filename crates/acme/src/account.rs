//! The account at an authority, which all certificates share.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use instant_acme::{Account, AccountCredentials, Error, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::client::Http;
use crate::failure::Failure;
use crate::peers::{Common, Given, Peers, Turn};
use crate::record::{self, digest, replace_file};
use crate::setup::{Binding, Setup};

/// An authority, with the account there.
pub(crate) struct Authority {
    /// URL of its directory.
    pub(crate) directory: String,
    pub(crate) http: Http,
    contact: Vec<String>,
    binding: Option<Binding>,
    file: PathBuf,
    peers: Option<Arc<dyn Peers>>,
    /// Its name among the servers of a fleet.
    common: String,
    /// The credentials that the authority does not know.
    unknown: Mutex<Option<serde_json::Value>>,
    /// One at a time asks for an account, so that only one is made.
    account: Mutex<Option<Account>>,
}

/// The content of an account's file.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// When the account was made, in seconds since the Unix epoch.
    #[serde(default)]
    made: i64,
    contact: Vec<String>,
    credentials: serde_json::Value,
}

impl Authority {
    /// The authorities of the configuration, in order.
    pub(crate) fn all(setup: &Setup, state: &Path, peers: Option<&Arc<dyn Peers>>) -> Vec<Self> {
        let directories = setup.directories.iter();
        let authority = |directory: &String| Self {
            directory: directory.clone(),
            http: Http::of(&setup.client),
            contact: setup.contact.clone(),
            binding: setup.bindings.get(directory).cloned(),
            file: file(state, directory),
            peers: peers.cloned(),
            common: record::long_digest(directory),
            unknown: Mutex::default(),
            account: Mutex::default(),
        };
        directories.map(authority).collect()
    }

    /// The host of its directory, for people.
    pub(crate) fn host(&self) -> &str {
        host(&self.directory)
    }

    /// The account, from the file or made now.
    ///
    /// # Errors
    /// When the authority refuses, or the account can't be stored.
    pub(crate) async fn account(&self) -> Result<Account, Failure> {
        let mut known = self.account.lock().await;
        if let Some(account) = &*known {
            return Ok(account.clone());
        }
        let account = match self.stored() {
            Some(stored) => self.restore(self.in_common(stored)?).await?,
            None => self.make_or_take().await?,
        };
        Ok(known.insert(account).clone())
    }

    /// Reads the directory again before the next order: it may have changed.
    pub(crate) async fn forget(&self) {
        *self.account.lock().await = None;
    }

    /// Makes another account before the next order: the authority does not know this one.
    pub(crate) async fn lost(&self) {
        let mut known = self.account.lock().await;
        *known = None;
        *self.unknown.lock().await = self.stored().map(|stored| stored.credentials);
        tracing::warn!("{} does not know our account: another is made", self.host());
        if let Err(error) = fs::remove_file(&self.file)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("removing {}: {error}", self.file.display());
        }
    }

    fn stored(&self) -> Option<Stored> {
        let why = match fs::read(&self.file) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(stored) => return Some(stored),
                Err(error) => error.to_string(),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => error.to_string(),
        };
        let (file, host) = (self.file.display(), self.host());
        tracing::warn!("reading the account at {host} from {file}: {why}; another is made");
        None
    }

    async fn restore(&self, stored: Stored) -> Result<Account, Failure> {
        let credentials: AccountCredentials = serde_json::from_value(stored.credentials.clone())
            .map_err(|error| {
                let file = self.file.display();
                Failure::own(format!(
                    "reading the account from {file}: {error}; remove the file"
                ))
            })?;
        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        let account = builder.from_credentials(credentials).await;
        let account = account.map_err(|error| self.failed("reading the directory", &error))?;
        if stored.contact != self.contact {
            let contact: Vec<_> = self.contact.iter().map(String::as_str).collect();
            let updated = account.update_contacts(&contact).await;
            updated.map_err(|error| self.failed("changing the account's mail address", &error))?;
            self.store(&Stored {
                contact: self.contact.clone(),
                ..stored
            })?;
        }
        Ok(account)
    }

    /// The account that all servers of a fleet use: this one, or one that another has.
    fn in_common(&self, own: Stored) -> Result<Stored, Failure> {
        self.give(&own);
        match self.of_peers() {
            Some(theirs) if theirs.credentials != own.credentials => {
                self.store(&theirs)?;
                Ok(theirs)
            }
            _ => Ok(own),
        }
    }

    /// The account that another server of the fleet has, unless the authority does not know it.
    fn of_peers(&self) -> Option<Stored> {
        let content = self
            .peers
            .as_ref()?
            .content(Common::Account, &self.common)?;
        let theirs: Stored = serde_json::from_slice(&content).ok()?;
        let unknown = self.unknown.try_lock().ok()?;
        (unknown.as_ref() != Some(&theirs.credentials)).then_some(theirs)
    }

    fn give(&self, stored: &Stored) {
        if let (Some(peers), Ok(content)) = (&self.peers, serde_json::to_vec(stored)) {
            let given = Given {
                stamp: (stored.made, 0),
                until: now().saturating_add(ACCOUNT_LIFE),
                title: self.host().to_owned(),
                content,
            };
            peers.give(Common::Account, &self.common, given);
        }
    }

    /// Takes the account that another server has, or makes one while no other does.
    async fn make_or_take(&self) -> Result<Account, Failure> {
        let Some(peers) = &self.peers else {
            return self.make().await;
        };
        for _ in 0..TURNS {
            let turn = peers.turn(Common::Account, &self.common).await;
            if turn == Turn::Own {
                peers.exchanged().await;
            }
            if let Some(theirs) = self.of_peers() {
                self.store(&theirs)?;
                peers.end_turn(Common::Account, &self.common).await;
                return self.restore(theirs).await;
            }
            if turn != Turn::Elsewhere {
                break;
            }
            tokio::time::sleep(TURN).await;
        }
        let made = self.make().await;
        peers.exchanged().await;
        peers.end_turn(Common::Account, &self.common).await;
        made
    }

    async fn make(&self) -> Result<Account, Failure> {
        let contact: Vec<_> = self.contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let binding = self.binding.as_ref();
        let binding = binding.map(|own| ExternalAccountKey::new(own.kid.clone(), &own.key));
        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        let made = builder.create(&new, self.directory.clone(), binding.as_ref());
        let (account, credentials) = made
            .await
            .map_err(|error| self.failed("making an account", &error))?;
        let credentials = serde_json::to_value(&credentials);
        let credentials = credentials.map_err(|error| Failure::own(error.to_string()))?;
        let stored = Stored {
            made: now(),
            contact: self.contact.clone(),
            credentials,
        };
        self.store(&stored)?;
        self.give(&stored);
        tracing::info!("account made at {}: {}", self.host(), account.id());
        Ok(account)
    }

    fn store(&self, stored: &Stored) -> Result<(), Failure> {
        let written = serde_json::to_vec_pretty(stored).map_err(io::Error::other);
        let written = written.and_then(|text| replace_file(&self.file, &text));
        let file = self.file.display();
        written.map_err(|error| Failure::own(format!("writing the account to {file}: {error}")))
    }

    fn failed(&self, attempt: &str, error: &Error) -> Failure {
        Failure::of(attempt, error, self.http.retry_after())
    }
}

/// Looks for the account that another server makes, and the time between them.
const TURNS: u32 = 40;
const TURN: Duration = Duration::from_secs(1);

/// Seconds for which the servers of a fleet keep an account that none of them uses.
const ACCOUNT_LIFE: i64 = 365 * 24 * 3600;

fn now() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |time| time.as_secs().cast_signed())
}

/// The host of a URL, or all of it where it has none.
pub(crate) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest)
}

fn file(state: &Path, directory: &str) -> PathBuf {
    let host = host(directory).replace(':', "_");
    record::directory(state).join(format!("account-{host}-{}.json", digest(directory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_has_an_account_of_its_own() {
        let file = |directory| file(Path::new("/s"), directory);
        let (one, other) = (
            "https://ca.example:14000/dir",
            "https://ca.example:14000/dir2",
        );
        let name = file(one);
        let name = name.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("account-ca.example_14000-"), "{name}");
        assert_ne!(file(one), file(other));
        assert_eq!(host("no url"), "no url");
    }
}
