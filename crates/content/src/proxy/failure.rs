//! The kinds of upstreams' errors.

use super::error::SendError;

/// The failure of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamError {
    /// It takes no connection.
    Connect,
    /// It has taken no connection in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// The connection broke before the response.
    Connection,
    /// It has not answered in time.
    ResponseTimeout,
    /// Its response breaks the rules of HTTP, or is larger than may be.
    Protocol,
    /// Its response has a status that counts as a failure.
    Status,
    /// Its response's body ended early, or stood still.
    Body,
    /// A check of it failed.
    Check,
}

impl UpstreamError {
    /// All kinds, each at its index.
    pub const ALL: [Self; 9] = [
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Connection,
        Self::ResponseTimeout,
        Self::Protocol,
        Self::Status,
        Self::Body,
        Self::Check,
    ];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
            Self::Connection => "connection",
            Self::ResponseTimeout => "response_timeout",
            Self::Protocol => "protocol",
            Self::Status => "status",
            Self::Body => "body",
            Self::Check => "check",
        }
    }
}

impl From<&SendError> for UpstreamError {
    fn from(error: &SendError) -> Self {
        match error {
            SendError::Connect(_) => Self::Connect,
            SendError::ConnectTimeout(_) => Self::ConnectTimeout,
            SendError::Tls(_) => Self::Tls,
            SendError::Exchange(_) => Self::Connection,
            SendError::ResponseTimeout(_) => Self::ResponseTimeout,
            SendError::Status(_) => Self::Status,
            SendError::Handshake(_)
            | SendError::UnaskedUpgrade
            | SendError::NoWebSocket
            | SendError::HeadersTooLarge
            | SendError::Malformed(_)
            | SendError::TransferCoding
            | SendError::Target(_) => Self::Protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_at_its_index_and_has_a_name_of_its_own() {
        for (at, kind) in UpstreamError::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            let all = UpstreamError::ALL.into_iter();
            assert_eq!(all.filter(|other| other.name() == kind.name()).count(), 1);
        }
    }
}
