//! The access log, and the log on standard error.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Disk, fifo, is_served, times};
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::{Server, Site, binary, eventually, get};

/// Requests over one connection, more lines than a pipe holds.
const MANY: usize = 1000;

fn ask_often(server: &Server) {
    client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let h3 = H3::connect(server.address()).await.unwrap();
        for _ in 0..MANY / 2 {
            assert_eq!(h2.get("/").await.unwrap().status, 200);
            assert_eq!(h3.get("/").await.unwrap().status, 200);
        }
    });
}

/// Serves, reloads and stops although no reader takes the lines.
fn works_without_reader(server: &mut Server) {
    ask_often(server);
    server.signal(Signal::HUP);
    server.wait_log("configuration reloaded");
    is_served(server);
    assert_eq!(server.admin("/healthz"), "ok\n");
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    let log = server.log();
    assert!(
        log.contains("lines of the access log could not be written"),
        "{log}"
    );
}

/// A FIFO called `name` that is open for reading, and is never read.
struct Unread {
    _dir: tempfile::TempDir,
    path: PathBuf,
    reader: File,
}

impl Unread {
    fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fifo(&path);
        let mut options = fs::OpenOptions::new();
        let reader = options.read(true).write(true).open(&path).unwrap();
        Self {
            _dir: dir,
            path,
            reader,
        }
    }

    /// Starts a server whose access log goes into the FIFO, as its standard output.
    fn start(&self, site: &Site) -> Server {
        let into = format!("exec \"$0\" \"$@\" >{}", self.path.display());
        let args = [site.path(), "--set", "log.access=stdout"];
        Server::try_start_by(&["sh", "-c", &into], &args).unwrap()
    }
}

#[test]
fn an_access_log_on_a_full_disk_goes_on_when_there_is_space() {
    const TEST: &str = "an_access_log_on_a_full_disk_goes_on_when_there_is_space";
    let Some(disk) = Disk::new(TEST, 64 << 10) else {
        return;
    };
    let site = Site::new(&[("index.html", b"start")]);
    let path = disk.join("access.log");
    let access = format!("log.access={}", path.display());
    // The disk is full at the start, too.
    disk.fill();
    let server = Server::start(&[site.path(), "--set", &access]);
    is_served(&server);
    server.wait_log("No space left on device");
    disk.free();
    server.wait_log("the access log is written to");

    ask_often(&server);
    eventually("a full disk", || {
        (times(&server, "No space left on device") == 2).then_some(())
    });
    is_served(&server);
    // An operator moves the file away, and its last line is complete.
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, "").unwrap();
    let more = MANY + 2 - before.matches('\n').count();
    let mut text = before;
    let mut seen = 0;
    for _ in 0..20 {
        eventually("more lines", || {
            let len = fs::metadata(&path).unwrap().len();
            (len > 0).then_some(())
        });
        std::thread::sleep(std::time::Duration::from_millis(1100));
        text += &fs::read_to_string(&path).unwrap();
        fs::write(&path, "").unwrap();
        seen = text.matches('\n').count();
        if seen >= MANY + 2 {
            break;
        }
    }
    assert_eq!(seen, MANY + 2, "of which {more} were to come");
    for line in text.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "torn: {line}");
    }
    assert_eq!(
        server.metric("hikyaku_access_log_lines_dropped_total{}"),
        0.0
    );
}

#[test]
fn a_fifo_without_reader_does_not_stop_the_server() {
    let site = Site::new(&[("index.html", b"start")]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.fifo");
    fifo(&path);
    let access = format!("log.access={}", path.display());
    let mut server = Server::start(&[site.path(), "--set", &access]);
    works_without_reader(&mut server);
}

#[test]
fn a_sleeping_reader_of_standard_output_does_not_stop_the_server() {
    let site = Site::new(&[("index.html", b"start")]);
    let out = Unread::new("out");
    let mut server = out.start(&site);
    works_without_reader(&mut server);
    drop(out.reader);
}

#[test]
fn a_leaving_reader_of_standard_output_does_not_stop_the_server() {
    let site = Site::new(&[("index.html", b"start")]);
    let out = Unread::new("out");
    let server = out.start(&site);
    drop(out.reader);
    ask_often(&server);
    server.wait_log("nothing more is written");
    server.wait_metric("hikyaku_access_log_lines_dropped_total{}", MANY as f64);
    assert_eq!(times(&server, "Broken pipe"), 1);
    is_served(&server);
}

#[test]
fn a_sleeping_reader_of_standard_error_does_not_stop_the_server() {
    let site = Site::new(&[("index.html", b"start")]);
    let err = Unread::new("err");
    let (listen, url) = free_port();
    let mut child = Command::new(binary())
        .args([
            "serve",
            site.path(),
            "--listen",
            &listen,
            "--admin",
            "127.0.0.1:0",
        ])
        .args(["--set", "log.access=off", "--set", "log.level=trace"])
        .stdout(Stdio::null())
        .stderr(fs::OpenOptions::new().write(true).open(&err.path).unwrap())
        .spawn()
        .unwrap();
    eventually("an answer", || {
        let records = get(&["--timeout", "5s", &url]);
        (records.first()?["status"] == 200).then_some(())
    });
    for _ in 0..20 {
        let records = get(&["--timeout", "20s", &url]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = eventually("its end", || child.try_wait().unwrap());
    assert!(status.success());
    drop(err.reader);
}

/// An address on which no server listens, and its URL.
fn free_port() -> (String, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let url = format!("https://{address}/");
    (address, url)
}
