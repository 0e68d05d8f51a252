//! The arms: every server that runs the rows, and what it is able to do.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use super::rows::{Content, File, Http, Load, Row};

/// One server in the report.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub(super) name: String,
    pub(super) program: Program,
    pub(super) path: PathBuf,
    /// Whether it has HTTP/3.
    http3: bool,
    /// The version that it prints.
    pub(super) version: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// A build of hikyaku as it is shipped.
    Hikyaku,
    /// The measured build with all choices pinned: version, CUBIC, no floor, one connection.
    Pinned,
    /// The measured build with `[egress]`: two egress paths for each client.
    Egress,
    /// The measured build with files, beside others with the same content in their cache.
    Files,
    Nginx,
    Caddy,
    Haproxy,
    H2o,
}

/// The name of the measured build in the report.
pub(super) const MEASURED: &str = "hikyaku";

/// Programs that this project builds (scripts/peers.sh).
pub(super) const BUILT: &str = "build/peers";

/// A build to compare with: `[NAME=]FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Build {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

impl FromStr for Build {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once('=').unwrap_or(("before", text));
        if name.is_empty() || path.is_empty() {
            return Err("write it as FILE or NAME=FILE".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            path: PathBuf::from(path),
        })
    }
}

/// Servers beside the builds of hikyaku, as `--peers` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Peer {
    Nginx,
    Caddy,
    Haproxy,
    H2o,
    /// hikyaku with all choices pinned, for large files
    Pinned,
    /// hikyaku with two egress paths, for small files
    Egress,
    /// hikyaku with files, beside the rows of a cache
    Files,
    /// No other server
    None,
}

/// The measured build, those before it, and the peers.
pub(super) fn arms(binary: &Path, before: &[Build], peers: &[Peer]) -> Result<Vec<Arm>> {
    let mut arms = vec![Arm::build(MEASURED, Program::Hikyaku, binary)?];
    for build in before {
        let taken = arms.iter().any(|arm| arm.name == build.name);
        ensure!(
            !taken,
            "two builds are called `{}`: name them by --before NAME=FILE",
            build.name
        );
        arms.push(Arm::build(&build.name, Program::Hikyaku, &build.path)?);
    }
    for peer in peers {
        arms.extend(match peer {
            Peer::Nginx => Some(Arm::peer(Program::Nginx)?),
            Peer::Caddy => Some(Arm::peer(Program::Caddy)?),
            Peer::Haproxy => Some(Arm::peer(Program::Haproxy)?),
            Peer::H2o => Some(Arm::peer(Program::H2o)?),
            Peer::Pinned => Some(Arm::build("hikyaku, pinned", Program::Pinned, binary)?),
            Peer::Egress => Some(Arm::build("hikyaku, egress", Program::Egress, binary)?),
            Peer::Files => Some(Arm::build("hikyaku, files", Program::Files, binary)?),
            Peer::None => None,
        });
    }
    Ok(arms)
}

impl Arm {
    fn build(name: &str, program: Program, path: &Path) -> Result<Self> {
        let path = path.canonicalize().with_context(|| {
            let path = path.display();
            format!("finding {path} (make it with `cargo build --release -p hikyaku`)")
        })?;
        let version = program.version(&said(&path, "--version")?);
        Ok(Self {
            name: name.to_owned(),
            program,
            path,
            http3: true,
            version,
        })
    }

    fn peer(program: Program) -> Result<Self> {
        let path = find(program.command())?;
        let (version, features) = match program {
            Program::Nginx => ("-v", "-V"),
            Program::Caddy => ("build-info", "build-info"),
            Program::Haproxy => ("-v", "-vv"),
            _ => ("--version", "--version"),
        };
        let features = said(&path, features)?;
        Ok(Self {
            name: program.command().to_owned(),
            program,
            http3: program.has_http3(&features),
            version: program.version(&said(&path, version)?),
            path,
        })
    }

    /// Whether this server runs `row`.
    pub(super) fn runs(&self, row: &Row) -> bool {
        let file = match row.load {
            Load::Closed { file, .. } => file,
            _ => File::Small,
        };
        let large = matches!(file, File::Large { .. });
        let (table, several) = (
            row.content == Content::Files,
            matches!(file, File::OneOf(_)),
        );
        let fits = match self.program {
            Program::Pinned => large && row.http != Http::H1,
            Program::Egress => ["h2-small", "h3-small"].contains(&row.id.as_str()),
            Program::Files => row.content == Content::Cache,
            // They have none that stores an upstream's responses of any size.
            Program::Caddy | Program::H2o | Program::Haproxy if row.content == Content::Cache => {
                false
            }
            // It serves no files; its cache has room for a few small ones.
            Program::Haproxy => !(table && (large || several)),
            _ => true,
        };
        fits && (row.http != Http::H3 || self.http3)
    }

    /// Whether it has HTTP/3.
    pub(super) fn has_http3(&self) -> bool {
        self.http3
    }

    pub(super) fn is_hikyaku(&self) -> bool {
        matches!(
            self.program,
            Program::Hikyaku | Program::Pinned | Program::Egress | Program::Files
        )
    }
}

impl Program {
    const fn command(self) -> &'static str {
        match self {
            Self::Hikyaku | Self::Pinned | Self::Egress | Self::Files => MEASURED,
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
            Self::Haproxy => "haproxy",
            Self::H2o => "h2o",
        }
    }

    /// The line of `said` that names the version.
    fn version(self, said: &str) -> String {
        let main = |line: &&str| line.starts_with("mod\tgithub.com/caddyserver/caddy/v2\t");
        let line = match self {
            Self::Caddy => said.lines().find(main),
            _ => said.lines().next(),
        };
        let words: Vec<&str> = line.unwrap_or("unknown").split_whitespace().collect();
        words.join(" ")
    }

    /// Whether a program that prints `features` has HTTP/3.
    fn has_http3(self, features: &str) -> bool {
        match self {
            Self::Nginx => features.contains("http_v3_module"),
            Self::Haproxy => features.contains("+QUIC"),
            Self::H2o => !features.starts_with("h2o version 2.2."),
            _ => true,
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Finds a peer or a client: built by this project, or installed. nginx counts only if it is built
/// here, since Debian's has no HTTP/3.
pub(super) fn find(program: &str) -> Result<PathBuf> {
    let built = Path::new(BUILT).join(program);
    if built.exists() {
        return Ok(built.canonicalize()?);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian installs daemons where only root's PATH leads.
    let directories = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let installed = directories.map(|directory| directory.join(program));
    let found = installed
        .filter(|_| program != "nginx")
        .find(|path| path.is_file());
    match found {
        Some(found) => Ok(found),
        None => bail!(
            "{program} is missing: install it by `bash scripts/setup.sh bench`, or leave it out \
             by --peers and --rows"
        ),
    }
}

/// The output of a command, on either stream.
pub(super) fn said(program: &Path, argument: &str) -> Result<String> {
    let output = Command::new(program)
        .arg(argument)
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_have_names() {
        let build = |name: &str, path: &str| Build {
            name: name.to_owned(),
            path: PathBuf::from(path),
        };
        let cases = [
            ("old/hikyaku", Some(build("before", "old/hikyaku"))),
            ("0.1=old/hikyaku", Some(build("0.1", "old/hikyaku"))),
            ("=old/hikyaku", None),
            ("0.1=", None),
        ];
        for (text, want) in cases {
            assert_eq!(text.parse().ok(), want, "{text}");
        }
    }

    #[test]
    fn a_missing_program_is_named_with_its_remedy() {
        let fault = find("no-such-server").unwrap_err().to_string();
        assert!(fault.contains("no-such-server is missing"), "{fault}");
        assert!(fault.contains("scripts/setup.sh bench"), "{fault}");
    }

    #[test]
    fn two_builds_of_one_name_are_refused() {
        let program = env::current_exe().unwrap();
        let build = |name: &str| Build {
            name: name.to_owned(),
            path: program.clone(),
        };
        for before in [vec![build("a"), build("a")], vec![build(MEASURED)]] {
            let fault = arms(&program, &before, &[]).unwrap_err().to_string();
            assert!(fault.contains("two builds are called"), "{fault}");
        }
        let absent = Path::new("no/such/hikyaku");
        let fault = arms(absent, &[], &[]).unwrap_err().to_string();
        assert!(fault.contains("finding no/such/hikyaku"), "{fault}");
    }

    #[test]
    fn versions_of_programs() {
        let caddy = "go\tgo1.26.8\nmod\tgithub.com/caddyserver/caddy/v2\tv2.10.2\th1:g/g=\ndep\ta";
        let cases = [
            (
                Program::Caddy,
                caddy,
                "mod github.com/caddyserver/caddy/v2 v2.10.2 h1:g/g=",
            ),
            (
                Program::Nginx,
                "nginx version: nginx/1.28.3\n",
                "nginx version: nginx/1.28.3",
            ),
            (Program::H2o, "", "unknown"),
        ];
        for (program, said, want) in cases {
            assert_eq!(program.version(said), want);
        }
    }

    #[test]
    fn programs_with_http3() {
        let cases = [
            (
                Program::Nginx,
                "configure arguments: --with-http_v3_module",
                true,
            ),
            (
                Program::Nginx,
                "configure arguments: --with-http_v2_module",
                false,
            ),
            (Program::Haproxy, "Feature list : -EPOLL +QUIC", true),
            (Program::Haproxy, "Feature list : -QUIC", false),
            (
                Program::H2o,
                "h2o version 2.2.5\nOpenSSL: OpenSSL 3.0.19",
                false,
            ),
            (Program::H2o, "h2o version 2.3.0-DEV", true),
        ];
        for (program, features, want) in cases {
            assert_eq!(program.has_http3(features), want, "{features}");
        }
    }
}
