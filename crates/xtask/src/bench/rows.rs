//! The rows of the report: each is a load that every server gets.

mod table;

use std::fmt;

use anyhow::{Result, ensure};
use serde::{Serialize, Serializer};

use super::figures::Figure;
pub(super) use table::all;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Http {
    H1,
    H2,
    H3,
}

/// The content behind a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Content {
    /// A directory of its own.
    Files,
    /// nginx over plain HTTP/1.1, on the clients' core.
    Upstream,
    /// The same, with a cache that stores its responses. All but the first come from there.
    Cache,
}

/// The files that are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    /// 256 MiB, or 16 MiB in a quick run.
    Large { quick: bool },
    /// 100 KiB.
    Medium,
    /// 1 KiB.
    Small,
    /// One of so many files of 1 KiB, by chance.
    OneOf(u32),
}

/// The program that sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    Curl,
    H2load,
    /// Debian's client of ngtcp2, on one connection of HTTP/3.
    Ngtcp2,
    /// `crates/xtask/client`: net/http, or quic-go on HTTP/3.
    Go,
}

/// The work of the client in one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// Each stream sends its next request when the one before is answered.
    Closed {
        client: Client,
        file: File,
        connections: u32,
        streams: u32,
    },
    /// Requests of 1 KiB at fixed times, whether or not earlier ones are answered.
    Open { per_s: u32, streams: u32 },
    /// Connections one after the other, with a request of 1 KiB each.
    Connect { resume: bool },
    /// Connections that are held open after one request each.
    Idle { connections: u32 },
}

/// Rows that are chosen together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Measured unless `--rows` names others.
    Table,
    /// How the cost grows with connections, cores and files, and the slowest answers.
    Curves,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) group: Group,
    pub(super) http: Http,
    pub(super) content: Content,
    /// CPUs of the server.
    pub(super) cores: usize,
    pub(super) load: Load,
    /// The figures of the report, with the goal if there is one. The first one counts in comparisons.
    pub(super) figures: Vec<(Figure, Option<f64>)>,
}

/// Rows that the short form measures: a large and a small load of each version, and handshakes.
pub(super) const SHORT: [&str; 8] = [
    "h1-large",
    "h1-small",
    "h2-large",
    "h2-small",
    "h3-large",
    "h3-small",
    "tcp-full",
    "quic-full",
];

/// The rows of `all` that a comma-separated list of names, groups or beginnings of names chooses.
pub(super) fn choose(all: Vec<Row>, names: &[String]) -> Result<Vec<Row>> {
    for name in names {
        ensure!(
            all.iter().any(|row| row.is_called(name)),
            "no row is called `{name}`: take `table`, `curves`, `all`, or names of --list and \
             their beginnings"
        );
    }
    let exact = |name: &String| all.iter().any(|row| row.id == *name);
    let beginnings: Vec<bool> = names.iter().map(|name| !exact(name)).collect();
    let chosen = |row: &Row| {
        let mut names = names.iter().zip(&beginnings);
        names.any(|(name, &beginning)| row.id == *name || beginning && row.is_called(name))
    };
    Ok(all.into_iter().filter(chosen).collect())
}

impl Row {
    fn is_called(&self, name: &str) -> bool {
        match name {
            "all" => true,
            "table" => self.group == Group::Table,
            "curves" => self.group == Group::Curves,
            _ => !name.is_empty() && self.id.starts_with(name),
        }
    }

    /// The load in words.
    pub(super) fn describe(&self) -> String {
        let http = self.http.number();
        let load = match self.load {
            Load::Closed {
                client,
                file,
                connections,
                streams,
            } => {
                let client = client.name(self.http);
                format!("{file}, {connections} x {streams} at once, by {client}")
            }
            Load::Open { per_s, .. } => {
                let client = Client::Go.name(self.http);
                format!(
                    "{per_s} requests/s of 1 KiB over {OPEN_CONNECTIONS} connections, by {client}"
                )
            }
            Load::Connect { resume } => {
                let kind = if resume { "resumed" } else { "full" };
                let client = Client::Go.name(self.http);
                format!("a {kind} handshake and a request, by {client}")
            }
            Load::Idle { connections } => format!("{connections} idle connections"),
        };
        let content = match self.content {
            Content::Files => "",
            Content::Upstream => ", from an upstream over HTTP/1.1",
            Content::Cache => ", from the cache",
        };
        let cores = match self.cores {
            1 => String::new(),
            cores => format!(", on {cores} cores"),
        };
        format!("HTTP/{http}: {load}{content}{cores}")
    }
}

/// Connections of [`Load::Open`].
pub(super) const OPEN_CONNECTIONS: u32 = 64;

impl File {
    /// Size in bytes.
    pub(super) const fn size(self) -> u64 {
        match self {
            Self::Large { quick: false } => 256 << 20,
            Self::Large { quick: true } => 16 << 20,
            Self::Medium => 100 << 10,
            Self::Small | Self::OneOf(_) => 1 << 10,
        }
    }

    /// The path below the root; `{}` is the number of one of several files.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Large { quick: false } => "256MiB.bin",
            Self::Large { quick: true } => "16MiB.bin",
            Self::Medium => "100KiB.bin",
            Self::Small => "1KiB.bin",
            Self::OneOf(_) => "many/{}.bin",
        }
    }

    pub(super) const fn count(self) -> u32 {
        match self {
            Self::OneOf(count) => count,
            _ => 1,
        }
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Large { quick: false } => f.write_str("files of 256 MiB"),
            Self::Large { quick: true } => f.write_str("files of 16 MiB"),
            Self::Medium => f.write_str("files of 100 KiB"),
            Self::Small => f.write_str("a file of 1 KiB"),
            Self::OneOf(count) => write!(f, "{count} file(s) of 1 KiB"),
        }
    }
}

impl Client {
    pub(super) const fn name(self, http: Http) -> &'static str {
        match (self, http) {
            (Self::Curl, _) => "curl",
            (Self::H2load, _) => "h2load",
            (Self::Ngtcp2, _) => "ngtcp2's client",
            (Self::Go, Http::H3) => "quic-go",
            (Self::Go, _) => "net/http",
        }
    }
}

impl Http {
    /// The version in the options of curl.
    pub(super) const fn number(self) -> &'static str {
        match self {
            Self::H1 => "1.1",
            Self::H2 => "2",
            Self::H3 => "3",
        }
    }
}

impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
            Self::H3 => "h3",
        })
    }
}

impl Serialize for Http {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let rows = choose(all(false), &names).expect("they exist");
        rows.into_iter().map(|row| row.id).collect()
    }

    #[test]
    fn rows_are_chosen_by_name_beginning_and_group() {
        assert_eq!(chosen(&["h3-small"]), ["h3-small"]);
        assert_eq!(
            chosen(&["idle", "tcp-f"]),
            ["tcp-full", "idle-h2", "idle-h3"]
        );
        assert_eq!(chosen(&["all"]).len(), all(true).len());
        let parts = chosen(&["table"]).len() + chosen(&["curves"]).len();
        assert_eq!(parts, chosen(&["all"]).len());
        assert_eq!(chosen(&SHORT).len(), SHORT.len());
        let fault = choose(all(false), &["h4".to_owned()]).unwrap_err();
        assert!(
            fault.to_string().contains("no row is called `h4`"),
            "{fault}"
        );
    }

    #[test]
    fn names_of_rows_differ() {
        let mut names = chosen(&["all"]);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all(false).len());
    }
}
