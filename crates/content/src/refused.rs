//! Requests that the server itself refuses.

use http::StatusCode;

/// Why the server itself has refused a request, among the extensions of its response. Responses of an
/// upstream have none, nor has a path at which there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Target, host, framing or fields break the rules of HTTP.
    Malformed,
    /// The method or the protocol is not offered.
    NotOffered,
    /// The header section is too large.
    HeaderSize,
    /// The body is too large.
    BodySize,
    /// The header section or the body came too slowly.
    Slow,
    /// It came in early data, and could be a replay.
    Early,
    /// No site has the host, or the host is not served in the clear.
    Host,
    /// The client's address is not allowed.
    Address,
    /// Name and password are missing or wrong.
    Credentials,
    /// The server that is asked for access has refused it.
    ForwardAuth,
    /// There were too many requests.
    Rate,
    /// More requests than may be are at the upstreams, or more passwords wait for their check.
    Busy,
}

impl Refused {
    /// All reasons, each at its index.
    pub const ALL: [Self; 12] = [
        Self::Malformed,
        Self::NotOffered,
        Self::HeaderSize,
        Self::BodySize,
        Self::Slow,
        Self::Early,
        Self::Host,
        Self::Address,
        Self::Credentials,
        Self::ForwardAuth,
        Self::Rate,
        Self::Busy,
    ];

    /// The place in [`Refused::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NotOffered => "not_offered",
            Self::HeaderSize => "header_size",
            Self::BodySize => "body_size",
            Self::Slow => "slow",
            Self::Early => "early_data",
            Self::Host => "host",
            Self::Address => "address",
            Self::Credentials => "credentials",
            Self::ForwardAuth => "forward_auth",
            Self::Rate => "rate",
            Self::Busy => "busy",
        }
    }

    /// The reason of a refusal with this status before any site has seen the request.
    pub const fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Self::NotOffered,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Self::HeaderSize,
            StatusCode::PAYLOAD_TOO_LARGE => Self::BodySize,
            StatusCode::REQUEST_TIMEOUT => Self::Slow,
            StatusCode::TOO_EARLY => Self::Early,
            StatusCode::MISDIRECTED_REQUEST => Self::Host,
            _ => Self::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_at_its_index_and_has_a_name_of_its_own() {
        for (at, reason) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), at);
            let same = Refused::ALL
                .into_iter()
                .filter(|other| other.name() == reason.name());
            assert_eq!(same.count(), 1, "{}", reason.name());
        }
    }

    #[test]
    fn statuses_have_their_reasons() {
        let cases = [
            (400, Refused::Malformed),
            (405, Refused::NotOffered),
            (408, Refused::Slow),
            (413, Refused::BodySize),
            (421, Refused::Host),
            (425, Refused::Early),
            (431, Refused::HeaderSize),
            (501, Refused::NotOffered),
        ];
        for (status, want) in cases {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(Refused::of_status(status), want, "{status}");
        }
    }
}
