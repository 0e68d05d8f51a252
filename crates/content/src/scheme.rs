//! The schemes of requests.

/// The scheme of a request (RFC 9110 §4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS or QUIC.
    #[default]
    Https,
}

impl Scheme {
    /// The scheme of this name, whose case does not matter; `None` of others.
    pub const fn of(name: &[u8]) -> Option<Self> {
        if name.eq_ignore_ascii_case(b"https") {
            Some(Self::Https)
        } else if name.eq_ignore_ascii_case(b"http") {
            Some(Self::Http)
        } else {
            None
        }
    }

    /// Its name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of authorities that name none.
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}
