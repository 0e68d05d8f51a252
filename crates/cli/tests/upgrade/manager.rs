//! Notifications of the service manager at an upgrade.

use std::os::unix::net::UnixDatagram;

use hikyaku_testkit::{PATIENCE, Server, Site};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::support::{is_running, wait_gone};

/// The service manager's socket in a directory, and the variable that names it.
fn notify_socket() -> (TempDir, UnixDatagram, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let variable = format!("NOTIFY_SOCKET={}", path.display());
    (dir, socket, variable)
}

/// The process that a notification names as the service's.
fn main_process(notification: &str) -> Pid {
    let number = notification.trim().strip_prefix("MAINPID=").unwrap();
    Pid::from_raw(number.parse().unwrap()).unwrap()
}

#[test]
fn the_new_process_becomes_the_main_one() {
    let site = Site::new(&[("index.html", b"start")]);
    let (_dir, socket, variable) = notify_socket();
    let server = Server::try_start_by(&["env", &variable], &[site.path()]).unwrap();
    let next = || {
        let mut buffer = [0; 1024];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert!(next().starts_with("READY=1"));
    let first = Pid::from_raw(server.pid().cast_signed()).unwrap();
    server.signal(Signal::USR2);
    let main = next();
    let new = main_process(&main);
    assert_ne!(new, first);
    assert!(is_running(new));
    assert!(next().starts_with("READY=1"), "of the new process");
    wait_gone(first);
    kill_process(new, Signal::TERM).unwrap();
    assert!(next().starts_with("STOPPING=1"));
    wait_gone(new);
}

#[test]
fn the_watchdog_is_of_the_process_that_serves() {
    let site = Site::new(&[("index.html", b"start")]);
    let (_dir, socket, variable) = notify_socket();
    let script = format!("{variable} WATCHDOG_USEC=100000 WATCHDOG_PID=$$ exec \"$0\" \"$@\"");
    let server = Server::try_start_by(&["sh", "-c", &script], &[site.path()]).unwrap();
    let wait_for = |want: &str| {
        let mut buffer = [0; 1024];
        loop {
            let length = socket.recv(&mut buffer).unwrap();
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.contains(want) {
                return text;
            }
        }
    };
    wait_for("WATCHDOG=1");
    let first = Pid::from_raw(server.pid().cast_signed()).unwrap();
    server.signal(Signal::USR2);
    let main = wait_for("MAINPID=");
    let new = main_process(&main);
    wait_gone(first);
    wait_for("READY=1");
    wait_for("WATCHDOG=1");
    kill_process(new, Signal::TERM).unwrap();
    wait_gone(new);
}
