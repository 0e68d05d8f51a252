//! Fields that need a treatment of their own.

use http::HeaderMap;
use http::header::{self, HeaderName};

/// A set of fields that need a treatment of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Special(u32);

impl Special {
    pub(super) const CONNECTION: Self = Self(1);
    pub(super) const TE: Self = Self(1 << 1);
    pub(super) const TRANSFER_ENCODING: Self = Self(1 << 2);
    const OF_PROXY: Self = Self(1 << 3);
    const UPGRADE: Self = Self(1 << 4);
    const KEEP_ALIVE: Self = Self(1 << 5);
    /// The fields of one connection.
    pub(super) const HOP_BY_HOP: Self = Self((1 << 6) - 1);
    /// Fields that describe the client in front of a trusted proxy.
    pub(super) const FORWARDED: Self = Self(1 << 6);
    pub(super) const VIA: Self = Self(1 << 7);
    pub(super) const EXPECT: Self = Self(1 << 8);
    pub(super) const COOKIE: Self = Self(1 << 9);
    pub(super) const CONTENT_LENGTH: Self = Self(1 << 10);
    pub(super) const ALT_SVC: Self = Self(1 << 11);

    /// Those in a section. It looks at each field once: most sections have few, and a question to the
    /// map for each name takes longer than all of that.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let fields = headers.keys().map(|name| Self::of_name(name.as_str()));
        fields.fold(Self::default(), Self::and)
    }

    /// The fields of requests that a rule of the operator can't change, since the proxy removes or writes
    /// them afterwards.
    const WRITTEN: Self =
        Self(Self::HOP_BY_HOP.0 | Self::FORWARDED.0 | Self::EXPECT.0 | Self::CONTENT_LENGTH.0);

    fn of_name(name: &str) -> Self {
        match name {
            "connection" => Self::CONNECTION,
            "te" => Self::TE,
            "transfer-encoding" => Self::TRANSFER_ENCODING,
            "proxy-authenticate" | "proxy-authorization" | "proxy-connection" => Self::OF_PROXY,
            "upgrade" | "http2-settings" => Self::UPGRADE,
            "keep-alive" => Self::KEEP_ALIVE,
            "forwarded" | "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto"
            | "x-forwarded-port" | "x-forwarded-server" | "x-real-ip" => Self::FORWARDED,
            "via" => Self::VIA,
            "expect" => Self::EXPECT,
            "cookie" => Self::COOKIE,
            "content-length" => Self::CONTENT_LENGTH,
            "alt-svc" => Self::ALT_SVC,
            _ => Self::default(),
        }
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

/// Whether the proxy removes or writes this field of requests, whatever it was before.
pub(crate) fn is_written_by_proxy(name: &HeaderName) -> bool {
    Special::of_name(name.as_str()).has_any(Special::WRITTEN)
}

pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(super) const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
pub(super) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The fields of [`Special::FORWARDED`].
pub(super) static FORWARDED: [(Special, HeaderName); 7] = [
    (Special::FORWARDED, header::FORWARDED),
    (Special::FORWARDED, X_FORWARDED_FOR),
    (Special::FORWARDED, X_FORWARDED_HOST),
    (Special::FORWARDED, X_FORWARDED_PROTO),
    (Special::FORWARDED, X_FORWARDED_PORT),
    (
        Special::FORWARDED,
        HeaderName::from_static("x-forwarded-server"),
    ),
    (Special::FORWARDED, X_REAL_IP),
];

/// The fields of [`Special::HOP_BY_HOP`].
pub(super) static HOP_BY_HOP: [(Special, HeaderName); 9] = [
    (Special::CONNECTION, header::CONNECTION),
    (Special::OF_PROXY, header::PROXY_AUTHENTICATE),
    (Special::OF_PROXY, header::PROXY_AUTHORIZATION),
    (
        Special::OF_PROXY,
        HeaderName::from_static("proxy-connection"),
    ),
    (Special::TE, header::TE),
    (Special::TRANSFER_ENCODING, header::TRANSFER_ENCODING),
    (Special::UPGRADE, header::UPGRADE),
    (Special::UPGRADE, HeaderName::from_static("http2-settings")),
    (Special::KEEP_ALIVE, HeaderName::from_static("keep-alive")),
];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(names: &[HeaderName]) -> Special {
        let fields = names.iter().cloned();
        let fields = fields.map(|name| (name, HeaderValue::from_static("1")));
        Special::of(&fields.collect())
    }

    #[test]
    fn each_field_is_found_and_no_other() {
        let others = [
            (Special::VIA, header::VIA),
            (Special::EXPECT, header::EXPECT),
            (Special::COOKIE, header::COOKIE),
            (Special::CONTENT_LENGTH, header::CONTENT_LENGTH),
            (Special::ALT_SVC, header::ALT_SVC),
            (Special::default(), HeaderName::from_static("x-other")),
        ];
        for (want, name) in FORWARDED.iter().chain(&HOP_BY_HOP).chain(&others) {
            let with_another = [header::SERVER, name.clone()];
            assert_eq!(of(&with_another), *want, "{name}");
        }
        let names = HOP_BY_HOP.each_ref().map(|(_, name)| name.clone());
        assert_eq!(of(&names), Special::HOP_BY_HOP);
        let both = [header::VIA, header::COOKIE];
        assert_eq!(of(&both), Special::VIA.and(Special::COOKIE));
    }
}
