//! A proxy of HTTP that names the client of each request in a field.

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{Server, Site, has, this_test};

use crate::haproxy::Haproxy;

/// Asks for a path through the proxy from an address. Returns the response's content.
#[track_caller]
fn ask(haproxy: &Haproxy, from: &str, path: &str) -> String {
    let url = format!("https://{}{path}", haproxy.address());
    let spoofed = "X-Forwarded-For: 192.0.2.99";
    let output = curl(&["--fail", "--interface", from, "-H", spoofed, &url]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{from}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_request_is_of_the_client_that_a_trusted_proxy_names() {
    let test = this_test();
    if !has(&test, "haproxy") || !has(&test, "curl") {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path(), "--set", "behind.trusted=127.0.0.1"]);
    let haproxy = Haproxy::of_http(server.address());
    for client in ["127.0.0.2", "127.0.0.3", "127.0.0.2"] {
        assert_eq!(ask(&haproxy, client, "/"), "start");
        let line = server.wait_access(client, |line| line["client"] == client);
        assert_eq!(line["via"], "127.0.0.1", "{line}");
        assert_eq!(line["port"], 0, "{line}");
    }
    for address in ["127.0.0.1", "127.0.0.2", "192.0.2.99"] {
        let explained = server.admin_json(&format!("/v1/clients/{address}"));
        assert_eq!(explained["levels"], serde_json::json!([]), "{explained:#}");
    }
}

#[test]
fn the_field_of_others_is_ignored() {
    let test = this_test();
    if !has(&test, "haproxy") || !has(&test, "curl") {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path(), "--set", "behind.trusted=127.0.0.9"]);
    let haproxy = Haproxy::of_http(server.address());
    assert_eq!(ask(&haproxy, "127.0.0.2", "/"), "start");
    let line = server.wait_access("the proxy", |line| line["client"] == "127.0.0.1");
    assert!(line["via"].is_null(), "{line}");
}

#[test]
fn an_upstream_sees_the_whole_way() {
    let test = this_test();
    if !has(&test, "haproxy") || !has(&test, "curl") {
        return;
    }
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = Server::start(&["--upstream", &upstream, "--set", "behind.trusted=127.0.0.1"]);
    let haproxy = Haproxy::of_http(server.address());
    let head = ask(&haproxy, "127.0.0.2", "/head");
    let way = "x-forwarded-for: 192.0.2.99, 127.0.0.2, 127.0.0.1\n";
    assert!(head.contains(way), "{head}");
    let direct = curl(&[
        "--fail",
        "--interface",
        "127.0.0.9",
        "-H",
        "X-Forwarded-For: 192.0.2.99",
        &server.url("/head"),
    ]);
    let head = String::from_utf8(direct.stdout).unwrap();
    assert!(head.contains("x-forwarded-for: 127.0.0.9\n"), "{head}");
}
