//! Connection ids by which a balancer of UDP finds the server of a QUIC connection
//! (draft-ietf-quic-load-balancers, "QUIC-LB").

use serde::Deserialize;

/// Octets of a connection id at most (RFC 9000 §17.2).
const MAX_ID: usize = 20;

/// Octets behind the server id: the worker, 64 random bits, and a tag. The draft calls them the nonce.
pub(crate) const NONCE_LEN: usize = 13;

/// Octets of a server id at most.
const MAX_SERVER_ID: usize = MAX_ID - 1 - NONCE_LEN;

/// The config rotation that the draft keeps for ids that no balancer can read (§3.1).
const UNROUTABLE: u8 = 0b111;

/// The part of connection ids that names this server to balancers (draft-ietf-quic-load-balancers §3 and
/// §5.2, the algorithm without encryption).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Keys")]
pub struct QuicLb {
    config_rotation: u8,
    server_id: Vec<u8>,
}

/// The keys as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    config_rotation: u8,
    server_id: String,
}

impl QuicLb {
    /// The octets before the nonce. The first one has the config rotation in its first three bits. The
    /// other five have the length of the octets behind it (§3.1 to §3.3). The server id follows.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        let length = self.server_id.len() + NONCE_LEN;
        let first = self.config_rotation << 5 | length as u8;
        [&[first][..], &self.server_id].concat()
    }
}

impl TryFrom<Keys> for QuicLb {
    type Error = String;

    fn try_from(keys: Keys) -> Result<Self, String> {
        let Keys {
            config_rotation,
            server_id: text,
        } = keys;
        if config_rotation >= UNROUTABLE {
            return Err(format!(
                "`config_rotation` = {config_rotation} is not from 0 to 6; 7 is for ids that no balancer \
                 can read"
            ));
        }
        let server_id = octets(&text).ok_or_else(|| {
            format!("`server_id` = \"{text}\" is no octets in hexadecimal, such as \"0a0b\"")
        })?;
        match server_id.len() {
            1..=MAX_SERVER_ID => Ok(Self {
                config_rotation,
                server_id,
            }),
            length => Err(format!(
                "`server_id` = \"{text}\" has {length} octets; 1 to {MAX_SERVER_ID} have room beside a \
                 nonce of {NONCE_LEN}"
            )),
        }
    }
}

/// Reads pairs of hexadecimal digits.
fn octets(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    let octet = |pair: &[u8]| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    pairs.map(octet).collect()
}

#[cfg(test)]
mod tests {
    use super::QuicLb;

    fn read(text: &str) -> Result<QuicLb, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn keys_give_the_octets_before_the_nonce() {
        let cases = [
            ("server_id = \"0a\"", &[0x0e, 0x0a][..]),
            (
                "config_rotation = 0\nserver_id = \"0a0b\"",
                &[0x0f, 0x0a, 0x0b],
            ),
            (
                "config_rotation = 6\nserver_id = \"F0E1d2c3b4A5\"",
                &[0xd3, 0xf0, 0xe1, 0xd2, 0xc3, 0xb4, 0xa5],
            ),
        ];
        for (text, want) in cases {
            assert_eq!(read(text).unwrap().prefix(), want, "{text}");
        }
    }

    #[test]
    fn wrong_keys_get_advice() {
        let cases = [
            ("config_rotation = 1", "missing field `server_id`"),
            ("server_id = \"\"", "has 0 octets; 1 to 6 have room"),
            ("server_id = \"00112233445566\"", "has 7 octets; 1 to 6"),
            ("server_id = \"abc\"", "`server_id` = \"abc\" is no octets"),
            ("server_id = \"0x0a\"", "is no octets in hexadecimal"),
            ("server_id = \"ää\"", "is no octets in hexadecimal"),
            (
                "config_rotation = 7\nserver_id = \"0a\"",
                "`config_rotation` = 7 is not from 0 to 6",
            ),
            ("server_id = \"0a\"\nkey = \"\"", "unknown field `key`"),
        ];
        for (text, want) in cases {
            let error = read(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
