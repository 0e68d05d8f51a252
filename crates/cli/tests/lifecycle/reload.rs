//! Reloads, replaced certificates, and the log's file.

use std::fs;

use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::{Server, Site, certificate, get, hikyaku};
use rustix::process::Signal;

#[test]
fn a_reload_keeps_connections_and_is_refused_whole() {
    let site = Site::new(&[
        ("index.html", b"start"),
        ("old.html", b"old page"),
        ("new.html", b"new page"),
    ]);
    let config = tempfile::NamedTempFile::new().unwrap();
    let write = |not_found: &str| {
        let text = format!("root = {:?}\n\n[files]\n{not_found}\n", site.path());
        fs::write(config.path(), text).unwrap();
    };
    write("not_found = \"old.html\"");
    let server = Server::start(&["--config", config.path().to_str().unwrap()]);
    client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let h3 = H3::connect(server.address()).await.unwrap();
        let mut expect = async |want: &str| {
            let over_h2 = h2.get("/nowhere").await.unwrap();
            let over_h3 = h3.get("/nowhere").await.unwrap();
            for got in [over_h2, over_h3] {
                assert_eq!((got.status, got.text()), (404, want));
            }
        };
        expect("old page").await;

        write("not_found = \"new.html\"");
        server.signal(Signal::HUP);
        server.wait_log("configuration reloaded");
        expect("new page").await;

        let bad = [
            ("not_fund = \"old.html\"", "unknown field `not_fund`"),
            (
                "listing = 3",
                "invalid type: integer `3`, expected a boolean",
            ),
            ("index = [", "unclosed array, expected `]`"),
        ];
        for (count, (line, why)) in bad.into_iter().enumerate() {
            write(line);
            server.signal(Signal::HUP);
            let log = server.wait_log(why);
            assert!(log.contains("configuration refused, the former stays in force"));
            assert!(log.contains("line 4"), "{log}");
            assert_eq!(log.matches("configuration refused").count(), count + 1);
            expect("new page").await;
        }

        let text = format!("root = {:?}\nmptcp = false\n", site.path());
        fs::write(config.path(), text).unwrap();
        server.signal(Signal::HUP);
        server.wait_log("`listen` can't change while the server runs; restart it for that");
        expect("new page").await;
    });
}

#[test]
fn replaced_certificates_are_used_without_a_signal() {
    let site = Site::new(&[("index.html", b"start")]);
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let put = |(certificate, private): &(String, String)| {
        fs::write(&cert, certificate).unwrap();
        fs::write(&key, private).unwrap();
    };
    let (first, second) = (certificate(), certificate());
    put(&first);
    let args = [
        site.path(),
        "--cert",
        cert.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ];
    let server = Server::start(&args);
    let trusts = |(certificate, _): &(String, String), http: &str| {
        let roots = dir.path().join("roots.pem");
        fs::write(&roots, certificate).unwrap();
        let roots = roots.to_str().unwrap();
        let url = format!("https://localhost:{}/", server.port());
        let to = format!("localhost:{}:127.0.0.1", server.port());
        let args = [
            "get",
            "--fail",
            "--http",
            http,
            "--cacert",
            roots,
            "--resolve",
            &to,
            &url,
        ];
        hikyaku(&args).status.success()
    };
    for http in ["1.1", "2", "3"] {
        assert!(trusts(&first, http), "HTTP/{http}");
        assert!(!trusts(&second, http), "HTTP/{http}");
    }
    put(&second);
    server.wait_log("certificate changed; fingerprint (SHA-256)");
    for http in ["1.1", "2", "3"] {
        assert!(trusts(&second, http), "HTTP/{http}");
        assert!(!trusts(&first, http), "HTTP/{http}");
    }
    // One half of a pair has changed: the former pair stays.
    fs::write(&cert, &first.0).unwrap();
    server.wait_log("certificate not reloaded, the former stays in use");
    assert!(trusts(&second, "3"));
}

#[test]
fn the_access_log_is_opened_anew_on_sighup() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    get(&[&server.url("/?before")]);
    server.wait_access("the first request", |line| line["path"] == "/?before");
    let rotated = server.dir().join("access.log.1");
    fs::rename(server.access_path(), &rotated).unwrap();
    server.signal(Signal::HUP);
    server.wait_log("configuration reloaded");
    get(&[&server.url("/?after")]);
    server.wait_access("the second request", |line| line["path"] == "/?after");
    let old = fs::read_to_string(&rotated).unwrap();
    assert!(
        old.contains("/?before") && !old.contains("/?after"),
        "{old}"
    );
    assert_eq!(server.access_lines().len(), 1);
}
