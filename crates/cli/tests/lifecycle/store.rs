//! Knowledge that outlives the process.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hikyaku_testkit::{Server, Site, eventually, get};
use redb::{Database, TableDefinition};
use rustix::process::Signal;

/// The last seconds that a crash may lose.
const MAY_BE_LOST: Duration = Duration::from_secs(5);

#[test]
fn a_killed_server_knows_its_clients_again() {
    let site = Site::with_big_file(200_000);
    // Each kill has its waiting time; three servers are killed in that time.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| is_killed_and_knows_its_clients(&site));
        }
    });
}

fn is_killed_and_knows_its_clients(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let mut server = Server::start(&args);
    for round in 1..=4 {
        let client = format!("127.0.7.{round}");
        let records = get(&["--local", &client, &server.url("/big.bin")]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
        // Other clients keep the store writing until the very end.
        let done = Arc::new(AtomicBool::new(false));
        let writing = thread::spawn({
            let (done, url) = (Arc::clone(&done), server.url("/"));
            move || {
                for last in (1..=254).cycle() {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    get(&[
                        "--timeout",
                        "1s",
                        "--local",
                        &format!("127.0.8.{last}"),
                        &url,
                    ]);
                }
            }
        });
        thread::sleep(MAY_BE_LOST);
        server.signal(Signal::KILL);
        server.wait_exit();
        done.store(true, Ordering::Relaxed);
        writing.join().unwrap();

        server = Server::start(&args);
        assert!(!server.log().contains("can't be read"), "{}", server.log());
        assert!(
            server.log().contains("known from before"),
            "{}",
            server.log()
        );
        for known in 1..=round {
            let client = format!("127.0.7.{known}");
            let explained = server.admin_json(&format!("/v1/clients/{client}"));
            let own = &explained["levels"][0];
            assert_eq!(own["key"], *client, "round {round}: {explained:#}");
            assert!(own["samples"].as_f64().unwrap() > 0.0, "{explained:#}");
        }
    }
}

#[test]
fn a_stopped_server_keeps_its_last_samples() {
    let site = Site::with_big_file(200_000);
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let mut server = Server::start(&args);
    get(&[&server.url("/big.bin")]);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    let server = Server::start(&args);
    let explained = server.admin_json("/v1/clients/127.0.0.1");
    assert_eq!(explained["levels"][0]["key"], "127.0.0.1", "{explained:#}");
}

#[test]
fn unusable_stores_are_set_aside() {
    let site = Site::new(&[("index.html", b"start")]);
    let good = good_store(&site);
    let foreign = |path: &Path| {
        let table: TableDefinition<'_, u64, u64> = TableDefinition::new("clients-1");
        let database = Database::create(path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(table).unwrap().insert(1, 2).unwrap();
        transaction.commit().unwrap();
    };
    let cases: [(&str, &dyn Fn(&Path)); 5] = [
        ("noise", &|path| {
            fs::write(path, hikyaku_testkit::noise(100_000)).unwrap();
        }),
        ("text", &|path| fs::write(path, "not a store\n").unwrap()),
        ("truncated", &|path| {
            fs::write(path, &good[..good.len() / 2]).unwrap();
        }),
        ("damaged", &|path| {
            let mut bytes = good.clone();
            bytes[..4096].copy_from_slice(&hikyaku_testkit::noise(4096));
            fs::write(path, bytes).unwrap();
        }),
        ("of another program", &foreign),
    ];
    for (name, make) in cases {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("clients.redb");
        make(&path);
        let before = fs::read(&path).unwrap();
        let server = Server::start(&[site.path(), "--state", state.path().to_str().unwrap()]);
        let log = server.log();
        assert!(log.contains("can't be read"), "{name}: {log}");
        assert!(log.contains("it is kept as"), "{name}: {log}");
        assert_eq!(get(&[&server.url("/")])[0]["status"], 200, "{name}");
        let kept = fs::read_dir(state.path()).unwrap().find_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            name.contains("unreadable").then_some(path)
        });
        let kept = fs::read(kept.unwrap()).unwrap();
        // redb may have marked a file of its own format as open.
        assert!(kept == before || kept.len() >= before.len(), "{name}");
    }
}

/// The content of a store that a server has written.
fn good_store(site: &Site) -> Vec<u8> {
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let mut server = Server::start(&args);
    get(&[&server.url("/")]);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    fs::read(state.path().join("clients.redb")).unwrap()
}

#[test]
fn an_empty_store_file_is_begun_anew() {
    let site = Site::new(&[("index.html", b"start")]);
    let state = tempfile::tempdir().unwrap();
    fs::write(state.path().join("clients.redb"), "").unwrap();
    let server = Server::start(&[site.path(), "--state", state.path().to_str().unwrap()]);
    assert_eq!(get(&[&server.url("/")])[0]["status"], 200);
}

#[test]
fn a_store_has_one_server() {
    let site = Site::new(&[("index.html", b"start")]);
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let first = Server::start(&args);
    let path = state.path().join("clients.redb");
    assert!(
        first.log().contains(path.to_str().unwrap()),
        "{}",
        first.log()
    );
    let refused = Server::try_start(&args).err().unwrap();
    assert!(
        refused.contains("another hikyaku uses it; give each its own --state"),
        "{refused}"
    );
    assert!(refused.contains(path.to_str().unwrap()), "{refused}");
    assert_eq!(get(&[&first.url("/")])[0]["status"], 200);
}

#[test]
fn without_state_it_says_so() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    assert!(
        server.log().contains("in memory: measurements are lost"),
        "{}",
        server.log()
    );
    eventually("the admin page", || TcpStream::connect(server.admin).ok());
    assert_eq!(server.admin("/healthz"), "ok\n");
}
