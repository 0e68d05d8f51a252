//! Keys that outlive the process, so that what clients hold from before a restart still counts.
//!
//! One small file in `state.dir`, for its owner alone (mode 0600), replaced as a whole. It is never a
//! reason not to serve: where it can't be read or written, keys are drawn anew and the log says so.

mod file;
mod tickets;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use tokio_util::sync::CancellationToken;

pub(crate) use tickets::{TicketKey, Tickets};

/// Between looks whether the ticket key is due to be replaced.
const ROTATION_CHECK: Duration = Duration::from_secs(60);

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
}

/// Secret that QUIC's keys are derived from.
#[derive(Clone)]
struct QuicSecret(Secret);

impl std::fmt::Debug for QuicSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QuicSecret")
    }
}

impl Secrets {
    /// Takes the keys of `dir`, drawing those that are missing or too old; without `dir` draws all.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn load(dir: Option<&Path>) -> Result<Self, NoRandomness> {
        let file = dir.map(|dir| dir.join(file::NAME));
        let kept = file.as_deref().and_then(file::read);
        let is_new = kept.is_none();
        let (quic, tickets) = match kept {
            Some(kept) => (kept.quic, kept.tickets),
            None => (draw()?, Vec::new()),
        };
        let secrets = Self {
            file,
            quic: QuicSecret(quic),
            tickets: Arc::new(Tickets::new(tickets)),
        };
        if secrets.tickets.rotate(now(), draw)? || is_new {
            secrets.write();
        }
        Ok(secrets)
    }

    /// The key for one use in QUIC. Uses differ by their label, so that no key reveals another.
    pub(crate) fn of_quic(&self, label: &str) -> Secret {
        derive(&self.quic.0, label)
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
        match secrets.tickets.rotate(now(), draw) {
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
struct Kept {
    quic: Secret,
    tickets: Vec<TicketKey>,
}

#[cfg(test)]
mod tests;
