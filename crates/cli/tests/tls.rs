//! TLS of openssl and curl: certificates of two kinds, their time, ALPN, and clients without TLS.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::{Server, Site, get, has, this_test};

const PAGE: &[u8] = b"<!doctype html><title>start</title>";

fn site() -> Site {
    Site::new(&[("index.html", PAGE)])
}

/// Makes the files of a certificate by openssl: `options` are of `openssl req`.
fn openssl_certificate(dir: &Path, name: &str, options: &[&str]) -> [String; 2] {
    let file = |end: &str| {
        dir.join(format!("{name}.{end}"))
            .to_str()
            .unwrap()
            .to_owned()
    };
    let [cert, key] = [file("pem"), file("key")];
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-nodes",
            "-days",
            "90",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", &key, "-out", &cert])
        .args(options)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    [cert, key]
}

/// Returns the output of `openssl s_client`. With a request it waits for the server to close.
fn s_client(server: &Server, request: &str, options: &[&str]) -> String {
    let script = format!(
        "(printf '{request}'; sleep 0.3) | openssl s_client -connect {} -servername localhost \
         {} {} 2>&1",
        server.address(),
        if request.is_empty() { "" } else { "-ign_eof" },
        options.join(" ")
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn each_client_gets_a_certificate_that_it_understands() {
    if !has(&this_test(), "openssl") {
        return;
    }
    let site = site();
    let dir = tempfile::tempdir().unwrap();
    let [rsa, rsa_key] = openssl_certificate(dir.path(), "rsa", &["-newkey", "rsa:2048"]);
    let ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    let [ecdsa, ecdsa_key] = openssl_certificate(dir.path(), "ecdsa", &ec);
    let config = dir.path().join("edge.toml");
    let text = format!("[tls]\ncert = [{rsa:?}, {ecdsa:?}]\nkey = [{rsa_key:?}, {ecdsa_key:?}]\n");
    fs::write(&config, text).unwrap();
    let server = Server::start(&[site.path(), "--config", config.to_str().unwrap()]);
    let cases: &[(&[&str], &str)] = &[
        (&["-tls1_3"], "ECDSA"),
        (&["-tls1_3", "-sigalgs", "RSA-PSS+SHA256"], "RSA-PSS"),
        (&["-tls1_3", "-sigalgs", "ECDSA+SHA256"], "ECDSA"),
        (
            &["-tls1_3", "-sigalgs", "RSA-PSS+SHA256:ECDSA+SHA256"],
            "ECDSA",
        ),
        (&["-tls1_2"], "ECDSA"),
        (&["-tls1_2", "-sigalgs", "RSA+SHA256"], "RSA"),
        (&["-tls1_2", "-sigalgs", "RSA-PSS+SHA256"], "RSA-PSS"),
        // All signatures, and cipher suites for one kind of key alone.
        (
            &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
            "RSA",
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
            "ECDSA",
        ),
    ];
    let expect = |server: &Server| {
        for (options, want) in cases {
            let said = s_client(server, "", options);
            let mut lines = said.lines();
            let kind = lines.find_map(|line| line.strip_prefix("Peer signature type: "));
            let kind = kind.unwrap_or_else(|| panic!("{options:?}: {said}"));
            assert!(kind.starts_with(want), "{options:?}: {kind}");
        }
    };
    expect(&server);
    assert_eq!(get(&["--http", "3", &server.url("/")])[0]["status"], 200);

    // The server reads both again, without a signal.
    let [before, after] = [(); 2].map(|()| openssl_certificate(dir.path(), "ecdsa", &ec));
    assert_eq!(before, after);
    openssl_certificate(dir.path(), "rsa", &["-newkey", "rsa:2048"]);
    server.wait_metric("hikyaku_reloads_total{}", 2.0);
    expect(&server);
    for key in ["ecdsa", "rsa"] {
        let name = format!("hikyaku_certificate_not_after_seconds{{key=\"{key}\"}}");
        assert!(server.metric(&name) > 1.7e9, "{name}");
    }
}

#[test]
fn pairs_for_different_names_are_refused() {
    if !has(&this_test(), "openssl") {
        return;
    }
    let site = site();
    let dir = tempfile::tempdir().unwrap();
    let [rsa, rsa_key] = openssl_certificate(dir.path(), "rsa", &["-newkey", "rsa:2048"]);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [other, other_key] = ["other.pem", "other.key"].map(|name| dir.path().join(name));
    fs::write(&other, made.cert.pem()).unwrap();
    fs::write(&other_key, made.signing_key.serialize_pem()).unwrap();
    let [other, other_key] = [&other, &other_key].map(|path| path.to_str().unwrap());
    let pairs = [
        "--cert", &rsa, "--key", &rsa_key, "--cert", other, "--key", other_key,
    ];
    let log = Server::try_start(&[&[site.path()], &pairs[..]].concat()).err();
    let log = log.expect("the server started");
    let want = "they must be for the same names, and are for localhost and localhost, 127.0.0.1";
    assert!(log.contains(want) && log.contains(other), "{log}");
}

#[test]
fn certificates_that_expire_are_reported() {
    let site = site();
    let dir = tempfile::tempdir().unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
    let put = |from: (i32, u8, u8), to: (i32, u8, u8)| {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
        params.not_after = rcgen::date_time_ymd(to.0, to.1, to.2);
        let private = rcgen::KeyPair::generate().unwrap();
        let made = params.self_signed(&private).unwrap();
        fs::write(&key, private.serialize_pem()).unwrap();
        fs::write(&cert, made.pem()).unwrap();
    };
    put((2020, 1, 1), (2021, 1, 1));
    let files = [&cert, &key].map(|path| path.to_str().unwrap());
    let server = Server::start(&[site.path(), "--cert", files[0], "--key", files[1]]);
    server.wait_log("the ecdsa certificate has expired ");
    let name = "hikyaku_certificate_not_after_seconds{key=\"ecdsa\"}";
    assert_eq!(server.metric(name), 1_609_459_200.0);
    put((2020, 1, 1), (2120, 1, 1));
    hikyaku_testkit::eventually("the metric of the new certificate", || {
        (server.metric(name) == 4_733_510_400.0).then_some(())
    });
    let warned = server.log().matches("certificate has expired").count();
    assert_eq!(warned, 1, "{}", server.log());
    put((2119, 1, 1), (2120, 1, 1));
    server.wait_log("is not valid before 2119-01-01T00:00:00Z");
}

#[test]
fn http_1_0_is_spoken_where_it_is_asked_for() {
    if !has(&this_test(), "openssl") {
        return;
    }
    let site = site();
    // Offered, chosen.
    let cases = [
        ("http/1.0", "http/1.0"),
        ("http/1.1,http/1.0", "http/1.1"),
        ("http/1.0,http/1.1", "http/1.1"),
        ("http/1.0,h2", "h2"),
    ];
    for pin in ["adaptive", "h1"] {
        let set = format!("policy.version={pin}");
        let server = Server::start(&[site.path(), "--set", &set]);
        for (offered, chosen) in cases {
            let chosen = match (pin, chosen) {
                ("h1", "h2") => "http/1.0",
                _ => chosen,
            };
            let request = r"GET / HTTP/1.0\r\n\r\n";
            let request = if chosen == "h2" { "" } else { request };
            let said = s_client(&server, request, &["-alpn", offered]);
            let what = format!("{pin}, {offered}: {said}");
            assert!(said.contains(&format!("ALPN protocol: {chosen}")), "{what}");
            if chosen != "h2" {
                assert!(said.contains("HTTP/1.0 200 OK"), "{what}");
                assert!(said.contains("<title>start</title>"), "{what}");
            }
        }
        let none = s_client(&server, "", &["-alpn", "spdy/3"]);
        assert!(none.contains("no application protocol"), "{pin}: {none}");
        if has(&this_test(), "curl") {
            let answer = curl(&["--http1.0", "-i", &server.url("/")]);
            let text = String::from_utf8_lossy(&answer.stdout).into_owned();
            assert!(text.starts_with("HTTP/1.0 200 OK"), "{pin}: {answer:?}");
        }
    }
}

#[test]
fn old_clients_exchange_keys_of_their_own_kind() {
    if !has(&this_test(), "openssl") {
        return;
    }
    let site = site();
    let server = Server::start(&[site.path()]);
    let cases: &[(&[&str], &str)] = &[
        (&["-tls1_3", "-groups", "P-256"], "ECDH, prime256v1"),
        (&["-tls1_3", "-groups", "P-384:P-256"], "ECDH, secp384r1"),
        (&["-tls1_3", "-groups", "X25519"], "X25519"),
        (&["-tls1_2", "-groups", "P-256"], "ECDH, prime256v1"),
        (&["-tls1_2"], "X25519"),
    ];
    for (options, want) in cases {
        let said = s_client(&server, "", &[options, ["-msg"].as_slice()].concat());
        let key = format!("Server Temp Key: {want}");
        assert!(said.contains(&key), "{options:?}: {said}");
        // A HelloRetryRequest would have a second ClientHello follow.
        let hellos = said.matches(", ClientHello").count();
        assert_eq!(hellos, 1, "{options:?}: {said}");
    }
}

#[test]
fn http_without_tls_gets_an_explanation() {
    if !has(&this_test(), "curl") {
        return;
    }
    let site = site();
    let server = Server::start(&[site.path(), "--set", "timeouts.handshake=3s"]);
    let url = format!("http://{}/", server.address());
    let big = server.dir().join("body");
    fs::write(&big, hikyaku_testkit::noise(300_000)).unwrap();
    let body = format!("@{}", big.display());
    let cases: &[(&str, &[&str])] = &[
        ("GET", &[]),
        ("HTTP/1.0", &["--http1.0"]),
        ("POST", &["--data-binary", &body, "-H", "expect:"]),
        ("PUT that waits to be asked", &["-T", big.to_str().unwrap()]),
        ("HTTP/2 by upgrade", &["--http2"]),
    ];
    for (name, options) in cases {
        let answer = curl(&[&["-i", &url], *options].concat());
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!(
            text.starts_with("HTTP/1.1 400 Bad Request"),
            "{name}: {answer:?}"
        );
        assert!(text.contains("this is an HTTPS port"), "{name}: {text}");
    }
    let head = curl(&["-I", &url]);
    let text = String::from_utf8_lossy(&head.stdout).into_owned();
    assert!(
        text.starts_with("HTTP/1.1 400") && text.ends_with("\r\n\r\n"),
        "{head:?}"
    );
    server.wait_metric("hikyaku_handshakes_failed_total{transport=\"tcp\"}", 6.0);

    // A client that sends a letter and waits has the time of a handshake, like one that sends
    // nothing.
    let waits = std::net::TcpStream::connect(server.address()).unwrap();
    waits
        .set_read_timeout(Some(hikyaku_testkit::PATIENCE))
        .unwrap();
    let begun = std::time::Instant::now();
    std::io::Write::write_all(&mut &waits, b"G").unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut &waits, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(get(&[&server.url("/")])[0]["status"], 200);
}
