//! The store of estimates.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use rustix::process::Signal;

use super::{Disk, is_served, times};
use hikyaku_testkit::{Server, Site, eventually, get, has, skip};

const FAILS: &str = "can't be written";
const AGAIN: &str = "is written again";
const AVAILABLE: &str = "hikyaku_store_available";
const FAILURES: &str = "hikyaku_store_failures_total{}";

/// Makes requests from so many addresses, the first of which is 127.0.NET.1.
fn visit(server: &Server, net: u8, clients: u8) {
    for last in 1..=clients {
        let address = format!("127.0.{net}.{last}");
        let records = get(&["--local", &address, &server.url("/")]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
    }
}

fn knows(server: &Server, address: &str) -> bool {
    let explained = server.admin_json(&format!("/v1/clients/{address}"));
    explained["levels"][0]["key"] == address
}

/// A site, and the directory of its server's state.
struct Kept<'a> {
    site: Site,
    state: &'a Path,
}

impl<'a> Kept<'a> {
    fn new(state: &'a Path) -> Self {
        let site = Site::new(&[("index.html", b"start")]);
        Self { site, state }
    }

    fn args(&self) -> [&str; 3] {
        [self.site.path(), "--state", self.state.to_str().unwrap()]
    }

    fn start(&self) -> Server {
        Server::start(&self.args())
    }
}

fn stop(mut server: Server) -> String {
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    server.log()
}

#[test]
fn a_disk_that_is_full_for_a_time_loses_nothing() {
    const TEST: &str = "a_disk_that_is_full_for_a_time_loses_nothing";
    let Some(disk) = Disk::new(TEST, 4 << 20) else {
        return;
    };
    let kept = Kept::new(disk.path());
    let server = kept.start();
    visit(&server, 1, 1);
    server.wait_metric("hikyaku_store_records_written_total{}", 1.0);
    assert_eq!(server.metric(AVAILABLE), 1.0);
    assert_eq!(server.metric(FAILURES), 0.0);

    disk.fill();
    visit(&server, 2, 20);
    server.wait_metric(FAILURES, 2.0);
    assert_eq!(server.metric(AVAILABLE), 0.0);
    is_served(&server);
    visit(&server, 3, 2);

    disk.free();
    server.wait_log(AGAIN);
    assert_eq!((times(&server, FAILS), times(&server, AGAIN)), (1, 1));
    assert_eq!(server.metric(AVAILABLE), 1.0);
    visit(&server, 4, 1);
    stop(server);

    let server = kept.start();
    for address in [
        "127.0.1.1",
        "127.0.2.1",
        "127.0.2.20",
        "127.0.3.2",
        "127.0.4.1",
    ] {
        assert!(knows(&server, address), "{address}");
    }
    assert!(!server.log().contains("can't be read"), "{}", server.log());
}

#[test]
fn a_disk_that_is_full_at_start_does_not_keep_it_from_serving() {
    const TEST: &str = "a_disk_that_is_full_at_start_does_not_keep_it_from_serving";
    let Some(disk) = Disk::new(TEST, 4 << 20) else {
        return;
    };
    let kept = Kept::new(disk.path());
    disk.fill();
    let server = kept.start();
    server.wait_log(FAILS);
    visit(&server, 1, 1);
    disk.free();
    server.wait_log(AGAIN);
    stop(server);

    // With a former store, which can be read.
    disk.fill();
    let server = kept.start();
    assert!(knows(&server, "127.0.1.1"));
    visit(&server, 2, 20);
    disk.free();
    stop(server);
    let server = kept.start();
    assert!(knows(&server, "127.0.1.1") && knows(&server, "127.0.2.20"));
    let names = fs::read_dir(disk.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name());
    let others = names.filter(|name| name != "keys.json").count();
    assert_eq!(others, 1, "something was set aside");
}

#[test]
fn a_disk_that_stays_full_is_said_at_the_end() {
    const TEST: &str = "a_disk_that_stays_full_is_said_at_the_end";
    let Some(disk) = Disk::new(TEST, 4 << 20) else {
        return;
    };
    let kept = Kept::new(disk.path());
    disk.fill();
    let server = kept.start();
    visit(&server, 1, 1);
    let log = stop(server);
    assert!(log.contains("what was not written yet is lost"), "{log}");
    assert!(!disk.join("clients.redb").exists());
}

#[test]
fn a_store_on_a_disk_for_reading_alone_is_read() {
    const TEST: &str = "a_store_on_a_disk_for_reading_alone_is_read";
    let Some(disk) = Disk::new(TEST, 16 << 20) else {
        return;
    };
    let kept = Kept::new(disk.path());
    let server = kept.start();
    visit(&server, 1, 1);
    stop(server);

    disk.set_writable(false);
    let server = kept.start();
    server.wait_log("Read-only file system");
    assert_eq!(server.metric(AVAILABLE), 0.0);
    assert!(knows(&server, "127.0.1.1"));
    visit(&server, 2, 1);
    disk.set_writable(true);
    server.wait_log(AGAIN);
    assert_eq!((times(&server, FAILS), times(&server, AGAIN)), (1, 1));
    stop(server);
    let server = kept.start();
    assert!(knows(&server, "127.0.1.1") && knows(&server, "127.0.2.1"));
}

#[test]
fn a_directory_that_vanishes_is_made_again_with_everything() {
    let parent = tempfile::tempdir().unwrap();
    let state = parent.path().join("state");
    let kept = Kept::new(&state);
    let server = kept.start();
    visit(&server, 1, 2);
    server.wait_metric("hikyaku_store_records_written_total{}", 1.0);
    fs::remove_dir_all(&state).unwrap();
    server.wait_log("the file is gone");
    server.wait_log(AGAIN);
    stop(server);
    let server = kept.start();
    assert!(knows(&server, "127.0.1.1") && knows(&server, "127.0.1.2"));
}

#[test]
fn a_client_deleted_unread_does_not_come_back() {
    const TEST: &str = "a_client_deleted_unread_does_not_come_back";
    if !rustix::process::geteuid().is_root() {
        return skip(TEST, "only root can give a directory away");
    }
    if !has(TEST, "setpriv") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let kept = Kept::new(state.path());
    let server = kept.start();
    visit(&server, 1, 2);
    stop(server);

    // The directory is another user's, and root without capabilities has no access.
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let owner = |uid| chown(state.path(), Some(uid), Some(uid)).unwrap();
    owner(65534);
    let by = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"];
    let server = Server::try_start_by(&by, &kept.args()).unwrap();
    server.wait_log("Permission denied");
    assert!(!knows(&server, "127.0.1.1"));
    is_served(&server);
    let body = r#"{"address": "127.0.1.1"}"#;
    let (status, _) = hikyaku_testkit::plain_http(server.admin, "POST", "/v1/forget", "", body);
    assert_eq!(status, 200);
    owner(0);
    server.wait_log(AGAIN);
    stop(server);
    let server = kept.start();
    assert!(!knows(&server, "127.0.1.1"));
    assert!(knows(&server, "127.0.1.2"));
}

#[test]
fn a_store_that_is_damaged_meanwhile_is_set_aside() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("clients.redb");
    let kept = Kept::new(state.path());
    let server = kept.start();
    visit(&server, 1, 1);
    server.wait_metric("hikyaku_store_records_written_total{}", 1.0);
    let replace = |path: &Path| {
        let other = path.with_extension("other");
        fs::write(&other, "not a store\n").unwrap();
        fs::rename(&other, path).unwrap();
    };
    replace(&file);
    server.wait_log("it is kept as");
    server.wait_log(AGAIN);
    let aside = eventually("the damaged file", || {
        let mut files = fs::read_dir(state.path()).unwrap();
        files.find_map(|entry| {
            let path = entry.unwrap().path();
            path.to_str()
                .unwrap()
                .contains("unreadable")
                .then_some(path)
        })
    });
    assert_eq!(fs::read(aside).unwrap(), b"not a store\n");
    stop(server);
    assert!(knows(&kept.start(), "127.0.1.1"));
}
