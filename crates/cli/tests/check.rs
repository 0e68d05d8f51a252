//! `hikyaku check` and `hikyaku config`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hikyaku_testkit::{Site, certificate, hikyaku};

/// Checks a configuration, in which DIR stands for the site's directory. Returns whether a server would start,
/// and the lines.
fn check(site: &Site, config: &str) -> (bool, Vec<String>) {
    let config = config.replace("DIR", site.path());
    site.write("edge.toml", config.as_bytes());
    let path = format!("{}/edge.toml", site.path());
    let output = hikyaku(&["check", "--config", &path]);
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    let text = text.replace(site.path(), "DIR");
    (
        output.status.success(),
        text.lines().map(str::to_owned).collect(),
    )
}

/// A directory with a certificate for localhost.
fn site() -> Site {
    let (cert, key) = certificate();
    let site = Site::new(&[
        ("www/index.html", b"page"),
        ("cert.pem", cert.as_bytes()),
        ("key.pem", key.as_bytes()),
        ("users", b"ada:$apr1$x$y\n"),
    ]);
    set_mode(&site, "key.pem", 0o600);
    site
}

fn set_mode(site: &Site, name: &str, mode: u32) {
    let path = Path::new(site.path()).join(name);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_good_configuration_is_fine() {
    let site = site();
    let (starts, lines) = check(
        &site,
        r#"
        listen = "127.0.0.1:0"
        admin = { listen = "127.0.0.1:0" }
        tls = { cert = "DIR/cert.pem", key = "DIR/key.pem" }
        [[site]]
        names = ["localhost"]
        root = "DIR/www"
        [[site.route]]
        path = "/x"
        answer = { status = 204 }
        "#,
    );
    let want = "the configuration is fine: 1 site, 1 route, on 127.0.0.1:0";
    assert_eq!((starts, &lines[..]), (true, &[want.to_owned()][..]));
}

#[test]
fn keys_that_would_have_no_effect_are_refused_with_the_remedy() {
    let site = site();
    for (keys, want) in [
        (
            "response_headers = { remove = [\"Date\"] }",
            "`response_headers` names `Date`, which the server sets itself: leave it out",
        ),
        (
            "request_headers = { set = { X-Forwarded-For = \"$client\" } }",
            "`request_headers` names `X-Forwarded-For`, which the server writes itself for upstreams: leave it out",
        ),
        (
            "response_headers = { set = { X-Ip = \"$remote_addr\" } }",
            "the value of `X-Ip` names the variable `remote_addr`: there are $client, $host, $method,",
        ),
        (
            "files = { extensions = [\"html\"] }",
            "`extensions`: `html` is no extension such as `.html`",
        ),
        (
            "[[route]]\npath = \"/a\"\nupstream = { url = \"http://a\", weight = 0 }",
            "`weight` is 0: choose 1 to 1000",
        ),
        (
            "[[route]]\npath = \"/a\"\nupstream = [{ url = \"http://a\", backup = true }]",
            "all upstreams are backups: at least one has to be without `backup = true`",
        ),
    ] {
        let config = format!("listen = \"127.0.0.1:0\"\nroot = \"DIR/www\"\n{keys}");
        let (starts, lines) = check(&site, &config);
        assert!(!starts, "{keys}");
        assert!(
            lines.iter().any(|line| line.contains(want)),
            "{keys}: {lines:?}"
        );
    }
    let config = "listen = \"127.0.0.1:0\"\nroot = \"DIR/www\"\nresponse_headers = { remove = [\"Server\"] }";
    assert!(check(&site, config).0);
}

#[test]
fn all_that_is_wrong_is_reported_at_once() {
    let site = site();
    let (starts, lines) = check(
        &site,
        r#"
        listen = ["127.0.0.1:0", "192.0.2.1:443"]
        http = { listen = ["127.0.0.1:0"], challenges = "DIR/none" }
        log = { access = "off", level = "loud,=" }
        model = { file = "DIR/none.json" }
        class = [{ name = "live", paths = ["["] }]
        [[site]]
        names = ["a.example"]
        [[site]]
        names = ["b.example"]
        root = "DIR/none"
        tls = { cert = "DIR/cert.pem" }
        [[site]]
        names = ["c.example"]
        root = "DIR/www"
        tls = { cert = "DIR/none.pem", key = "DIR/key.pem" }
        [[site.route]]
        path = "/a"
        upstream = "ftp://a"
        [[site.route]]
        path = "/b"
        access = { basic_auth = { users = "DIR/users" } }
        "#,
    );
    assert!(!starts);
    for want in [
        "the site `a.example` has nothing to serve",
        "the site `b.example` needs as many files in `tls.key`",
        "class `live` is wrong in `paths`",
        "DIR/none.json",
        "DIR/none.pem",
        "opening the root directory `DIR/none`",
        "its scheme is none of http, https, h2c",
        "in DIR/users, line 1: `ada` has an MD5 hash",
        "serving `http.challenges`",
        "192.0.2.1:443",
        "log.level",
    ] {
        let found = lines
            .iter()
            .any(|line| line.starts_with("error: ") && line.contains(want));
        assert!(found, "{want}: {lines:#?}");
    }
    let last = lines.last().unwrap();
    assert!(last.starts_with("a server would not start: "), "{last}");
}

#[test]
fn what_is_doubtful_is_a_warning() {
    let site = site();
    set_mode(&site, "key.pem", 0o644);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let (starts, lines) = check(
        &site,
        &format!(
            r#"
            listen = "{taken}"
            admin = {{ listen = "127.0.0.1:0" }}
            [[site]]
            names = ["www.example.org"]
            root = "DIR/www"
            tls = {{ cert = "DIR/cert.pem", key = "DIR/key.pem" }}
            "#
        ),
    );
    assert!(starts, "{lines:#?}");
    for want in [
        "DIR/key.pem can be read by every user of this machine: chmod o= DIR/key.pem",
        "the certificate of the site `www.example.org` is for localhost",
        &format!("TCP {taken} is taken"),
    ] {
        let found = lines
            .iter()
            .any(|line| line.starts_with("warning: ") && line.contains(want));
        assert!(found, "{want}: {lines:#?}");
    }
}

#[test]
fn doubts_about_http_in_the_clear_are_warnings() {
    let site = site();
    let users = "access = { basic_auth = { users = \"DIR/users\" } }";
    let clear = |serve: &str| format!("[http]\nlisten = \"127.0.0.1:0\"\nserve = \"{serve}\"\n");
    let own = format!(
        "[[site]]\nnames = [\"a.example\"]\nroot = \"DIR/www\"\nhttp = \"content\"\n\
         [[site.route]]\npath = \"/x\"\n{users}\n"
    );
    let passwords = |what: &str| {
        format!(
            "warning: `basic_auth` of {what} asks for passwords that come in the clear to `http.listen`"
        )
    };
    let cases = [
        (
            format!("root = \"DIR/www\"\n{users}\n{}", clear("content")),
            passwords("the hosts that no site names"),
        ),
        (
            format!("{}{own}", clear("redirect")),
            passwords("the site `a.example`"),
        ),
        (
            own.clone(),
            "warning: `http = \"content\"` of the site `a.example` has no effect".to_owned(),
        ),
        (
            format!(
                "listen = []\nroot = \"DIR/www\"\ntls = {{ cert = \"DIR/cert.pem\", key = \"DIR/key.pem\" }}\n{}",
                clear("content")
            ),
            "warning: `listen` is empty: no client gets the certificates".to_owned(),
        ),
    ];
    for (config, want) in cases {
        let (_, lines) = check(&site, &config);
        let has = lines.iter().any(|line| line.starts_with(&want));
        assert!(has, "{want}\n{lines:?}");
    }
    let fine = format!("root = \"DIR/www\"\n{users}\n{}", clear("redirect"));
    let (_, lines) = check(&site, &fine);
    assert!(
        !lines.iter().any(|line| line.contains("passwords")),
        "{lines:?}"
    );
}

#[test]
fn a_glob_that_goes_before_a_protected_prefix_is_a_warning() {
    let site = site();
    let (starts, lines) = check(
        &site,
        r#"
        listen = "127.0.0.1:0"
        admin = { listen = "127.0.0.1:0" }
        root = "DIR/www"
        [[route]]
        path = "*.txt"
        response_headers = { set = { a = "b" } }
        [[route]]
        path = "/admin"
        access = { allow = ["192.0.2.0/24"] }
        "#,
    );
    assert!(starts, "{lines:#?}");
    let want = "warning: `/admin/a.txt` is of the route for `*.txt`, which goes before `/admin`";
    assert!(
        lines.iter().any(|line| line.starts_with(want)),
        "{lines:#?}"
    );
}

#[test]
fn a_key_that_is_none_is_reported_as_by_serve() {
    let site = site();
    let (starts, lines) = check(&site, "rot = \"DIR/www\"\n");
    assert!(!starts);
    assert!(
        lines
            .iter()
            .any(|line| line.contains("unknown field `rot`")),
        "{lines:#?}"
    );
    assert_eq!(
        lines.last().unwrap(),
        "hint: `hikyaku config` prints every key with its default"
    );
}

#[test]
fn the_defaults_are_a_configuration() {
    let output = hikyaku(&["config"]);
    assert!(output.status.success());
    let site = site();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n[access]\n"));
    let config = format!("root = \"DIR/www\"\n{text}");
    let config = config.replace("listen = [\"[::]:8443\"]", "listen = \"127.0.0.1:0\"");
    let (starts, lines) = check(&site, &config);
    assert!(starts, "{lines:#?}");
}
