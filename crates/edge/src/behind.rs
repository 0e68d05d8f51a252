//! The intermediaries between clients and this server: balancers, proxies and port mappings.
//!
//! A balancer hands on the bytes of TCP connections, and names the client of each in a header before them.
//! A proxy hands on requests, and names the client of each in a field. Either way TCP measures the path to
//! the balancer or proxy, and nobody the client's.

mod advertise;
mod client_field;
pub mod proxy_protocol;
mod quic_lb;

use std::net::{IpAddr, SocketAddr};

use hikyaku_units::Network;
use http::HeaderMap;
use serde::Deserialize;

pub use advertise::{Advertise, ParseAdvertiseError};
pub use client_field::ClientField;
use hikyaku_content::Scheme;
pub(crate) use quic_lb::NONCE_LEN;
pub use quic_lb::QuicLb;

/// The intermediaries between clients and this server (`docs/balancers.md`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BehindConfig {
    /// Networks of balancers whose TCP connections begin with a header of the PROXY protocol, version 1 or
    /// 2. A connection without one is closed. Nobody else may send one. Default `[]`.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub proxy_protocol: Vec<Network>,
    /// Networks of HTTP proxies. Each of their requests is of the client that `client_field` names: the
    /// rightmost address that is in none of these networks. Default `[]`: the field is ignored.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub trusted: Vec<Network>,
    /// The field by which `trusted` proxies name the client. Default `X-Forwarded-For`.
    pub client_field: ClientField,
    /// The authority that `Alt-Svc` names (RFC 7838 §2). Default: none, the port that the client asked
    /// for.
    pub advertise: Option<Advertise>,
    /// The part of QUIC connection ids by which balancers of UDP find this server. Default: none, ids that
    /// only this server can read.
    pub quic_lb: Option<QuicLb>,
}

impl BehindConfig {
    /// Whether TCP connections from an address begin with a header of the PROXY protocol.
    pub(crate) fn has_balancer(&self, address: IpAddr) -> bool {
        self.proxy_protocol
            .iter()
            .any(|network| network.contains(address))
    }

    /// Whether the proxy at an address is believed.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// Whether clients may come over TCP of which nothing can be measured.
    pub(crate) fn hides_clients(&self) -> bool {
        !self.proxy_protocol.is_empty() || !self.trusted.is_empty()
    }

    /// The client of a request that the trusted proxy at `proxy` has sent. Its port is 0 where it is not
    /// named; without a name the proxy is the client.
    pub(crate) fn client(&self, headers: &HeaderMap, proxy: SocketAddr) -> SocketAddr {
        self.client_field
            .client(headers, proxy, |address| self.trusts(address))
    }

    /// The scheme of a request that a trusted proxy has sent; `None` where it names none.
    pub(crate) fn scheme(&self, headers: &HeaderMap) -> Option<Scheme> {
        self.client_field
            .scheme(headers, |address| self.trusts(address))
    }

    /// The intermediary between a connection of `remote` and its clients, where that is no balancer.
    pub(crate) fn through(&self, remote: IpAddr) -> Through {
        match self.trusts(remote) {
            true => Through::Proxy,
            false => Through::Nothing,
        }
    }
}

/// The intermediary between a connection and its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Through {
    /// Nothing, as far as is known.
    #[default]
    Nothing,
    /// The balancer at this address. It has named the client, whose connection it is alone.
    Balancer(IpAddr),
    /// A trusted proxy, which counts as the connection's client. It names the client of each request.
    Proxy,
}

impl Through {
    /// Whether the transport measures the path of the connection's client.
    pub(crate) fn measures_client(self) -> bool {
        self == Self::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_read_and_unknown_ones_are_refused() {
        let text = r#"
            proxy_protocol = ["10.0.0.0/8", "2001:db8::1"]
            trusted = "192.0.2.0/24"
            client_field = "Forwarded"
            advertise = ":443"
            quic_lb = { config_rotation = 1, server_id = "0a0b" }
        "#;
        let config: BehindConfig = toml::from_str(text).unwrap();
        let network = |text: &str| text.parse::<Network>().unwrap();
        let want = BehindConfig {
            proxy_protocol: vec![network("10.0.0.0/8"), network("2001:db8::1/128")],
            trusted: vec![network("192.0.2.0/24")],
            client_field: ClientField::Forwarded,
            advertise: Some(":443".parse().unwrap()),
            quic_lb: config.quic_lb.clone(),
        };
        assert_eq!(config, want);
        let prefix = config.quic_lb.unwrap().prefix();
        assert_eq!(prefix, [0x2f, 0x0a, 0x0b]);
        let cases = [
            ("proxy = []", "unknown field `proxy`"),
            (
                "client_field = \"X-Real-IP\"",
                "unknown variant `X-Real-IP`",
            ),
            ("trusted = [\"10.0.0.1/8\"]", "write 10.0.0.0/8"),
            ("advertise = \":0\"", "`:0` is no authority for Alt-Svc"),
        ];
        for (line, want) in cases {
            let error = toml::from_str::<BehindConfig>(line).unwrap_err();
            assert!(error.to_string().contains(want), "{line}: {error}");
        }
    }

    #[test]
    fn balancers_and_proxies_are_known_by_their_networks() {
        let config = BehindConfig {
            proxy_protocol: vec!["192.0.2.0/25".parse().unwrap()],
            trusted: vec!["192.0.2.64/26".parse().unwrap()],
            ..BehindConfig::default()
        };
        // address, whether it is a balancer, what its own connections come through
        let cases = [
            ("192.0.2.1", true, Through::Nothing),
            ("::ffff:192.0.2.100", true, Through::Proxy),
            ("192.0.2.128", false, Through::Nothing),
            ("2001:db8::1", false, Through::Nothing),
        ];
        for (address, balancer, through) in cases {
            let ip = address.parse().unwrap();
            let got = (config.has_balancer(ip), config.through(ip));
            assert_eq!(got, (balancer, through), "{address}");
        }
        assert!(config.hides_clients());
        assert!(!BehindConfig::default().hides_clients());
    }
}
