//! `docs/migrate-caddy.md`: two Caddyfiles.

use std::path::Path;
use std::process::Command;

use hikyaku_testkit::daemon::Daemon;
use hikyaku_testkit::machine::Machine;
use hikyaku_testkit::{has, skip, this_test};

use crate::{Addresses, Pair, gzip, machine, nobody, upstream};

const GUIDE: &str = "migrate-caddy.md";

/// The Caddy that this project builds (scripts/peers.sh), since Debian's is old.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/peers/caddy");

/// The versions that the guide is for.
const VERSION: &str = "v2.10.";

/// The program of Caddy; reports a skip, and returns nothing, where it is missing or another version.
fn program() -> Option<&'static str> {
    let program = match Path::new(BUILT).exists() {
        true => BUILT,
        false => "caddy",
    };
    // Built by `go install`, it does not know its version otherwise.
    let info = Command::new(program).arg("build-info").output();
    let info = info.map_or_else(|_| Vec::new(), |info| info.stdout);
    let is_right = String::from_utf8_lossy(&info).lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("mod")
            && words.next() == Some("github.com/caddyserver/caddy/v2")
            && words
                .next()
                .is_some_and(|version| version.starts_with(VERSION))
    });
    if !is_right {
        let why = format!("there is no Caddy {VERSION}x: bash scripts/peers.sh tests");
        skip(&this_test(), &why);
        return None;
    }
    Some(program)
}

/// Starts Caddy and hikyaku with the configuration `name`; reports a skip, and returns nothing, where
/// a program is missing.
fn start(name: &str, machine: Machine, upstreams: &[(&str, String)]) -> Option<Pair> {
    let program = program()?;
    if !has(&this_test(), "curl") {
        return None;
    }
    let upstreams = upstreams.iter().map(|(from, to)| (*from, &**to));
    let upstreams: Vec<_> = upstreams.collect();
    let (original, [https, http]) = Daemon::on_ports(|[https, http]| {
        let text = machine.example(&format!("migrated/{name}.Caddyfile"), &upstreams);
        let options = format!(
            "{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\thttp_port {http}\n\thttps_port {https}\n}}\n"
        );
        machine.write("Caddyfile", (options + &text).as_bytes());
        let mut command = Command::new(program);
        command.args(["run", "--adapter", "caddyfile", "--config"]);
        command.arg(machine.path("Caddyfile"));
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(name, machine.path("run"));
        }
        command
    });
    let server = machine.start(&format!("migrated/{name}.toml"), &upstreams);
    Some(Pair {
        machine,
        _original: original,
        theirs: Addresses { https, http },
        server,
    })
}

#[test]
fn files_of_caddy() {
    let style = "a { color: red }\n".repeat(200);
    let script = gzip(b"let a;\n");
    let machine = machine(&[
        ("srv/www/index.html", b"start"),
        ("srv/www/text.txt", b"0123456789"),
        ("srv/www/a b.txt", b"space"),
        ("srv/www/data.json", b"{}"),
        ("srv/www/image.png", b"png"),
        ("srv/www/.hidden", b"hidden"),
        ("srv/www/.git/config", b"secret"),
        ("srv/www/sub/index.html", b"sub"),
        ("srv/www/old/index.htm", b"old"),
        ("srv/www/empty/.keep", b""),
        ("srv/www/assets/style.css", style.as_bytes()),
        ("srv/www/assets/script.js", b"let a;\n"),
        ("srv/www/assets/script.js.gz", &script),
        ("srv/www/members/index.html", b"members"),
        ("srv/www/office/index.html", b"office"),
        ("srv/www/notes/index.html", b"notes"),
        ("srv/www/notes/one.html", b"one"),
        ("srv/www/notes/both.html", b"page of both"),
        ("srv/www/notes/both/index.html", b"directory of both"),
        ("srv/www/app/index.html", b"app"),
        ("srv/www/app/a.js", b"js"),
        ("srv/www/errors/403.html", b"not for you"),
        ("srv/www/errors/404.html", b"no such page"),
        ("srv/docs/guide.html", b"guide"),
    ]);
    if let Some(pair) = start("files", machine, &[]) {
        pair.compare("files", GUIDE);
        pair.compare_logs("caddy-access.log", "/notes/one", &["/health"]);
    }
}

#[test]
fn a_proxy_of_caddy() {
    let machine = machine(&[("srv/app/maintenance.html", b"maintenance")]);
    let upstreams = [
        ("127.0.0.1:3001", upstream::start(&[])),
        ("127.0.0.1:3002", upstream::start(&[])),
        ("127.0.0.1:3003", upstream::start(&[])),
        ("127.0.0.1:3004", nobody()),
    ];
    if let Some(pair) = start("proxy", machine, &upstreams) {
        pair.compare("proxy", GUIDE);
    }
}
