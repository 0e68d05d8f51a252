//! Addresses that `--resolve` gives to hosts.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::GetError;

/// The addresses of `--resolve`, which may change from repeat to repeat.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    all: Vec<Override>,
    /// The repeat under way.
    repeat: AtomicU32,
}

/// One `--resolve`: the address of a host and port from a repeat on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Override {
    host: String,
    port: u16,
    address: IpAddr,
    from: u32,
}

impl Overrides {
    /// Reads the values of `--resolve`.
    pub(super) fn parse(texts: &[String]) -> Result<Self, GetError> {
        let all = texts.iter().map(|text| Override::parse(text));
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
            repeat: AtomicU32::new(0),
        })
    }

    /// Makes the addresses of a repeat count.
    pub(super) fn begin(&self, repeat: u32) {
        self.repeat.store(repeat, Ordering::Relaxed);
    }

    /// Returns the last repeat from which an address counts.
    pub(super) fn last_change(&self) -> u32 {
        let from = self.all.iter().map(|known| known.from);
        from.max().unwrap_or_default()
    }

    /// Returns the addresses that a host and port have now. It has none where it is to be resolved.
    pub(super) fn addresses(&self, host: &str, port: u16) -> Vec<SocketAddr> {
        let repeat = self.repeat.load(Ordering::Relaxed);
        let is_now = |known: &&Override| known.is_of(host, port) && known.from <= repeat;
        let now = || self.all.iter().filter(is_now);
        let newest = now().map(|known| known.from).max();
        now()
            .filter(|known| Some(known.from) == newest)
            .map(|known| SocketAddr::new(known.address, port))
            .collect()
    }
}

impl Override {
    fn parse(text: &str) -> Result<Self, GetError> {
        let parse = || {
            let (host, rest) = text.split_once(':')?;
            let (port, rest) = rest.split_once(':')?;
            let (address, from) = match rest.split_once('@') {
                Some((address, from)) => (address, from.parse().ok()?),
                None => (rest, 0),
            };
            Some(Self {
                host: host.to_ascii_lowercase(),
                port: port.parse().ok()?,
                address: address.trim_matches(['[', ']']).parse().ok()?,
                from,
            })
        };
        parse().ok_or_else(|| {
            GetError::Usage(format!(
                "`{text}` does not resolve anything; write HOST:PORT:ADDR, such as \
                 a.test:443:127.0.0.1, or HOST:PORT:ADDR@REPEAT"
            ))
        })
    }

    fn is_of(&self, host: &str, port: u16) -> bool {
        self.port == port && self.host.eq_ignore_ascii_case(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(texts: &[&str]) -> Result<Overrides, String> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        Overrides::parse(&texts).map_err(|error| error.to_string())
    }

    #[test]
    fn the_newest_addresses_of_a_host_count() {
        let known = overrides(&[
            "A.test:443:[::1]",
            "a.test:443:127.0.0.1",
            "a.test:443:[::2]@2",
            "b.test:443:127.0.0.3@1",
        ])
        .unwrap();
        let cases: &[(u32, &str, u16, &[&str])] = &[
            (0, "a.test", 443, &["[::1]:443", "127.0.0.1:443"]),
            (1, "A.TEST", 443, &["[::1]:443", "127.0.0.1:443"]),
            (2, "a.test", 443, &["[::2]:443"]),
            (3, "a.test", 443, &["[::2]:443"]),
            (3, "a.test", 8443, &[]),
            (0, "b.test", 443, &[]),
            (1, "b.test", 443, &["127.0.0.3:443"]),
        ];
        for (repeat, host, port, want) in cases {
            known.begin(*repeat);
            let found = known.addresses(host, *port);
            let found: Vec<String> = found.iter().map(SocketAddr::to_string).collect();
            assert_eq!(found, *want, "{host}:{port} in repeat {repeat}");
        }
        assert_eq!(known.last_change(), 2);
    }

    #[test]
    fn wrong_values_are_refused() {
        for text in [
            "a:b",
            "a.test:x:::1",
            "a.test:443:::1@",
            "a.test:443:::1@-1",
            "a.test:443",
        ] {
            let error = overrides(&[text]).unwrap_err();
            assert!(error.contains("HOST:PORT:ADDR@REPEAT"), "{text}: {error}");
        }
    }
}
