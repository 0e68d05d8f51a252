//! `docs/migrate-nginx.md`: three configurations of nginx.

use std::os::unix::fs::symlink;
use std::process::Command;

use hikyaku_testkit::daemon::Daemon;
use hikyaku_testkit::machine::Machine;
use hikyaku_testkit::{has, this_test};

use crate::{Addresses, Pair, gzip, machine, nobody, upstream};

const GUIDE: &str = "migrate-nginx.md";

/// Starts nginx and hikyaku with the configuration `name`; reports a skip, and returns nothing, where
/// a program is missing.
fn start(name: &str, machine: Machine, upstreams: &[(&str, String)]) -> Option<Pair> {
    if !["nginx", "curl"].iter().all(|name| has(&this_test(), name)) {
        return None;
    }
    let upstreams = upstreams.iter().map(|(from, to)| (*from, &**to));
    let upstreams: Vec<_> = upstreams.collect();
    let (original, [https, http]) = Daemon::on_ports(|[https, http]| {
        let text = machine.example(&format!("migrated/{name}.nginx.conf"), &upstreams);
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| {
                format!(
                    "{kind}_temp_path {};\n",
                    machine.path(&format!("run/{kind}"))
                )
            })
            .collect();
        let text = text
            // One process, of the user of the test.
            .replace("user www-data;", "daemon off; master_process off;")
            .replace(
                "worker_processes auto;",
                &format!("pid {};", machine.path("run/pid")),
            )
            .replace("http {", &format!("http {{\n{temp}"))
            .replace("listen 443", &format!("listen 127.0.0.1:{https}"))
            .replace("listen 80", &format!("listen 127.0.0.1:{http}"));
        machine.write("nginx.conf", text.as_bytes());
        let mut command = Command::new("nginx");
        command.args(["-e", "stderr", "-c", &machine.path("nginx.conf")]);
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
fn a_static_site_of_nginx() {
    let style = "a { color: red }\n".repeat(200);
    let page = "<p>words of a page</p>\n".repeat(200);
    let script = gzip(b"let a;\n");
    let machine = machine(&[
        ("srv/www/index.html", b"start"),
        ("srv/www/page.htm", b"page"),
        ("srv/www/big.html", page.as_bytes()),
        ("srv/www/about.html", b"about"),
        ("srv/www/both.html", b"page of both"),
        ("srv/www/both/index.html", b"directory of both"),
        ("srv/www/sub/deep.html", b"deep"),
        ("srv/www/sub/index.html", b"sub"),
        ("srv/www/sub/.git/config", b"secret"),
        ("srv/www/old/index.htm", b"old"),
        ("srv/www/empty/.keep", b""),
        ("srv/www/text.txt", b"0123456789"),
        ("srv/www/a b.txt", b"space"),
        ("srv/www/data.json", b"{}"),
        ("srv/www/style.css", style.as_bytes()),
        ("srv/www/STYLE.CSS", b"b {}"),
        ("srv/www/script.js", b"let a;\n"),
        ("srv/www/script.js.gz", &script),
        ("srv/www/image.svg", b"<svg/>"),
        ("srv/www/image.png", b"png"),
        ("srv/www/.hidden", b"hidden"),
        ("srv/www/.well-known/security.txt", b"contact"),
        ("srv/www/members/index.html", b"members"),
        ("srv/www/members/a.css", b"members"),
        ("srv/www/office/index.html", b"office"),
        ("srv/www/local/index.html", b"local"),
        ("srv/www/staff/index.html", b"staff"),
        ("srv/www/search/index.html", b"found"),
        ("srv/www/errors/404.html", b"no such page"),
        ("srv/www/errors/5xx.html", b"broken"),
        ("srv/files/tool.bin", b"tool"),
        ("srv/acme/.well-known/acme-challenge/token", b"token"),
    ]);
    if let Some(pair) = start("static", machine, &[]) {
        pair.compare("static", GUIDE);
        pair.compare_logs("nginx-access.log", "/search/", &["style.css", "script.js"]);
    }
}

#[test]
fn an_application_of_nginx() {
    let machine = machine(&[
        ("srv/app/index.html", b"app"),
        ("srv/app/static/a.js", b"js"),
        ("srv/app/maintenance.html", b"maintenance"),
    ]);
    let upstreams = [
        ("127.0.0.1:3001", upstream::start(&["x-real-ip"])),
        ("127.0.0.1:3002", upstream::start(&["x-real-ip"])),
        ("127.0.0.1:3003", upstream::start(&["x-real-ip"])),
        ("127.0.0.1:3004", nobody()),
    ];
    if let Some(pair) = start("app", machine, &upstreams) {
        pair.compare("app", GUIDE);
        pair.compare_logs("nginx-access.log", "/legacy/", &["/api/users"]);
    }
}

#[test]
fn several_hosts_of_nginx() {
    let machine = machine(&[
        ("srv/www/index.html", b"start"),
        ("srv/www/status/index.html", b"status"),
        ("srv/www/errors/404.html", b"no such page"),
        ("srv/blog/index.html", b"blog"),
        ("srv/blog/1.html", b"one"),
        ("srv/files/a/image.iso", b"0123456789"),
        ("srv/files/a/SHA256.sum", b"sum"),
        ("srv/files/a/notes.md", b"notes"),
    ]);
    symlink("a/image.iso", machine.path("srv/files/link.iso")).unwrap();
    let upstreams = [
        ("127.0.0.1:3001", upstream::start(&["x-real-ip"])),
        ("127.0.0.1:3002", upstream::start(&["x-real-ip"])),
    ];
    if let Some(pair) = start("hosts", machine, &upstreams) {
        pair.compare("hosts", GUIDE);
    }
}
