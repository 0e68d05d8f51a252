//! Access by name and password (RFC 7617).

use std::sync::{Arc, LazyLock};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use hashbrown::HashMap;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use parking_lot::RwLock;
use tokio::sync::Semaphore;

use super::config::BasicAuthConfig;
use super::refuse;
use super::users::{Users, UsersError};
use crate::{Body, Refused};

/// Bytes of a name and password with their colon.
const MAX_CREDENTIALS: usize = 1024;

/// Requests that wait for the check of a password, besides those that are checked.
const MAX_WAITING: usize = 256;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Checks of passwords at once, in all sites: half of the cores, since each takes all of one for up to a
/// second. Who guesses passwords can't have more than that.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new((cores / 2).max(1))
});

/// Requests that are checked, or wait for it.
static PLACES: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(TURNS.available_permits() + MAX_WAITING));

/// Asks for a name and a password.
pub(super) struct BasicAuth {
    users: Users,
    challenge: HeaderValue,
    proven: Proven,
}

/// Passwords that were found right, so that each is hashed slowly only once.
///
/// There is one for each user at most. A MAC of it is kept, whose key never leaves the process.
struct Proven {
    key: hmac::Key,
    by_name: RwLock<HashMap<Box<str>, hmac::Tag>>,
}

/// Why [`BasicAuth`] can't be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum BasicAuthError {
    #[error(transparent)]
    Users(#[from] UsersError),
    #[error("`basic_auth.realm` has a control character")]
    Realm,
    #[error("making a key: the system has no randomness")]
    NoKey,
}

/// A user who is known by name and password, in the extensions of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User(pub Arc<str>);

impl BasicAuth {
    pub(super) fn new(config: &BasicAuthConfig) -> Result<Self, BasicAuthError> {
        let realm = config.realm.replace('\\', "\\\\").replace('"', "\\\"");
        let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
        let system = rand::SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &system);
        Ok(Self {
            users: Users::read(&config.users)?,
            challenge: HeaderValue::try_from(challenge).map_err(|_| BasicAuthError::Realm)?,
            proven: Proven {
                key: key.map_err(|_| BasicAuthError::NoKey)?,
                by_name: RwLock::default(),
            },
        })
    }

    /// Returns the user of a request, or the response that asks for one.
    pub(super) async fn check(&self, headers: &HeaderMap) -> Result<User, Response<Body>> {
        let Some(credentials) = headers.get(header::AUTHORIZATION).and_then(decode) else {
            return Err(self.ask("no name and password"));
        };
        let Some((name, password)) = credentials.split_once(':') else {
            return Err(self.ask("no name and password"));
        };
        if !self.proven.is(name, password) {
            self.prove(name, password).await?;
        }
        Ok(User(name.into()))
    }

    /// Checks a password the slow way. An unknown name takes as long as a known one.
    async fn prove(&self, name: &str, password: &str) -> Result<(), Response<Body>> {
        let Ok(_place) = PLACES.try_acquire() else {
            return Err(busy());
        };
        let known = self.users.get(name);
        let hash = known.unwrap_or(self.users.any()).clone();
        let checked = password.to_owned();
        let is_right = in_turn(&TURNS, move || hash.is_of(checked.as_bytes())).await;
        if known.is_none() || is_right != Some(true) {
            return Err(self.ask("wrong name or password"));
        }
        self.proven.add(name, password);
        Ok(())
    }

    fn ask(&self, reason: &str) -> Response<Body> {
        let mut response = refuse(StatusCode::UNAUTHORIZED, Refused::Credentials, reason);
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, self.challenge.clone());
        response
    }
}

/// Works in a thread of its own when it is this work's turn; `None` if the runtime shuts down.
///
/// The turn lasts as long as the work, also when nobody waits for it any more. Who gives up and comes again
/// gets no more of the cores.
async fn in_turn<T: Send + 'static>(
    turns: &'static Semaphore,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let turn = turns.acquire().await.ok()?;
    let working = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    working.await.ok()
}

impl Proven {
    fn is(&self, name: &str, password: &str) -> bool {
        let tag = self.tag(password);
        let by_name = self.by_name.read();
        let known = by_name.get(name);
        known.is_some_and(|known| verify_slices_are_equal(known.as_ref(), tag.as_ref()).is_ok())
    }

    fn add(&self, name: &str, password: &str) {
        let tag = self.tag(password);
        self.by_name.write().insert(name.into(), tag);
    }

    fn tag(&self, password: &str) -> hmac::Tag {
        hmac::sign(&self.key, password.as_bytes())
    }
}

/// The name and password of an `Authorization` field, with a colon between them.
fn decode(value: &HeaderValue) -> Option<String> {
    let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("Basic") || encoded.len() > MAX_CREDENTIALS * 4 / 3 {
        return None;
    }
    let decoded = BASE64.decode(encoded.trim()).ok()?;
    String::from_utf8(decoded).ok()
}

/// Too many passwords are being checked.
fn busy() -> Response<Body> {
    let mut response = refuse(
        StatusCode::SERVICE_UNAVAILABLE,
        Refused::Busy,
        "too many passwords wait for their check",
    );
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

impl std::fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BasicAuth")
            .field("challenge", &self.challenge)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_turn_lasts_as_long_as_its_work() {
        static TURNS: Semaphore = Semaphore::const_new(1);
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (end, ends) = mpsc::channel();
        let waiting = tokio::spawn(in_turn(&TURNS, move || {
            begun.send(()).unwrap();
            ends.recv().unwrap();
        }));
        begins.await.unwrap();
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(TURNS.available_permits(), 0);
        end.send(()).unwrap();
        assert_eq!(in_turn(&TURNS, || 1).await, Some(1));
    }

    #[test]
    fn credentials_are_decoded() {
        let cases = [
            ("Basic YWRhOnNlY3JldA==", Some("ada:secret")),
            ("basic YWRhOnNlY3JldA", Some("ada:secret")),
            ("BASIC  YWRhOnNlY3JldA== ", Some("ada:secret")),
            ("Basic YWRhOg==", Some("ada:")),
            ("Basic YTpiOmM=", Some("a:b:c")),
            ("Basic w7w6w7Y=", Some("\u{fc}:\u{f6}")),
            ("Basic /zo6", None),
            ("Basic", None),
            ("Basic !!", None),
            ("Bearer YWRhOnNlY3JldA==", None),
        ];
        for (field, want) in cases {
            let got = decode(&HeaderValue::from_str(field).unwrap());
            assert_eq!(got.as_deref(), want, "{field}");
        }
        let long = format!("Basic {}", "A".repeat(2 * MAX_CREDENTIALS));
        assert_eq!(decode(&HeaderValue::from_str(&long).unwrap()), None);
    }
}
