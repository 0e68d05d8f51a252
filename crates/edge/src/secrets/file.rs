//! The file of the server's keys.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{Kept, Secret, TicketKey};

/// Its name in `state.dir`.
pub(super) const NAME: &str = "keys.json";
const OWNER_ALONE: u32 = 0o600;

#[derive(Serialize, Deserialize)]
struct Content {
    /// Base64, as every key.
    quic: String,
    tickets: Vec<Ticket>,
}

#[derive(Serialize, Deserialize)]
struct Ticket {
    /// Seconds since the Unix epoch.
    made: u64,
    key: String,
}

/// The keys in the file; `None`, and a warning, where they are of no use.
pub(super) fn read(path: &Path) -> Option<Kept> {
    let why = match fs::read(path) {
        Ok(text) => match parse(&text) {
            Ok(kept) => {
                close_to_others(path);
                return Some(kept);
            }
            Err(why) => why,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => error.to_string(),
    };
    tracing::warn!(
        "reading the server's keys from {}: {why}; they are drawn anew: clients cannot resume \
         their sessions, and learn late of QUIC connections that are gone",
        path.display()
    );
    None
}

/// The keys of a file's content; else its fault.
pub(super) fn parse(text: &[u8]) -> Result<Kept, String> {
    let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let tickets = content.tickets.iter().map(|ticket| {
        let secret = decode(&ticket.key)?;
        Ok::<_, String>(TicketKey::new(secret, ticket.made))
    });
    Ok(Kept {
        quic: decode(&content.quic)?,
        tickets: tickets.collect::<Result<_, _>>()?,
    })
}

fn decode(text: &str) -> Result<Secret, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    let secret = Secret::try_from(bytes.as_slice());
    secret.map_err(|_| format!("a key of {} bytes, where 32 are expected", bytes.len()))
}

/// Takes away other users' permissions on the file.
fn close_to_others(path: &Path) {
    let open = fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0);
    if !open {
        return;
    }
    let closed = fs::set_permissions(path, Permissions::from_mode(OWNER_ALONE));
    let path = path.display();
    match closed {
        Ok(()) => tracing::warn!(
            "{path} was open to others; its mode is 0600 now. Delete it and restart if one of \
             them may have read it"
        ),
        Err(error) => tracing::warn!("{path} is open to others, and stays so: {error}"),
    }
}

/// The content of a file with these keys.
pub(super) fn encode(quic: &Secret, tickets: &[TicketKey]) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Content {
        quic: STANDARD.encode(quic),
        tickets: tickets
            .iter()
            .map(|key| Ticket {
                made: key.made(),
                key: STANDARD.encode(key.secret()),
            })
            .collect(),
    })
}

/// Replaces the file by one with these keys, which is whole or not there at any time.
pub(super) fn write(path: &Path, quic: &Secret, tickets: &[TicketKey]) -> io::Result<()> {
    hikyaku_acme::replace_file(path, &encode(quic, tickets)?)
}
