//! Groups of upstreams, and their reload.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use hikyaku_testkit::client::{self, H2};
use hikyaku_testkit::upstream::{self, Speaks, Stoppable};
use hikyaku_testkit::{Server, Site, eventually};
use rustix::process::Signal;

fn configure(file: &Path, upstreams: &[SocketAddr]) {
    // The first of the list gets the most.
    let urls = upstreams
        .iter()
        .zip([5, 1])
        .map(|(address, weight)| format!("{{ url = \"http://{address}\", weight = {weight} }}"));
    let urls = urls.collect::<Vec<_>>().join(", ");
    let health = "health = { path = \"/head\", interval = \"100ms\" }";
    fs::write(file, format!("upstream = [{urls}]\n[proxy]\n{health}\n")).unwrap();
}

#[test]
fn a_reload_of_a_group_under_load_loses_no_request() {
    let (a, b) = (
        upstream::start(Speaks::Http1),
        upstream::start(Speaks::Http1),
    );
    let site = Site::new(&[]);
    let file = Path::new(site.path()).join("edge.toml");
    configure(&file, &[a, b]);
    let server = Server::start(&["--config", file.to_str().unwrap()]);
    let (ends, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let load = || {
        client::block_on(async {
            let mut h2 = H2::connect(server.address()).await.unwrap();
            while !ends.load(Relaxed) {
                let got = h2.get("/head").await.unwrap();
                assert_eq!(got.status, 200, "{}", got.text());
                done.fetch_add(1, Relaxed);
            }
        });
    };
    std::thread::scope(|scope| {
        let clients = [(); 2].map(|()| scope.spawn(load));
        for (reloads, list) in [&[a, b][..], &[a], &[b], &[b, a]].into_iter().enumerate() {
            if reloads > 0 {
                configure(&file, list);
                server.signal(Signal::HUP);
                server.wait_metric("hikyaku_reloads_total{}", reloads as f64);
            }
            let before = done.load(Relaxed);
            eventually("load", || (done.load(Relaxed) >= before + 50).then_some(()));
        }
        ends.store(true, Relaxed);
        for client in clients {
            client.join().unwrap();
        }
    });
    for address in [a, b] {
        let of = |name: &str| server.metric(&format!("{name}{{upstream=\"http://{address}\"}}"));
        assert!(of("hikyaku_upstream_requests_total") > 0.0);
        assert!(of("hikyaku_upstream_failures_total") < 1.0);
        assert!(of("hikyaku_upstream_up") > 0.0);
    }
    let status = server.admin_json("/v1/status");
    assert_eq!(status["upstreams"].as_array().unwrap().len(), 2, "{status}");
    assert_eq!(status["upstreams"][0]["up"], true, "{status}");
}

#[test]
fn several_upstreams_may_be_given_on_the_command_line() {
    let there = format!("http://{}", upstream::start(Speaks::Http1));
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let server = Server::start(&["--upstream", &gone, "--upstream", &there]);
    client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        for _ in 0..20 {
            assert_eq!(h2.get("/head").await.unwrap().status, 200);
        }
    });
    let down = format!("hikyaku_upstream_up{{upstream=\"{gone}\"}}");
    eventually("it is avoided", || {
        (server.metric(&down) < 1.0).then_some(())
    });
    server.wait_log("the upstream fails, and is avoided for 5s");
}

#[test]
fn weights_and_backups_decide_who_is_asked() {
    let start = || {
        let stoppable = Stoppable::start(([127, 0, 0, 1], 0).into(), Speaks::Http1);
        (format!("http://{}", stoppable.address), stoppable)
    };
    let ((heavy, one), (light, other), (spare, _spare)) = (start(), start(), start());
    let site = Site::new(&[]);
    let file = Path::new(site.path()).join("edge.toml");
    let text = format!(
        "upstream = [{{ url = \"{spare}\", backup = true }}, {{ url = \"{heavy}\", weight = 9 }}, \"{light}\"]\n[proxy]\nretries = 2\n"
    );
    fs::write(&file, text).unwrap();
    let server = Server::start(&["--config", file.to_str().unwrap()]);
    let asked = |url: &str| {
        server.metric(&format!(
            "hikyaku_upstream_requests_total{{upstream=\"{url}\"}}"
        ))
    };
    client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        for _ in 0..200 {
            assert_eq!(h2.get("/head").await.unwrap().status, 200);
        }
        let part = asked(&heavy) / 200.0;
        assert!((part - 0.9).abs() < 0.08, "{part}");
        assert!((asked(&heavy) + asked(&light) - 200.0).abs() < 0.5);
        assert!(asked(&spare) < 0.5, "while others can be asked");
        drop((one, other));
        for _ in 0..20 {
            assert_eq!(h2.get("/head").await.unwrap().status, 200);
        }
    });
    assert!(asked(&spare) > 10.0, "{}", asked(&spare));
}
