//! Other servers as arms: nginx, Caddy, h2o, `HAProxy`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::certificate::Certificate;
use super::error::{Attempt, RunError};
use crate::experiment::spec::Server;

/// Placeholders of the address and the port to listen on.
const ADDRESS: &str = "@ADDRESS@";
const PORT: &str = "@PORT@";

/// A peer's configuration, with its placeholders.
struct Template {
    file: &'static str,
    text: &'static str,
}

/// The location of a peer, and its content.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) address: SocketAddr,
    pub(super) root: &'a Path,
    /// Directory for its configuration, logs and state.
    pub(super) directory: &'a Path,
    pub(super) certificate: &'a Certificate,
    /// Loopback port of the server behind it, if it is a proxy.
    pub(super) origin: u16,
}

impl Server {
    /// Name of its program; `None` for hikyaku.
    pub(super) const fn program(self) -> Option<&'static str> {
        match self {
            Self::Hikyaku => None,
            Self::Nginx => Some("nginx"),
            Self::Caddy => Some("caddy"),
            Self::H2o => Some("h2o"),
            Self::Haproxy => Some("haproxy"),
        }
    }

    /// Whether it needs a server behind it.
    pub(super) const fn is_proxy(self) -> bool {
        matches!(self, Self::Haproxy)
    }

    const fn template(self) -> Option<Template> {
        let (file, text) = match self {
            Self::Hikyaku => return None,
            Self::Nginx => (
                "nginx.conf",
                include_str!("../../../../../conf/peers/nginx.conf.in"),
            ),
            Self::Caddy => (
                "Caddyfile",
                include_str!("../../../../../conf/peers/Caddyfile.in"),
            ),
            Self::H2o => (
                "h2o.conf",
                include_str!("../../../../../conf/peers/h2o.conf.in"),
            ),
            Self::Haproxy => (
                "haproxy.cfg",
                include_str!("../../../../../conf/peers/haproxy.cfg.in"),
            ),
        };
        Some(Template { file, text })
    }

    /// Whether the installed program has HTTP/3, by its own report.
    fn has_http3(self) -> bool {
        let says = |argument: &str| {
            let output = Command::new(self.program().unwrap_or_default())
                .arg(argument)
                .output();
            output.map_or_else(
                |_| String::new(),
                |output| {
                    let text = [output.stdout, output.stderr].concat();
                    String::from_utf8_lossy(&text).into_owned()
                },
            )
        };
        match self {
            Self::Hikyaku | Self::Caddy => true,
            Self::Nginx => says("-V").contains("http_v3_module"),
            Self::H2o => is_h2o_with_http3(&says("--version")),
            Self::Haproxy => says("-vv").contains("+QUIC"),
        }
    }
}

/// Checks that a server with this configuration can listen where the lab asks it.
///
/// # Errors
/// If the file can't be read, or has a port of its own.
pub(super) fn check(config: &Path) -> Result<(), RunError> {
    let text = fs::read_to_string(config).attempt(|| format!("reading {}", config.display()))?;
    if text.contains(PORT) {
        return Ok(());
    }
    Err(RunError::Arguments(format!(
        "{} has no `{PORT}`: let the server listen on `{ADDRESS}:{PORT}`, which the lab fills in",
        config.display()
    )))
}

/// Returns the command that runs a peer, after writing its configuration: the lab's, or that of a file.
pub(super) fn command(
    server: Server,
    place: &Place<'_>,
    config: Option<&Path>,
) -> Result<Command, RunError> {
    let (Some(program), Some(template)) = (server.program(), server.template()) else {
        return Err(RunError::Arguments("hikyaku is not a peer".to_owned()));
    };
    let Place { directory, .. } = place;
    let file = directory.join(template.file);
    let own = config.map(fs::read_to_string).transpose();
    let own = own.attempt(|| format!("reading the configuration of {program}"))?;
    let text = own.as_deref().unwrap_or(template.text);
    let text = fill(text, place, server.has_http3());
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&file, text))
        .attempt(|| format!("writing {}", file.display()))?;
    let mut command = Command::new(program);
    match server {
        Server::Hikyaku => {}
        Server::Nginx => {
            command.arg("-p").arg(directory).arg("-c").arg(file);
            command.arg("-e").arg(directory.join("error.log"));
        }
        Server::Caddy => {
            command
                .args(["run", "--adapter", "caddyfile", "--config"])
                .arg(file);
            command
                .env("HOME", directory)
                .env("XDG_DATA_HOME", directory);
            command.env("XDG_CONFIG_HOME", directory);
        }
        Server::H2o => {
            command.args(["-m", "worker", "-c"]).arg(file);
        }
        Server::Haproxy => {
            command.args(["-db", "-f"]).arg(file);
        }
    }
    Ok(command)
}

/// Fills in the template's placeholders, and the lines for HTTP/3 if it is available.
fn fill(template: &str, place: &Place<'_>, http3: bool) -> String {
    let Certificate {
        cert, key, both, ..
    } = place.certificate;
    let path = |path: &Path| path.display().to_string();
    let values = [
        (ADDRESS, place.address.ip().to_string()),
        (PORT, place.address.port().to_string()),
        ("@ROOT@", path(place.root)),
        ("@DIR@", path(place.directory)),
        ("@CERT@", path(cert)),
        ("@KEY@", path(key)),
        ("@BOTH@", path(both)),
        ("@ORIGIN@", place.origin.to_string()),
    ];
    let mut text = if http3 {
        template.replace("#h3# ", "")
    } else {
        template.to_owned()
    };
    for (name, value) in values {
        text = text.replace(name, &value);
    }
    text
}

/// Whether `h2o --version` names a release with HTTP/3: 2.3 or later.
fn is_h2o_with_http3(says: &str) -> bool {
    let version = says.split_once("h2o version ").map(|(_, version)| version);
    let mut numbers = version
        .unwrap_or_default()
        .split(|character: char| !character.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next(), numbers.next());
    (major, minor) >= (Some(2), Some(3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_emulator::link::privileges::is_program;
    use hikyaku_testkit::{skip_part, this_test};

    fn place<'a>(directory: &'a Path, certificate: &'a Certificate) -> Place<'a> {
        Place {
            address: ([10, 0, 0, 2], 4430).into(),
            root: Path::new("/srv"),
            directory,
            certificate,
            origin: 9000,
        }
    }

    const PEERS: [Server; 4] = [Server::Nginx, Server::Caddy, Server::H2o, Server::Haproxy];

    #[test]
    fn h2o_has_http3_from_2_3_on() {
        let cases = [
            ("h2o version 2.2.6\nOpenSSL: OpenSSL 3.0.17", false),
            ("h2o version 2.3.0-DEV@87ff2ea\nOpenSSL: 3.0", true),
            ("h2o version 2.3.0-beta2", true),
            ("h2o version 2.10.1", true),
            ("h2o version 3.0.0", true),
            ("h2o version 1.9", false),
            ("", false),
        ];
        for (says, want) in cases {
            assert_eq!(is_h2o_with_http3(says), want, "{says}");
        }
    }

    #[test]
    fn every_placeholder_is_filled_in() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = Certificate::create(directory.path()).unwrap();
        for server in PEERS {
            for http3 in [false, true] {
                let template = server.template().unwrap();
                let text = fill(template.text, &place(directory.path(), &certificate), http3);
                let code = text
                    .lines()
                    .filter(|line| !line.trim_start().starts_with('#'));
                let code: Vec<&str> = code.collect();
                let names = [
                    "ADDRESS", "PORT", "ROOT", "DIR", "CERT", "KEY", "BOTH", "ORIGIN",
                ];
                for line in &code {
                    assert!(
                        !names.iter().any(|name| line.contains(&format!("@{name}@"))),
                        "{line}"
                    );
                }
                assert!(
                    code.iter().any(|line| line.contains("4430")),
                    "{}",
                    template.file
                );
            }
        }
    }

    #[test]
    fn an_operators_own_configuration_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = Certificate::create(directory.path()).unwrap();
        let own = directory.path().join("own.conf");
        fs::write(&own, "listen 443 ssl;").unwrap();
        let error = check(&own).unwrap_err().to_string();
        assert!(error.contains("has no `@PORT@`"), "{error}");
        fs::write(&own, "listen @ADDRESS@:@PORT@ ssl; # mine").unwrap();
        check(&own).unwrap();
        let place = place(directory.path(), &certificate);
        command(Server::Nginx, &place, Some(&own)).unwrap();
        let text = fs::read_to_string(directory.path().join("nginx.conf")).unwrap();
        assert_eq!(text, "listen 10.0.0.2:4430 ssl; # mine");
        let missing = check(Path::new("/nowhere.conf")).unwrap_err();
        assert_eq!(missing.to_string(), "reading /nowhere.conf");
    }

    #[test]
    fn a_peer_that_is_installed_takes_its_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = Certificate::create(directory.path()).unwrap();
        for (server, check) in [
            (Server::Nginx, vec!["-t"]),
            (Server::Caddy, vec![]),
            (Server::H2o, vec!["-t"]),
            (Server::Haproxy, vec!["-c"]),
        ] {
            let program = server.program().unwrap();
            if !is_program(program.as_ref()) {
                skip_part(&this_test(), &format!("{program} is not on PATH"));
                continue;
            }
            // Some programs bind to it.
            let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let mut place = place(directory.path(), &certificate);
            place.address = free.local_addr().unwrap();
            drop(free);
            place.root = directory.path();
            let mut command = command(server, &place, None).unwrap();
            command.args(check);
            if server == Server::Caddy {
                let file = directory.path().join("Caddyfile");
                command = Command::new(program);
                command
                    .args(["validate", "--adapter", "caddyfile", "--config"])
                    .arg(file);
            }
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program}: {said}");
        }
    }
}
