//! Each kind of challenge.

use hikyaku_testkit::client::{block_on, tls};
use hikyaku_testkit::{Server, plain_http};
use rustix::process::Signal;

use super::{HTTP_PORT, LIFE, Pebble, Setup, wait_valid};

#[test]
fn names_are_proved_by_files_in_the_clear() {
    let Some(pebble) = Pebble::start("names_are_proved_by_files_in_the_clear", LIFE) else {
        return;
    };
    let lines = format!(
        "root = \"ROOT\"\ntls.acme = [\"a.example\", \"b.example\"]\n\
         acme.challenge = \"http-01\"\nhttp.listen = [\"{}:{HTTP_PORT}\"]\n",
        pebble.address
    );
    let setup = Setup::new(&pebble, &lines);
    let server = setup.start(&pebble);
    let all = wait_valid(&server);
    assert_eq!(
        all[0]["names"],
        serde_json::json!(["a.example", "b.example"])
    );
    for name in ["a.example", "b.example"] {
        assert_eq!(setup.get(&pebble, name), [200, 200], "{name}");
    }
    assert_eq!(pebble.orders(), 1);
    // Afterwards there is nothing but redirects.
    let path = "/.well-known/acme-challenge/token";
    let (status, _) = plain_http(server.cleartext[0], "GET", path, "Host: a.example\r\n", "");
    assert_eq!(status, 308);
}

#[test]
fn wildcards_are_proved_by_records_that_a_hook_sets() {
    let Some(pebble) = Pebble::start("wildcards_are_proved_by_records_that_a_hook_sets", LIFE)
    else {
        return;
    };
    let lines = format!(
        "root = \"ROOT\"\ntls.acme = [\"a.example\", \"*.a.example\"]\nacme.hook = {:?}\n",
        pebble.hook()
    );
    let setup = Setup::new(&pebble, &lines);
    let server = setup.start(&pebble);
    wait_valid(&server);
    for name in ["a.example", "any.a.example"] {
        assert_eq!(setup.get(&pebble, name), [200, 200], "{name}");
    }
    let calls = pebble.calls();
    for call in ["present", "cleanup"] {
        let begin = format!("{call} a.example _acme-challenge.a.example ");
        let count = calls.iter().filter(|line| line.starts_with(&begin)).count();
        assert_eq!(count, 2, "{calls:?}");
    }
}

/// RFC 8737 §4: a server without a challenge for a name refuses, and other clients notice nothing.
#[test]
fn only_authorities_get_the_certificates_of_challenges() {
    let Some(pebble) = Pebble::start("only_authorities_get_the_certificates", LIFE) else {
        return;
    };
    let lines = "root = \"ROOT\"\ntls.acme = \"a.example\"\n";
    let setup = Setup::new(&pebble, lines);
    let server = setup.start(&pebble);
    wait_valid(&server);
    let alpn = |offered: &[&str]| {
        let tls = block_on(tls(server.address(), offered));
        tls.map(|tls| tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
    };
    alpn(&["acme-tls/1"]).unwrap_err();
    let cases: [(&[&str], Option<&[u8]>); 4] = [
        (&["acme-tls/1", "h2"], Some(b"h2")),
        (&["http/1.1", "acme-tls/1"], Some(b"http/1.1")),
        (&["h2", "http/1.1"], Some(b"h2")),
        (&[], None),
    ];
    for (offered, want) in cases {
        assert_eq!(alpn(offered).unwrap().as_deref(), want, "{offered:?}");
    }

    // Without ACME, the protocol is not there at all.
    setup.write(&pebble, "root = \"ROOT\"\n");
    drop(server);
    let server = Server::start(&["--config", setup.config.to_str().unwrap()]);
    block_on(tls(server.address(), &["acme-tls/1"])).unwrap_err();
}

#[test]
fn a_reload_adds_a_site_by_acme_and_takes_it_away() {
    let Some(pebble) = Pebble::start("a_reload_adds_a_site_by_acme", LIFE) else {
        return;
    };
    let setup = Setup::new(&pebble, "root = \"ROOT\"\n");
    let server = setup.start(&pebble);
    let lines = "[[site]]\nnames = [\"a.example\"]\nroot = \"ROOT\"\ntls = { acme = true }\n";
    setup.write(&pebble, lines);
    server.signal(Signal::HUP);
    server.wait_log("configuration reloaded");
    wait_valid(&server);
    assert_eq!(setup.get(&pebble, "a.example"), [200, 200]);
    setup.write(&pebble, "root = \"ROOT\"\n");
    server.signal(Signal::HUP);
    server.wait_metric("hikyaku_reloads_total{}", 3.0);
    let all = server.admin_json("/v1/certificates");
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
}
