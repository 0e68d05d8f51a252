//! URLs of stores, whose passwords nothing shows.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use serde::Deserialize;
use url::Url;

/// Where a store is: `redis://`, `rediss://` (TLS) or `redis+unix://` (a socket).
///
/// The form is `redis[s]://[USER][:PASSWORD@]HOST[:PORT][/DATABASE]`, or
/// `redis+unix:///PATH[?db=DATABASE]`. Its `Display` and `Debug` leave user and password out.
///
/// In a configuration any text is read, so that no parser shows its line with a password. One that is no URL is
/// among the faults of its [`FleetConfig`](crate::FleetConfig).
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct StoreUrl {
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: Option<i64>,
}

/// How a store is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// By TCP, with TLS or without.
    Net {
        host: String,
        /// Default: that of what listens there.
        port: Option<u16>,
        tls: bool,
    },
    /// By a socket of this host.
    Unix(PathBuf),
    /// Not at all.
    Unreadable(ParseStoreUrlError),
}

/// A password, which neither `Debug` nor an error shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The password itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a secret)")
    }
}

/// Why a text is no URL of a store. It never holds a user or a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{shown}` is no URL of a store: {why}; write redis://HOST:PORT/DATABASE, rediss://HOST:PORT for TLS, or \
     redis+unix:///PATH"
)]
pub struct ParseStoreUrlError {
    shown: String,
    why: &'static str,
}

impl From<String> for StoreUrl {
    fn from(text: String) -> Self {
        text.parse().unwrap_or_else(|error| Self {
            place: Place::Unreadable(error),
            user: None,
            password: None,
            database: None,
        })
    }
}

impl std::str::FromStr for StoreUrl {
    type Err = ParseStoreUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|why| ParseStoreUrlError {
            shown: without_credentials(text),
            why,
        })
    }
}

fn parse(text: &str) -> Result<StoreUrl, &'static str> {
    let url = Url::parse(text).map_err(|_| "it can't be read")?;
    if url.fragment().is_some() {
        return Err(
            "it has a fragment (#), and there is no TLS without a check of the certificate",
        );
    }
    let place = match url.scheme() {
        "redis" => net(&url, false)?,
        "rediss" => net(&url, true)?,
        "redis+unix" => unix(&url)?,
        _ => return Err("its scheme is unknown"),
    };
    let credential = |text: &str, why| match percent_decode_str(text).decode_utf8() {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(text.into_owned())),
        Err(_) => Err(why),
    };
    let password = url.password().unwrap_or_default();
    Ok(StoreUrl {
        user: credential(url.username(), "its user is not UTF-8")?,
        password: credential(password, "its password is not UTF-8")?.map(Secret::new),
        database: database(&url, &place)?,
        place,
    })
}

fn net(url: &Url, tls: bool) -> Result<Place, &'static str> {
    if url.query().is_some() {
        return Err("it has a query (?)");
    }
    let host = url.host_str().filter(|host| !host.is_empty());
    Ok(Place::Net {
        // An IPv6 address stands in brackets.
        host: host
            .ok_or("it has no host")?
            .trim_matches(['[', ']'])
            .to_owned(),
        port: url.port(),
        tls,
    })
}

fn unix(url: &Url) -> Result<Place, &'static str> {
    if url.host_str().is_some_and(|host| !host.is_empty()) {
        return Err("it has a host; a socket's path begins with a third slash");
    }
    let path = percent_decode_str(url.path()).decode_utf8();
    match path.map_err(|_| "its path is not UTF-8")? {
        path if path.len() < 2 => Err("it has no path"),
        path => Ok(Place::Unix(PathBuf::from(path.into_owned()))),
    }
}

fn database(url: &Url, place: &Place) -> Result<Option<i64>, &'static str> {
    let text = match (place, url.query()) {
        (Place::Net { .. }, _) => url.path().trim_start_matches('/'),
        (_, None) => "",
        (_, Some(query)) => query
            .strip_prefix("db=")
            .ok_or("its query is not `db=DATABASE`")?,
    };
    match text {
        "" => Ok(None),
        text => match text.parse::<u16>() {
            Ok(number) => Ok(Some(number.into())),
            Err(_) => Err("its database is no number from 0 to 65535"),
        },
    }
}

/// A text that may be a URL, without what stands before its last `@`.
fn without_credentials(text: &str) -> String {
    let Some((before, after)) = text.rsplit_once('@') else {
        return text.to_owned();
    };
    match before.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://...@{after}"),
        None => format!("...@{after}"),
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Net { host, port, tls } => {
                f.write_str(if *tls { "rediss://" } else { "redis://" })?;
                match host.contains(':') {
                    true => write!(f, "[{host}]")?,
                    false => f.write_str(host)?,
                }
                if let Some(port) = port {
                    write!(f, ":{port}")?;
                }
                self.database
                    .map_or(Ok(()), |number| write!(f, "/{number}"))
            }
            Place::Unreadable(error) => f.write_str(&error.shown),
            Place::Unix(path) => {
                write!(f, "redis+unix://{}", path.display())?;
                self.database
                    .map_or(Ok(()), |number| write!(f, "?db={number}"))
            }
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Secret, StoreUrl};
    use proptest::prelude::{any, proptest};

    #[test]
    fn urls_are_read_and_shown_without_credentials() {
        for (text, shown, user, password, database) in [
            ("redis://store", "redis://store", None, None, None),
            (
                "redis://store:7000/3",
                "redis://store:7000/3",
                None,
                None,
                Some(3),
            ),
            (
                "rediss://edge:s%40cret@[::1]:6380",
                "rediss://[::1]:6380",
                Some("edge"),
                Some("s@cret"),
                None,
            ),
            (
                "redis://:word@store/",
                "redis://store",
                None,
                Some("word"),
                None,
            ),
            (
                "redis+unix:///run/redis.sock?db=2",
                "redis+unix:///run/redis.sock?db=2",
                None,
                None,
                Some(2),
            ),
        ] {
            let url: StoreUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), shown);
            assert_eq!(url.user.as_deref(), user);
            assert_eq!(url.password.as_ref().map(Secret::reveal), password);
            assert_eq!(url.database, database);
        }
    }

    #[test]
    fn what_is_no_url_is_said_without_its_password() {
        for (text, why) in [
            ("store:6379", "its scheme is unknown"),
            ("http://store", "its scheme is unknown"),
            ("redis://", "it has no host"),
            (
                "redis://u:hush@store/one",
                "its database is no number from 0 to 65535",
            ),
            ("redis://u:hush@store?x=1", "it has a query (?)"),
            (
                "rediss://u:hush@store/#insecure",
                "there is no TLS without a check",
            ),
            ("redis+unix://run/x", "it has a host"),
            ("redis+unix:///", "it has no path"),
            ("redis+unix:///s?base=1", "its query is not `db=DATABASE`"),
            ("u:hush@store", "its scheme is unknown"),
        ] {
            let error = text.parse::<StoreUrl>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(error.contains("rediss://HOST:PORT"), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in any::<String>(), rest in "[a-z0-9@:/?#%\\[\\]]{0,30}") {
            let _ = text.parse::<StoreUrl>();
            let _ = format!("redis://{rest}").parse::<StoreUrl>();
            let _ = format!("redis+unix://{rest}").parse::<StoreUrl>();
        }
    }
}
