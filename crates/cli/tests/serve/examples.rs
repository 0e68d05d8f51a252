//! The configurations of conf/examples, as a reader would use them.

use std::fs;
use std::os::unix::fs::symlink;

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::machine::{EXAMPLES, Machine};
use hikyaku_testkit::{Server, has, hikyaku, plain_http};

/// A machine with the files of the examples.
fn machine() -> Machine {
    let machine = Machine::new(&[
        ("srv/www/index.html", b"www"),
        ("srv/www/assets/a.js", b"js"),
        ("srv/www/errors/403.html", b"not for you"),
        ("srv/www/errors/404.html", b"no such page"),
        ("srv/www/errors/5xx.html", b"broken"),
        ("srv/errors/404.html", b"no such page"),
        ("srv/errors/5xx.html", b"broken"),
        ("srv/acme/.well-known/acme-challenge/token", b"token"),
        ("srv/app/index.html", b"app"),
        ("srv/app/maintenance.html", b"maintenance"),
        ("srv/app/assets/a.js", b"js"),
        ("srv/app/static/a.js", b"js"),
        ("srv/php/assets/a.css", b"css"),
        ("srv/media/index.html", b"media"),
        ("srv/mirror/a.iso", b"0123456789"),
        ("srv/archive/old.iso", b"old"),
        ("srv/files/tool.bin", b"tool"),
        ("srv/blog/index.html", b"blog"),
        ("srv/docs/guide.html", b"guide"),
    ]);
    symlink("../archive/old.iso", machine.path("srv/mirror/old.iso")).unwrap();
    machine
}

/// Fetches a path of a host; the status and the content.
fn fetch(server: &Server, host: &str, path: &str, args: &[&str]) -> (String, String) {
    let port = server.port();
    let (url, resolve) = (
        format!("https://{host}:{port}{path}"),
        format!("{host}:{port}:127.0.0.1"),
    );
    let args = [&["--resolve", &resolve, "-w", "\n%{http_code}", &url], args].concat();
    let output = String::from_utf8(curl(&args).stdout).unwrap();
    let (body, status) = output.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

fn expect(server: &Server, host: &str, cases: &[(&str, &[&str], &str, &str)]) {
    for (path, args, status, body) in cases {
        let got = fetch(server, host, path, args);
        assert_eq!(
            (&*got.0, &*got.1),
            (*status, *body),
            "{host}{path} {args:?}"
        );
    }
}

/// The configurations of hikyaku in a directory of the examples.
fn configurations(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(format!("{EXAMPLES}/{dir}")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<_> = names.filter(|name| name.ends_with(".toml")).collect();
    assert!(names.len() >= 5, "{dir}: {names:?}");
    names.iter().map(|name| format!("{dir}{name}")).collect()
}

#[test]
fn every_example_is_a_configuration() {
    let machine = machine();
    for name in ["", "migrated/"].into_iter().flat_map(configurations) {
        let output = hikyaku(&["check", "--config", &machine.configure(&name, &[])]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{name}: {text}");
    }
}

#[test]
fn a_static_site() {
    if !has("a_static_site", "curl") {
        return;
    }
    let machine = machine();
    let server = machine.start("static.toml", &[]);
    expect(
        &server,
        "localhost",
        &[
            ("/", &[], "200", "www"),
            ("/none", &[], "404", "no such page"),
        ],
    );
    let head = fetch(&server, "localhost", "/assets/a.js", &["-I"]).1;
    for field in [
        "cache-control: public, max-age=31536000, immutable",
        "strict-transport-security: max-age=63072000",
    ] {
        assert!(head.contains(field), "{head}");
    }
    let token = "/.well-known/acme-challenge/token";
    let answer = plain_http(server.cleartext[0], "GET", token, "", "");
    assert_eq!(answer, (200, "token".to_owned()));
}

#[test]
fn a_single_page_application() {
    if !has("a_single_page_application", "curl") {
        return;
    }
    let machine = machine();
    let server = machine.start("spa.toml", &[]);
    expect(
        &server,
        "localhost",
        &[
            ("/", &[], "200", "app"),
            ("/users/7", &[], "200", "app"),
            ("/assets/a.js", &[], "200", "js"),
            ("/assets/none.js", &[], "404", "404 Not Found\n"),
            ("/health", &[], "200", "ok"),
            // No application runs.
            ("/api/users", &[], "502", "502 Bad Gateway\n"),
        ],
    );
    let limited = (0..12).map(|_| fetch(&server, "localhost", "/api/login", &[]).0);
    let limited: Vec<_> = limited.collect();
    assert_eq!(limited[9..], ["502", "429", "429"], "{limited:?}");
}

#[test]
fn two_domains() {
    if !has("two_domains", "curl") {
        return;
    }
    let machine = machine();
    let server = machine.start("sites.toml", &[]);
    expect(&server, "example.org", &[("/", &[], "200", "www")]);
    let location = ["-o", "/dev/null", "-w", "%{redirect_url}\n%{http_code}"];
    let moved = fetch(&server, "www.example.org", "/a?b", &location);
    assert_eq!(moved.0, "301");
    assert!(moved.1.contains("https://example.org/a?b"), "{moved:?}");
    expect(&server, "app.example.net", &[("/", &[], "502", "broken")]);
    let other = fetch(&server, "other.example", "/", &[]);
    assert_eq!(other.0, "421");
}

#[test]
fn a_staging_site() {
    if !has("a_staging_site", "curl") {
        return;
    }
    let machine = machine();
    let server = machine.start("staging.toml", &[]);
    expect(
        &server,
        "localhost",
        &[
            ("/", &[], "401", "401 Unauthorized\n"),
            ("/", &["--user", "ada:secret"], "200", "www"),
            ("/", &["--user", "ada:wrong"], "401", "401 Unauthorized\n"),
            ("/health", &[], "200", "ok"),
        ],
    );
}

#[test]
fn a_mirror() {
    if !has("a_mirror", "curl") {
        return;
    }
    let machine = machine();
    let server = machine.start("mirror.toml", &[]);
    expect(
        &server,
        "localhost",
        &[
            ("/a.iso", &[], "200", "0123456789"),
            ("/a.iso", &["-r", "7-"], "206", "789"),
            ("/old.iso", &[], "200", "old"),
        ],
    );
    let listing = fetch(&server, "localhost", "/", &[]).1;
    assert!(listing.contains("a.iso"), "{listing}");
}
