//! Reloads that are refused, and notifications of the service manager.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Output;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::is_served;
use hikyaku_testkit::{PATIENCE, Server, Site, certificate, hikyaku, plain_http};

/// A configuration in a file that can be changed.
struct Configured {
    site: Site,
    file: tempfile::NamedTempFile,
}

impl Configured {
    fn new() -> Self {
        let configured = Self {
            site: Site::new(&[("index.html", b"start")]),
            file: tempfile::NamedTempFile::new().unwrap(),
        };
        configured.write("");
        configured
    }

    fn write(&self, text: &str) {
        let text = format!("root = {:?}\n{text}\n", self.site.path());
        fs::write(self.file.path(), text).unwrap();
    }

    fn path(&self) -> &str {
        self.file.path().to_str().unwrap()
    }
}

#[track_caller]
fn expect(output: &Output, success: bool, words: &[&str]) {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(output.status.success(), success, "{text}");
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

#[test]
fn whoever_asks_for_a_reload_hears_how_it_ended() {
    let configured = Configured::new();
    let server = Server::start(&["--config", configured.path()]);
    let admin = server.admin.to_string();
    let reload = || hikyaku(&["reload", "--admin", &admin]);
    expect(&reload(), true, &["configuration reloaded"]);
    let refusals = [
        ("[files]\nlistign = true", "unknown field `listign`"),
        ("mptcp = 3", "invalid type"),
        (
            "[state]\ndir = \"/elsewhere\"",
            "`state.dir` can't change while the server runs",
        ),
        ("[log]\nlevel = \"a=b=c\"", "reading log.level"),
    ];
    for (count, (text, why)) in (1..).zip(refusals) {
        configured.write(text);
        expect(&reload(), false, &["422", "the former stays in force", why]);
        assert_eq!(
            server.metric("hikyaku_reloads_failed_total{}"),
            f64::from(count)
        );
        is_served(&server);
    }
    configured.write("[files]\nlisting = true");
    expect(&reload(), true, &["configuration reloaded"]);
    assert_eq!(server.metric("hikyaku_reloads_total{}"), 2.0);
    let origin = "Origin: https://evil.example\r\n";
    let (status, _) = plain_http(server.admin, "POST", "/v1/reload", origin, "");
    assert_eq!(status, 403);
    let (status, _) = plain_http(server.admin, "GET", "/v1/reload", "", "");
    assert_eq!(status, 405);
}

#[test]
fn a_reload_finds_its_server_by_the_configuration() {
    let configured = Configured::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let text = format!("[admin]\nlisten = \"localhost:{port}\"\ntoken = \"s3cret\"");
    configured.write(&text);
    let admin = format!("localhost:{port}");
    let server = Server::start(&["--config", configured.path(), "--admin", &admin]);
    let with_config = || hikyaku(&["reload", "--config", configured.path()]);
    expect(&with_config(), true, &["configuration reloaded"]);
    expect(
        &hikyaku(&["reload", "--admin", &admin]),
        false,
        &["401", "admin.token"],
    );
    let given = ["reload", "--admin", &admin, "--token", "s3cret"];
    expect(&hikyaku(&given), true, &["configuration reloaded"]);
    configured.write(&format!("{text}\nlevel = 3"));
    expect(&with_config(), false, &["unknown field `level`"]);
    configured.write("[admin]\nlisten = \"\"");
    expect(&with_config(), false, &["no admin address", "SIGHUP"]);
    drop(server);
    configured.write(&text);
    expect(&with_config(), false, &["is the server running there?"]);
}

/// Starts a server, with more variables, and returns it with the socket of its service manager, and that one's
/// directory.
fn start_under_manager(
    configured: &Configured,
    variables: &[&str],
) -> (Server, UnixDatagram, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let variable = format!("NOTIFY_SOCKET={}", path.display());
    let by = [&["env", &variable][..], variables].concat();
    let server = Server::try_start_by(&by, &["--config", configured.path()]).unwrap();
    (server, socket, dir)
}

/// Returns the next message to the service manager.
#[track_caller]
fn next_message(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 1024];
    let len = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..len].to_vec()).unwrap()
}

#[test]
fn the_service_manager_hears_of_every_state() {
    let configured = Configured::new();
    let (mut server, socket, _dir) = start_under_manager(&configured, &[]);
    assert_eq!(next_message(&socket), "READY=1\nSTATUS=serving\n");
    let reloading = |server: &Server| {
        server.signal(Signal::HUP);
        let text = next_message(&socket);
        let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(micros.trim().parse::<u64>().unwrap() > 0, "{text}");
    };
    reloading(&server);
    assert_eq!(next_message(&socket), "READY=1\nSTATUS=serving\n");
    configured.write("nonsense");
    reloading(&server);
    let text = next_message(&socket);
    assert!(text.starts_with("READY=1\nSTATUS="), "{text}");
    assert!(text.contains("a new one was refused"), "{text}");
    server.signal(Signal::TERM);
    assert!(next_message(&socket).starts_with("STOPPING=1\n"));
    assert!(server.wait_exit().success());
}

#[test]
fn the_watchdog_hears_that_all_threads_run() {
    let configured = Configured::new();
    let (server, socket, _dir) = start_under_manager(&configured, &["WATCHDOG_USEC=100000"]);
    assert!(next_message(&socket).starts_with("READY=1\n"));
    for _ in 0..3 {
        assert_eq!(next_message(&socket), "WATCHDOG=1\n");
    }
    // A process that stands still does not notify.
    server.signal(Signal::STOP);
    socket.set_nonblocking(true).unwrap();
    while socket.recv(&mut [0; 64]).is_ok() {}
    std::thread::sleep(Duration::from_millis(300));
    let quiet = socket.recv(&mut [0; 64]).unwrap_err();
    assert_eq!(quiet.kind(), std::io::ErrorKind::WouldBlock);
    server.signal(Signal::CONT);
    socket.set_nonblocking(false).unwrap();
    assert_eq!(next_message(&socket), "WATCHDOG=1\n");
}

#[test]
fn missing_files_refuse_a_reload() {
    let configured = Configured::new();
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let (certificate, private) = certificate();
    fs::write(&cert, certificate).unwrap();
    fs::write(&key, private).unwrap();
    let access = format!("log.access={}", logs.join("access.log").display());
    let server = Server::start(&[
        "--config",
        configured.path(),
        "--set",
        &access,
        "--cert",
        cert.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ]);
    let admin = server.admin.to_string();
    let reload = || hikyaku(&["reload", "--admin", &admin]);
    fs::remove_dir_all(&logs).unwrap();
    expect(
        &reload(),
        false,
        &["opening the access log", "No such file"],
    );
    is_served(&server);
    fs::create_dir(&logs).unwrap();
    expect(&reload(), true, &[]);
    fs::remove_file(&cert).unwrap();
    expect(
        &reload(),
        false,
        &["reading the certificate from", "No such file"],
    );
    is_served(&server);
}
