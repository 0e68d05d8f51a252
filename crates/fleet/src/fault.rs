//! The faults of a store, in words.

use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerError, Value};

/// A fault of a store, and the advice. It never holds a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    kind: FaultKind,
    text: String,
}

/// Kinds of [`Fault`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// No answer in time.
    Slow,
    /// No connection, or one that broke.
    Unreachable,
    /// No TLS, or a certificate that does not fit.
    Tls,
    /// Something else answers, which does not speak Redis' protocol.
    Foreign,
    /// Wrong or missing user and password.
    Login,
    /// The user may not run the commands that are needed.
    Forbidden,
    /// There is no such database.
    Database,
    /// A replica, which takes no writes.
    ReadOnly,
    /// No memory left, or no disk.
    Full,
    /// A node of a cluster, or none, against the configuration.
    Cluster,
    /// Not ready yet.
    Loading,
    /// The sentinels know no primary of that name.
    Sentinel,
    /// A file or variable of the configuration.
    Config,
    /// Anything else that a store may say.
    Other,
}

impl FaultKind {
    /// Whether the connection is of no more use.
    pub(crate) const fn ends_connection(self) -> bool {
        !matches!(self, Self::Slow | Self::Full | Self::Other)
    }
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// No answer of `place` within `limit`.
    pub(crate) fn slow(place: &str, limit: Duration) -> Self {
        let limit = hikyaku_units::duration::display(limit);
        Self::new(
            FaultKind::Slow,
            format!("{place} did not answer within {limit}: see whether it is overloaded or hung"),
        )
    }

    /// The same at the beginning of TLS.
    pub(crate) fn slow_or_plain(place: &str, limit: Duration) -> Self {
        let slow = Self::slow(place, limit);
        let text = format!("{slow}; one without TLS wants redis:// in `fleet.store`");
        Self::new(FaultKind::Slow, text)
    }

    /// Of an error while talking with `place`. `limit`: the time that an answer had.
    pub(crate) fn of(error: &RedisError, place: &str, limit: Duration) -> Self {
        if error.is_timeout() {
            return Self::slow(place, limit);
        }
        if let Some(code) = error.code() {
            return Self::said(code, error.detail().unwrap_or_default(), place);
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::said("WRONGPASS", "", place),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => foreign(place),
            _ => of_connection(error, place),
        }
    }

    /// Of the first error among values.
    pub(crate) fn among<'a>(
        values: impl IntoIterator<Item = &'a Value>,
        place: &str,
    ) -> Option<Self> {
        values
            .into_iter()
            .find_map(server_error)
            .map(|error| Self::said(error.code(), error.details().unwrap_or_default(), place))
    }

    /// Of what a store said: a code, and a text.
    pub(crate) fn said(code: &str, text: &str, place: &str) -> Self {
        let (kind, text) = match code {
            "WRONGPASS" | "NOAUTH" => (
                FaultKind::Login,
                format!(
                    "{place} refuses the user and password: set them in `fleet.store`, or by `fleet.user` and \
                     `fleet.password_file`"
                ),
            ),
            "DENIED" => (
                FaultKind::Login,
                format!(
                    "{place} is in protected mode and answers its own host alone: give it a password"
                ),
            ),
            "NOPERM" => (
                FaultKind::Forbidden,
                format!("{place} forbids a command ({text}): let the user's ACL allow it"),
            ),
            "OOM" => (
                FaultKind::Full,
                format!(
                    "{place} has no memory left: raise its `maxmemory`, set `maxmemory-policy` to \
                     volatile-ttl, or lower `fleet.max_keys` or `fleet.ttl`"
                ),
            ),
            "MISCONF" => (
                FaultKind::Full,
                format!(
                    "{place} can't write its file: make room on its disk, or turn its snapshots off"
                ),
            ),
            "READONLY" => (
                FaultKind::ReadOnly,
                format!(
                    "{place} is a replica and takes no writes: name the primary, or the sentinels and \
                     `fleet.sentinel`"
                ),
            ),
            "MOVED" | "ASK" | "CROSSSLOT" => (
                FaultKind::Cluster,
                format!("{place} is a node of a cluster: set `fleet.cluster = true`"),
            ),
            "CLUSTERDOWN" => (
                FaultKind::Cluster,
                format!(
                    "the cluster of {place} is down ({text}): mend it by `redis-cli --cluster fix`"
                ),
            ),
            "LOADING" | "MASTERDOWN" | "TRYAGAIN" => (
                FaultKind::Loading,
                format!("{place} is not ready yet ({text}); it is tried again"),
            ),
            _ if text.contains("cluster support disabled") => (
                FaultKind::Cluster,
                format!("{place} is no node of a cluster: set `fleet.cluster = false`"),
            ),
            _ if text.contains("DB index") => (
                FaultKind::Database,
                format!(
                    "{place} has no such database: write a lower number at the end of `fleet.store`, or raise \
                     the store's `databases`"
                ),
            ),
            _ => (
                FaultKind::Other,
                format!("{place} answered with an error: {code} {text}"),
            ),
        };
        Self::new(kind, text)
    }

    /// Its kind.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }
}

/// The error of a value, if it is one.
pub(crate) fn server_error(value: &Value) -> Option<&ServerError> {
    match value {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}

fn foreign(place: &str) -> Fault {
    Fault::new(
        FaultKind::Foreign,
        format!(
            "what answers at {place} does not speak Redis' protocol: correct `fleet.store`, with rediss:// for \
             TLS"
        ),
    )
}

fn of_connection(error: &RedisError, place: &str) -> Fault {
    let said = error.to_string();
    let lower = said.to_lowercase();
    if lower.contains("certificate") {
        return Fault::new(
            FaultKind::Tls,
            format!(
                "the certificate of {place} is not accepted ({said}): name its roots in `fleet.ca_file`"
            ),
        );
    }
    if lower.contains("corrupt message") {
        return Fault::new(
            FaultKind::Tls,
            format!("{place} does not speak TLS: write redis:// in `fleet.store`"),
        );
    }
    if lower.contains("cluster") && error.kind() != ErrorKind::Io {
        return Fault::new(
            FaultKind::Cluster,
            format!("no node of the cluster at {place} can be used ({said}): see whether it is up"),
        );
    }
    if error.is_connection_refusal() {
        return Fault::new(
            FaultKind::Unreachable,
            format!("nothing listens at {place}: start the store, or correct `fleet.store`"),
        );
    }
    Fault::new(
        FaultKind::Unreachable,
        format!(
            "the connection to {place} failed ({said}): see whether the store is up; one with TLS wants rediss://"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::{Fault, FaultKind};

    #[test]
    fn what_a_store_says_becomes_advice() {
        for (code, text, kind, advice) in [
            ("WRONGPASS", "", FaultKind::Login, "`fleet.password_file`"),
            (
                "NOAUTH",
                "Authentication required.",
                FaultKind::Login,
                "`fleet.user`",
            ),
            (
                "NOPERM",
                "no 'hset'",
                FaultKind::Forbidden,
                "(no 'hset'): let the user's ACL",
            ),
            ("OOM", "command not allowed", FaultKind::Full, "`maxmemory`"),
            ("MISCONF", "", FaultKind::Full, "its disk"),
            ("READONLY", "", FaultKind::ReadOnly, "`fleet.sentinel`"),
            (
                "MOVED",
                "1 a:1",
                FaultKind::Cluster,
                "`fleet.cluster = true`",
            ),
            (
                "ERR",
                "This instance has cluster support disabled",
                FaultKind::Cluster,
                "`fleet.cluster = false`",
            ),
            (
                "ERR",
                "DB index is out of range",
                FaultKind::Database,
                "a lower number",
            ),
            ("LOADING", "dataset", FaultKind::Loading, "tried again"),
            ("ERR", "strange", FaultKind::Other, "ERR strange"),
        ] {
            let fault = Fault::said(code, text, "redis://store");
            assert_eq!(fault.kind(), kind, "{code}");
            let said = fault.to_string();
            assert!(
                said.contains(advice) && said.contains("redis://store"),
                "{said}"
            );
        }
    }
}
