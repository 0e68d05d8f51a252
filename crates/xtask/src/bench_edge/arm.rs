//! The arms: a server, an HTTP version, a load and its generator.

use std::fmt;

use serde::{Serialize, Serializer};

/// A server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ServerKind {
    Hikyaku,
    /// Another build of hikyaku (`--before`), to compare with.
    Before,
    /// hikyaku with all choices pinned: HTTP/2, CUBIC, no floor, one connection.
    FixedH2,
    /// hikyaku with all choices pinned: HTTP/3, CUBIC, no floor, one connection.
    FixedH3,
    /// hikyaku with `[egress]`: two egress routes to choose from for each client.
    Egress,
    /// nginx with `http2_chunk_size` at its default of 8k.
    Nginx,
    /// nginx with `http2_chunk_size 16k`.
    #[serde(rename = "nginx-16k")]
    Nginx16k,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Http {
    H1,
    H2,
    H3,
}

/// The files that are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Load {
    /// 256 MiB files, one after the other on one connection.
    Large,
    /// 1 KiB files, 64 at once: on HTTP/1.1 over 64 connections, else on one.
    Small,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Generator {
    Curl,
    H2load,
    /// `hikyaku get`.
    Get,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Arm {
    pub(super) server: ServerKind,
    pub(super) http: Http,
    pub(super) load: Load,
    pub(super) generator: Generator,
}

/// Every arm. `get` on HTTP/2 separates the generator's share from the server's.
pub(super) const ARMS: [Arm; 18] = {
    use Generator::{Curl, Get, H2load};
    use Http::{H1, H2, H3};
    use Load::{Large, Small};
    use ServerKind::{Egress, FixedH2, FixedH3, Hikyaku, Nginx, Nginx16k};
    [
        arm(Nginx, H1, Large, Curl),
        arm(Hikyaku, H1, Large, Curl),
        arm(Nginx, H2, Large, Curl),
        arm(Nginx16k, H2, Large, Curl),
        arm(Hikyaku, H2, Large, Curl),
        arm(Hikyaku, H2, Large, Get),
        arm(FixedH2, H2, Large, Get),
        arm(Hikyaku, H3, Large, Get),
        arm(FixedH3, H3, Large, Get),
        arm(Nginx, H1, Small, H2load),
        arm(Hikyaku, H1, Small, H2load),
        arm(Nginx, H2, Small, H2load),
        arm(Hikyaku, H2, Small, H2load),
        arm(Nginx, H2, Small, Get),
        arm(Hikyaku, H2, Small, Get),
        arm(Hikyaku, H3, Small, Get),
        arm(Egress, H2, Small, H2load),
        arm(Egress, H3, Small, Get),
    ]
};

/// Simultaneous requests of [`Load::Small`].
pub(super) const PARALLEL: u64 = 64;

pub(super) const fn arm(server: ServerKind, http: Http, load: Load, generator: Generator) -> Arm {
    Arm {
        server,
        http,
        load,
        generator,
    }
}

impl Arm {
    /// The same load on the other build of hikyaku, for arms of hikyaku as it is shipped.
    pub(super) fn before(self) -> Option<Self> {
        (self.server == ServerKind::Hikyaku).then_some(Self {
            server: ServerKind::Before,
            ..self
        })
    }

    /// The arm without egress routes that corresponds to an arm with them.
    pub(super) fn without_egress(self) -> Option<Self> {
        (self.server == ServerKind::Egress).then_some(Self {
            server: ServerKind::Hikyaku,
            ..self
        })
    }
}

impl Load {
    /// Size of the file in bytes.
    pub(super) fn size(self) -> u64 {
        match self {
            Self::Large => 256 << 20,
            Self::Small => 1 << 10,
        }
    }

    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Large => "256MiB.bin",
            Self::Small => "1KiB.bin",
        }
    }
}

impl Http {
    /// The version in the options of `curl` and `hikyaku get`.
    pub(super) fn number(self) -> &'static str {
        match self {
            Self::H1 => "1.1",
            Self::H2 => "2",
            Self::H3 => "3",
        }
    }
}

impl Serialize for Http {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.number())
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hikyaku => "hikyaku",
            Self::Before => "hikyaku before",
            Self::FixedH2 | Self::FixedH3 => "hikyaku, pinned",
            Self::Egress => "hikyaku, two egress paths",
            Self::Nginx => "nginx",
            Self::Nginx16k => "nginx, 16k frames",
        })
    }
}

impl fmt::Display for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Curl => "curl",
            Self::H2load => "h2load",
            Self::Get => "hikyaku get",
        })
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = match self.load {
            Load::Large => "256 MiB",
            Load::Small => "1 KiB",
        };
        write!(
            f,
            "{}, HTTP/{}, {load} by {}",
            self.server,
            self.http.number(),
            self.generator
        )
    }
}
