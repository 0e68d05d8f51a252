//! Keys that outlive the process, so that what clients hold from before a restart still counts.
//!
//! One small file in `state.dir`, for its owner alone (mode 0600), replaced as a whole. It is never a
//! reason not to serve: where it can't be read or written, keys are drawn anew and the log says so.
//!
//! The edges of a fleet have secrets in common besides, in a file that the operator writes. Keys of
//! those go before the server's own, so that a client may come to any edge.

mod epochs;
mod file;
mod key_file;
mod ring;
mod tickets;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::causes::chain;
pub(crate) use epochs::Epoch;
use hikyaku_fleet::{Board, FleetConfig};
use key_file::KeyFile;
pub use key_file::KeyFileError;
pub(crate) use key_file::check as check_key_file;
pub(crate) use ring::Ring;
pub(crate) use tickets::{Opened, TicketKey, Tickets};

/// Between looks whether the ticket key is due to be replaced.
const ROTATION_CHECK: Duration = Duration::from_secs(60);

/// Between looks whether the fleet's secrets have changed.
const FILE_CHECK: Duration = Duration::from_secs(2);

/// A secret of 256 bits.
pub(crate) type Secret = [u8; 32];

/// Why no secret could be drawn.
#[derive(Debug, thiserror::Error)]
#[error("drawing a secret from the system's random numbers")]
pub struct NoRandomness;

/// The server's keys.
#[derive(Debug)]
pub(crate) struct Secrets {
    /// `None` where the keys live as long as the process.
    file: Option<PathBuf>,
    quic: QuicSecret,
    /// Keys that session tickets are encrypted with.
    pub(crate) tickets: Arc<Tickets>,
    /// Keys of QUIC.
    pub(crate) ring: Arc<Ring>,
    /// `None` without `fleet.key_file`.
    fleet: Option<Fleet>,
    /// Contents that the fleet has in common, sealed by its secrets.
    pub(crate) board: Arc<Board>,
    /// Another process replaces them, and keeps the file.
    is_lent: AtomicBool,
}

/// Secret that QUIC's keys are derived from.
#[derive(Clone)]
struct QuicSecret(Secret);

impl std::fmt::Debug for QuicSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QuicSecret")
    }
}

/// Secrets that edges have in common.
struct Fleet {
    file: KeyFile,
    share_ids: bool,
    /// The newest first.
    secrets: Mutex<Vec<Secret>>,
    /// Keys that came by the fleet's store, the newest first.
    stored: Mutex<Vec<Epoch>>,
    /// The secrets of these that QUIC's tokens are made with.
    of_tokens: Mutex<Vec<Secret>>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Fleet").field(&self.file).finish()
    }
}

impl Secrets {
    /// Takes the keys of `dir`, drawing those that are missing or too old; without `dir` draws all. Keys
    /// `of_former`, a process that still runs, go before.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn load(dir: Option<&Path>, of_former: Option<Kept>) -> Result<Self, NoRandomness> {
        let file = dir.map(|dir| dir.join(file::NAME));
        let kept = of_former.or_else(|| file.as_deref().and_then(file::read));
        let is_new = kept.is_none();
        let (quic, tickets) = match kept {
            Some(kept) => (kept.quic, kept.tickets),
            None => (draw()?, Vec::new()),
        };
        let secrets = Self {
            file,
            ring: Arc::new(Ring::new(quic)),
            quic: QuicSecret(quic),
            tickets: Arc::new(Tickets::new(tickets)),
            fleet: None,
            board: Arc::default(),
            is_lent: AtomicBool::new(false),
        };
        if secrets.rotate()? || is_new {
            secrets.write();
        }
        Ok(secrets)
    }

    /// Uses the secrets of the fleet, where there are any, before these.
    ///
    /// # Errors
    /// When their file can't be used.
    pub(crate) fn in_fleet(mut self, config: &FleetConfig) -> Result<Self, KeyFileError> {
        let Some(path) = &config.key_file else {
            return Ok(self);
        };
        let file = KeyFile::new(path);
        let secrets = file.read()?;
        self.fleet = Some(Fleet {
            file,
            share_ids: config.shared_addresses,
            secrets: Mutex::default(),
            stored: Mutex::default(),
            of_tokens: Mutex::default(),
        });
        self.share(secrets);
        Ok(self)
    }

    /// Reads the secrets of the fleet again; empty without any. [`Secrets::share`] takes them into use.
    ///
    /// # Errors
    /// When their file can't be used.
    pub(crate) fn read_shared(&self) -> Result<Vec<Secret>, KeyFileError> {
        let read = self.fleet.as_ref().map(|fleet| fleet.file.read());
        read.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Takes secrets of the fleet into use. Returns whether they are others than before.
    pub(crate) fn share(&self, secrets: Vec<Secret>) -> bool {
        let Some(fleet) = &self.fleet else {
            return false;
        };
        let mut former = fleet.secrets.lock();
        let changes = *former != secrets;
        *former = secrets;
        self.tickets.share(&former, now());
        self.board.set_secrets(&former);
        let stored = fleet.of_tokens.lock();
        self.ring.share(&stored, &former, fleet.share_ids);
        changes
    }

    /// Uses keys that came by the fleet's store before those of its file. Says whether others are due.
    pub(crate) fn store_keys(&self, epochs: Vec<Epoch>) -> bool {
        let Some(fleet) = &self.fleet else {
            return false;
        };
        let now = now();
        let epochs = epochs::valid(epochs, now);
        self.tickets.store(&epochs);
        let is_due = epochs::is_due(&epochs, now);
        let of_tokens = epochs::in_use(&epochs, now);
        *fleet.stored.lock() = epochs;
        let secrets = fleet.secrets.lock();
        let mut former = fleet.of_tokens.lock();
        if *former != of_tokens {
            self.ring.share(&of_tokens, &secrets, fleet.share_ids);
            *former = of_tokens;
        }
        is_due
    }

    /// The keys that came by the fleet's store with another, which replaces the newest in time.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn next_keys(&self) -> Result<Vec<Epoch>, NoRandomness> {
        let stored = self.fleet.as_ref().map(|fleet| fleet.stored.lock().clone());
        Ok(epochs::with_next(
            stored.unwrap_or_default(),
            draw()?,
            now(),
        ))
    }

    /// Replaces the ticket keys that are due. Returns whether the file has to be written.
    ///
    /// # Errors
    /// When the system has no random numbers.
    fn rotate(&self) -> Result<bool, NoRandomness> {
        let now = now();
        if let Some(fleet) = &self.fleet {
            self.tickets.share(&fleet.secrets.lock(), now);
        }
        self.tickets.rotate(now, draw)
    }

    /// The keys for another process of this server, as [`Kept::parse`] takes them.
    ///
    /// # Errors
    /// When they can't be encoded.
    pub(crate) fn export(&self) -> serde_json::Result<Vec<u8>> {
        file::encode(&self.quic.0, &self.tickets.keys())
    }

    /// Leaves the keys to another process, or takes them back.
    pub(crate) fn lend(&self, is_lent: bool) {
        self.is_lent.store(is_lent, Ordering::Relaxed);
    }

    /// Writes the file, if there is one; returns whether it holds the keys in use.
    fn write(&self) -> bool {
        let Some(path) = &self.file else {
            return true;
        };
        let written = file::write(path, &self.quic.0, &self.tickets.keys());
        if let Err(error) = &written {
            tracing::warn!(
                "writing the server's keys to {}: {error}; session tickets and QUIC connections \
                 do not survive a restart until it succeeds",
                path.display()
            );
        }
        written.is_ok()
    }
}

/// Replaces the ticket key in time, and tries again to write what could not be written.
pub(crate) async fn rotate_in_time(secrets: Arc<Secrets>, end: CancellationToken) {
    let mut written = true;
    while end
        .run_until_cancelled(tokio::time::sleep(ROTATION_CHECK))
        .await
        .is_some()
    {
        if secrets.is_lent.load(Ordering::Relaxed) {
            continue;
        }
        match secrets.rotate() {
            Ok(rotated) => written &= !rotated,
            Err(error) => tracing::warn!("replacing the key of session tickets: {error}"),
        }
        if !written {
            let secrets = Arc::clone(&secrets);
            let writing = tokio::task::spawn_blocking(move || secrets.write());
            written = writing.await.unwrap_or(false);
        }
    }
}

/// Takes the secrets of the fleet into use when their file has changed. While it can't be used, the former
/// ones stay.
pub(crate) async fn follow_fleet(secrets: Arc<Secrets>, end: CancellationToken) {
    let Some(fleet) = &secrets.fleet else {
        return;
    };
    while end
        .run_until_cancelled(tokio::time::sleep(FILE_CHECK))
        .await
        .is_some()
    {
        if !fleet.file.is_outdated() {
            continue;
        }
        match secrets.read_shared() {
            Ok(read) => {
                let count = read.len();
                if secrets.share(read) {
                    tracing::info!("the fleet's secrets have changed; {count} are in use");
                }
            }
            // Written half, perhaps: the change is looked at again when it goes on.
            Err(error) => {
                let why = chain(&error);
                tracing::warn!("{why}; the former secrets stay in use");
            }
        }
    }
}

/// A key for one use, made of a secret that is for no use itself.
pub(crate) fn derive(secret: &Secret, label: &str) -> Secret {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let mut derived = Secret::default();
    derived.copy_from_slice(hmac::sign(&key, label.as_bytes()).as_ref());
    derived
}

/// # Errors
/// When the system has no random numbers.
pub(crate) fn draw() -> Result<Secret, NoRandomness> {
    let mut secret = Secret::default();
    let drawn = SystemRandom::new().fill(&mut secret);
    drawn.map(|()| secret).map_err(|_| NoRandomness)
}

/// Seconds since the Unix epoch.
fn now() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.map_or(0, |time| time.as_secs())
}

/// Secrets that a file holds.
pub(crate) struct Kept {
    quic: Secret,
    tickets: Vec<TicketKey>,
}

impl Kept {
    /// Reads what [`Secrets::export`] has made.
    ///
    /// # Errors
    /// The fault, in words.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        file::parse(text)
    }
}

#[cfg(test)]
mod tests;
