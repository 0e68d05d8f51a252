//! A port that is mapped to the server's, as containers have them.

use hikyaku_testkit::mapping::map;
use hikyaku_testkit::{Server, Site, get};

#[test]
fn a_client_follows_alt_svc_to_the_mapped_port() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let port = map(server.address());
    let url = format!("https://127.0.0.1:{port}/");
    let records = get(&["--alt-svc", "follow", &url, &url]);
    let alt_svc = records[0]["alt_svc"].as_str().unwrap();
    assert!(
        alt_svc.starts_with(&format!("h3=\":{port}\"; ")),
        "{alt_svc}"
    );
    assert_eq!(records[0]["http"], "2", "{records:?}");
    assert_eq!(records[1]["http"], "3", "{records:?}");
    server.wait_log(&format!("a request names port {port}"));
}

#[test]
fn the_configured_authority_goes_before_the_requests() {
    let site = Site::new(&[("index.html", b"start")]);
    let cases = [
        ("443", "h3=\":443\"; "),
        (":8443", "h3=\":8443\"; "),
        ("www.example.org:443", "h3=\"www.example.org:443\"; "),
    ];
    for (authority, want) in cases {
        let advertise = format!("behind.advertise={authority}");
        let server = Server::start(&[site.path(), "--set", &advertise]);
        let records = get(&["--http", "2", &server.url("/")]);
        let alt_svc = records[0]["alt_svc"].as_str().unwrap();
        assert!(alt_svc.starts_with(want), "{authority}: {alt_svc}");
        assert!(
            !server.log().contains("a request names port"),
            "{authority}"
        );
    }
}
