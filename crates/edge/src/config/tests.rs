use std::path::Path;
use std::time::Duration;

use super::*;
use crate::egress::{MptcpFor, Steer};

#[test]
fn the_example_configuration_shows_the_defaults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/edge.toml");
    let shown = Config::load(Some(Path::new(path)), &[]).unwrap();
    assert_eq!(shown, Config::default());
}

#[test]
fn assignments_override_the_file() {
    let set = |assignments: &[&str]| {
        let assignments: Vec<String> = assignments.iter().map(|&a| a.to_owned()).collect();
        Config::load(None, &assignments)
    };
    let config = set(&[
        "policy.version=h2",
        "tls.min_version=1.3",
        "limits.streams=7",
        "listen=['127.0.0.1:1', '[::1]:2']",
        "timeouts.idle=5s",
        "policy.udp.probe_min=2s",
        "egress.socket=/run/api.sock",
        "egress.steer=address",
        "egress.mptcp=adaptive",
    ])
    .unwrap();
    assert_eq!(config.tls.min_version, TlsVersion::Tls13);
    assert_eq!(config.limits.streams, 7);
    let egress = EgressConfig {
        socket: Some("/run/api.sock".into()),
        steer: Steer::Address,
        mptcp: MptcpFor::Adaptive,
    };
    assert_eq!(config.egress, egress);
    assert_eq!(config.listen.len(), 2);
    assert_eq!(config.timeouts.idle, Duration::from_secs(5));
    assert_eq!(config.policy.udp.probe_min, Duration::from_secs(2));
}

#[test]
fn addresses_to_listen_on_are_read_alike_everywhere() {
    let any = |port| vec![ListenAddress::any(port)];
    // --set, and the same in a file
    let cases = [
        ("listen=443", "listen = 443", any(443)),
        ("listen=:443", "listen = \":443\"", any(443)),
        ("listen=[443]", "listen = [443]", any(443)),
        (
            "listen=[\":443\", 8443]",
            "listen = [\":443\", 8443]",
            [any(443), any(8443)].concat(),
        ),
        (
            "listen=localhost:443",
            "listen = [\"localhost:443\"]",
            vec!["localhost:443".parse().unwrap()],
        ),
        (
            "listen=[::1]:443",
            "listen = \"[::1]:443\"",
            vec!["[::1]:443".parse().unwrap()],
        ),
    ];
    for (assignment, line, want) in cases {
        let set = Config::load(None, &[assignment.to_owned()]).unwrap();
        assert_eq!(set.listen, want, "{assignment}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), line).unwrap();
        let read = Config::load(Some(file.path()), &[]).unwrap();
        assert_eq!(read.listen, want, "{line}");
    }
    let admin = |assignment: &str| {
        let config = Config::load(None, &[assignment.to_owned()]).unwrap();
        config.admin.listen.0.map(|address| address.to_string())
    };
    assert_eq!(admin("admin.listen="), None);
    assert_eq!(admin("admin.listen=8440").unwrap(), "[::]:8440");
    assert_eq!(admin("admin.listen=:8440").unwrap(), "[::]:8440");
    assert_eq!(
        admin("admin.listen=localhost:8440").unwrap(),
        "localhost:8440"
    );
}

#[test]
fn wrong_assignments_are_reported() {
    let cases = [
        ("policy.versoin=h2", "unknown field `versoin`"),
        ("policy.version=h4", "unknown variant `h4`"),
        ("limits.streams=many", "invalid type"),
        ("timeouts.idle=5", "the unit is missing"),
        ("root.x=1", "invalid type"),
        ("novalue", "expected KEY=VALUE"),
        ("=h2", "expected KEY=VALUE"),
        ("admin.listen=here", "the port is missing"),
        ("listen=['localhost']", "the port is missing"),
        ("listen=:99999", "no number from 0 to 65535"),
        ("listen=true", "expected addresses such as"),
        ("egress.steer=left", "unknown variant `left`"),
        ("egress.sockt=/x", "unknown field `sockt`"),
    ];
    for (assignment, want) in cases {
        let error = Config::load(None, &[assignment.to_owned()]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(want) && text.contains(assignment),
            "{assignment}: {text}"
        );
    }
}

#[test]
fn keys_that_do_not_fit_together_are_reported() {
    let served = || Config {
        root: Some("site".into()),
        ..Config::default()
    };
    let mut half = served();
    half.tls.cert = vec!["cert.pem".into()];
    let mut unequal = served();
    unequal.tls.cert = vec!["a.pem".into(), "b.pem".into()];
    unequal.tls.key = vec!["a.key".into()];
    let mut open_admin = served();
    open_admin.admin.listen = AdminAddress(Some(ListenAddress::any(1)));
    let mut class = served();
    class.classes[0].types = vec!["video".to_owned()];
    let mut name = served();
    name.tls.names = vec!["not a name".to_owned()];
    let cases = [
        (served(), None),
        (Config::default(), Some("nothing to serve")),
        (
            Config {
                upstream: Some("http://localhost".into()),
                ..served()
            },
            Some("both `root` and `upstream`"),
        ),
        (
            Config {
                listen: Vec::new(),
                ..served()
            },
            Some("`listen` is empty"),
        ),
        (half, Some("belong together")),
        (unequal, Some("`tls.cert` has 2 files and `tls.key` 1")),
        (open_admin, Some("set `admin.token`")),
        (name, Some("`not a name`")),
        (class, Some("class `live` is wrong in `types`")),
    ];
    for (config, want) in cases {
        match (config.check(), want) {
            (Ok(()), None) => {}
            (Err(error), Some(want)) => assert!(error.to_string().contains(want), "{error}"),
            (result, want) => panic!("{result:?}, but expected {want:?}"),
        }
    }
}

#[test]
fn routes_have_the_settings_of_the_site_but_for_their_own() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = r#"
        root = "/srv"
        [files]
        hidden = true
        index = ["home.html"]
        types = { a = "text/a", b = "text/b" }
        [compression]
        encodings = ["br"]
        level = { br = 4, zstd = 1 }
        [cache]
        default_ttl = "1m"
        [[route]]
        path = "/own"
        files = { index = ["own.html"], types = { b = "text/own" } }
        proxy = { insecure = true }
        cache = { enabled = true }
        compression = { encodings = [], level = { br = 6 } }
        [[route]]
        path = "/none"
    "#;
    std::fs::write(file.path(), text).unwrap();
    let set = ["proxy.keep_connections=7".to_owned()];
    let config = Config::load(Some(file.path()), &set).unwrap();
    let [own, none] = &config.routes[..] else {
        panic!("{:?}", config.routes)
    };
    let files = own.files.as_ref().unwrap();
    assert!(files.hidden);
    assert_eq!(files.index, ["own.html"]);
    let types: Vec<_> = files
        .types
        .iter()
        .map(|(of, is)| format!("{of} {is}"))
        .collect();
    assert_eq!(types, ["a text/a", "b text/own"]);
    let proxy = own.proxy.as_ref().unwrap();
    assert!(proxy.insecure);
    assert_eq!(proxy.keep_connections, 7);
    let compression = own.compression.as_ref().unwrap();
    assert!(compression.encodings.is_empty());
    assert_eq!((compression.level.br, compression.level.zstd), (6, 1));
    let cache = own.cache.as_ref().unwrap();
    assert!(cache.enabled && cache.default_ttl.as_secs() == 60);
    assert_eq!(
        (&none.files, &none.proxy, &none.cache, &none.compression),
        (&None, &None, &None, &None)
    );
}

#[test]
fn upstreams_are_one_or_several_and_routes_have_the_checks_of_the_site() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = r#"
        upstream = ["http://a", "unix:/run/b.sock"]
        [proxy]
        balance = "hash:path"
        health = { path = "/healthz", fall = 5 }
        [[route]]
        path = "/own"
        upstream = "http://c"
        proxy = { retries = 0, health = { fall = 1 } }
    "#;
    std::fs::write(file.path(), text).unwrap();
    let config = Config::load(Some(file.path()), &[]).unwrap();
    let upstreams = config.upstream.unwrap();
    let urls: Vec<_> = upstreams.urls().collect();
    assert_eq!(urls, ["http://a", "unix:/run/b.sock"]);
    let route = &config.routes[0];
    assert_eq!(route.upstream, Some("http://c".into()));
    let proxy = route.proxy.as_ref().unwrap();
    let health = proxy.health.as_ref().unwrap();
    assert_eq!((&*health.path, health.fall), ("/healthz", 1));
    assert_eq!((proxy.retries, &proxy.balance), (0, &config.proxy.balance));

    let set = |text: &str| Config::load(None, &[text.to_owned()]);
    let one = set("upstream=http://a").unwrap().upstream;
    assert_eq!(one, Some("http://a".into()));
    let two = set("upstream=['http://a', 'http://b']").unwrap().upstream;
    assert_eq!(two.unwrap().to_string(), "http://a, http://b");
    for (assignment, want) in [
        (
            "proxy.balance=random",
            "`random` is none of `least_requests`",
        ),
        (
            "proxy.health.status=ok",
            "`ok` is no status from 200 to 599",
        ),
    ] {
        let error = set(assignment).unwrap_err().to_string();
        assert!(error.contains(want), "{assignment}: {error}");
    }
}

#[test]
fn routes_alone_are_something_to_serve() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "[[route]]\npath = \"/\"\nanswer = { status = 204 }",
    )
    .unwrap();
    Config::load(Some(file.path()), &[])
        .unwrap()
        .check()
        .unwrap();
    std::fs::write(file.path(), "[[route]]\npath = \"/\"\nanswr = 1").unwrap();
    let error = Config::load(Some(file.path()), &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("answr") && error.contains("line 3"),
        "{error}"
    );
}

#[test]
fn sites_have_the_settings_of_the_server_but_for_their_own() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = r#"
        [files]
        hidden = true
        index = ["home.html"]
        [compression]
        encodings = ["gzip"]
        [[site]]
        names = ["a.example"]
        root = "/a"
        compression = { min_size = "2KiB" }
        files = { index = ["a.html"] }
        [[site.route]]
        path = "/list"
        files = { listing = true }
        [[site]]
        names = ["b.example"]
        upstream = "http://b"
        tls = { cert = "b.pem", key = "b.key" }
        [[site.route]]
        path = "/list"
        root = "/b"
        files = { listing = true }
    "#;
    std::fs::write(file.path(), text).unwrap();
    let config = Config::load(Some(file.path()), &[]).unwrap();
    config.check().unwrap();
    let [a, b] = &config.sites[..] else {
        panic!("{:?}", config.sites)
    };
    assert_eq!(
        (a.files.hidden, &*a.files.index),
        (true, &["a.html".to_owned()][..])
    );
    assert_eq!(a.compression.encodings, config.compression.encodings);
    assert_eq!(a.compression.min_size.bytes(), 2048);
    assert_eq!(b.files, config.files);
    assert_eq!(b.compression, config.compression);
    for (site, index) in [(a, "a.html"), (b, "home.html")] {
        let files = site.routes[0].files.as_ref().unwrap();
        assert!(files.listing && files.hidden, "{index}");
        assert_eq!(files.index, [index]);
    }
    assert_eq!(b.tls.cert, [Path::new("b.pem")]);
}

#[test]
fn the_example_configuration_names_keys_in_its_comments() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/edge.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let is_example = |line: &str| {
        let key = line.split(" = ").next().unwrap_or_default();
        line.starts_with("[[")
            || (key != line
                && key
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    };
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(example) if is_example(example) => example,
        _ => line,
    });
    let lines: Vec<_> = lines.collect();
    let config: Config = toml::from_str(&lines.join("\n")).unwrap();
    let route = &config.routes[0];
    assert_eq!(route.path, ["/api"]);
    assert!(route.redirect.is_some() && route.answer.is_some());
    assert_eq!(config.sites[0].routes[0].path, ["/assets"]);
    assert!(config.root.is_some() && config.sites[0].upstream.is_some());
}

#[test]
fn sites_have_certificates_by_acme_in_a_word_or_a_table() {
    let parse = |tls: &str| {
        let text = format!("[[site]]\nnames = [\"a.example\"]\nroot = \"/a\"\ntls = {tls}\n");
        toml::from_str::<Config>(&text).map(|config| config.sites[0].tls.clone())
    };
    let by_acme = SiteTls {
        acme: true,
        ..SiteTls::default()
    };
    assert_eq!(parse("\"acme\"").unwrap(), by_acme);
    assert_eq!(parse("{ acme = true }").unwrap(), by_acme);
    assert_eq!(parse("{}").unwrap(), SiteTls::default());
    for tls in ["\"other\"", "true", "{ acme = \"yes\" }"] {
        parse(tls).unwrap_err();
    }
    let text = "tls.acme = \"c.example\"\n[[site]]\nnames = [\"a.example\", \"b.example\"]\n\
                tls = \"acme\"\n[[site]]\nnames = [\"d.example\"]\n";
    let config: Config = toml::from_str(text).unwrap();
    let names: Vec<_> = config.names_by_acme().cloned().collect();
    assert_eq!(names, [vec!["c.example"], vec!["a.example", "b.example"]]);
}

#[test]
fn wrong_sites_are_reported() {
    let cases = [
        (
            "names = [\"a.example\"]\nroot = \"/a\"\n[shards]\nhosts = [\"b.example\"]",
            "`shards.hosts` and `[[site]]`",
        ),
        ("root = \"/a\"", "has no `names`"),
        (
            "names = [\"a.example\"]",
            "`a.example` has nothing to serve",
        ),
        (
            "names = [\"a.example\"]\nroot = \"/a\"\nupstream = \"http://a\"",
            "`a.example` has both",
        ),
        (
            "names = [\"a.example\"]\nroot = \"/a\"\ntls.cert = \"a.pem\"",
            "as many files in `tls.key`",
        ),
    ];
    for (site, want) in cases {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("[[site]]\n{site}")).unwrap();
        let config = Config::load(Some(file.path()), &[]).unwrap();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}
