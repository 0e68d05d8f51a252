//! The configuration of shards.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::uri::Authority;
use serde::Deserialize;

use crate::pages::Load;

/// Other addresses of the server, over which a page's resources are spread
/// (`docs/shards.md`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShardsConfig {
    /// Names or addresses by which clients reach this server, too, each with `:PORT` where
    /// that is not the page's; at most 7. The certificate must cover them. Default `[]`:
    /// pages are left as they are.
    pub hosts: Vec<ShardHost>,
    /// Kinds of resources that are spread. Default `["image", "media", "style", "script"]`.
    pub kinds: Vec<Kind>,
    /// Paths that are spread, by glob: what does not depend on cookies. A pattern without a
    /// slash is matched against the file's name, else against the whole path; case does not
    /// matter. Default: the usual extensions of images, audio, video, style sheets and
    /// scripts.
    pub paths: Vec<String>,
    /// Host that an upstream sees in requests that arrive at a shard, with its port where
    /// that is not 443. Default: none, it sees the shard's.
    #[serde(deserialize_with = "authority")]
    pub site: Option<Authority>,
}

impl Default for ShardsConfig {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            kinds: Kind::ALL.to_vec(),
            paths: EXTENSIONS.map(|name| format!("*.{name}")).to_vec(),
            site: None,
        }
    }
}

/// Kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Images, icons and posters.
    Image,
    /// Audio and video.
    Media,
    /// Style sheets.
    Style,
    /// Scripts that are no modules.
    Script,
}

impl Kind {
    /// All.
    pub const ALL: [Self; 4] = [Self::Image, Self::Media, Self::Style, Self::Script];
}

impl From<Kind> for Load {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Image => Self::Image,
            Kind::Media => Self::Media,
            Kind::Style => Self::Style,
            Kind::Script => Self::Script,
        }
    }
}

/// A name or an address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct ShardHost {
    /// As in a URL: in lower case, an IPv6 address in brackets.
    pub(super) host: String,
    /// `None`: the page's.
    pub(super) port: Option<u16>,
}

impl ShardHost {
    /// The address, where it is none of a name.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }

    /// The host without brackets.
    pub(crate) fn name(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }
}

impl fmt::Display for ShardHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl TryFrom<String> for ShardHost {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for ShardHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no host of a shard; expected NAME, ADDRESS, NAME:PORT or ADDRESS:PORT"
            )
        };
        if let Ok(IpAddr::V6(address)) = text.parse() {
            return Ok(Self {
                host: format!("[{address}]"),
                port: None,
            });
        }
        // As the browser would read it, so that URLs compare equal.
        let url = url::Url::parse(&format!("https://{text}/")).map_err(|_| wrong())?;
        let authority: Authority = text.parse().map_err(|_| wrong())?;
        let bare = text.bytes().all(|b| !b"@/?#\\%*_".contains(&b)) && !text.ends_with(':');
        let host = url.host_str().filter(|host| bare && !host.is_empty());
        if authority.port().is_some() && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(wrong());
        }
        Ok(Self {
            host: host.ok_or_else(wrong)?.to_owned(),
            port: authority.port_u16(),
        })
    }
}

fn authority<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Authority>, D::Error> {
    let text = String::deserialize(from)?;
    let authority: Result<Authority, _> = text.parse();
    match authority {
        Ok(authority) if !authority.as_str().contains('@') => Ok(Some(authority)),
        _ => Err(serde::de::Error::custom(format_args!(
            "`{text}` is no host such as www.example.org or www.example.org:8443"
        ))),
    }
}

/// Of files that hardly ever depend on who asks.
const EXTENSIONS: [&str; 23] = [
    "avif", "bmp", "css", "gif", "ico", "jpeg", "jpg", "js", "m4a", "m4v", "mov", "mp3", "mp4",
    "oga", "ogg", "ogv", "opus", "png", "svg", "wav", "weba", "webm", "webp",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_browsers_read_them() {
        let cases: &[(&str, Option<&str>)] = &[
            ("img.example.org", Some("img.example.org")),
            ("IMG.Example.org:8443", Some("img.example.org:8443")),
            ("192.0.2.7", Some("192.0.2.7")),
            ("192.0.2.7:443", Some("192.0.2.7:443")),
            ("2001:DB8::7", Some("[2001:db8::7]")),
            ("[2001:db8::7]:8443", Some("[2001:db8::7]:8443")),
            ("", None),
            ("img.example.org:", None),
            ("img.example.org:0", None),
            ("img.example.org:99999", None),
            ("https://img.example.org", None),
            ("img.example.org/x", None),
            ("me@img.example.org", None),
            ("*.example.org", None),
            ("a b", None),
            ("192.0.2.777", None),
        ];
        for (text, want) in cases {
            let got = text.parse::<ShardHost>().map(|host| host.to_string());
            assert_eq!(got.as_deref().ok(), *want, "`{text}`: {got:?}");
        }
    }

    #[test]
    fn keys_are_read_strictly() {
        let read = |text: &str| toml::from_str::<ShardsConfig>(text);
        let config = read("hosts = ['a.test']\nkinds = ['image']\nsite = 'www.test:8443'").unwrap();
        assert_eq!(config.kinds, [Kind::Image]);
        assert_eq!(config.site.unwrap(), "www.test:8443");
        for text in [
            "host = []",
            "kinds = ['font']",
            "site = 'a b'",
            "site = 'a@b'",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
