//! Sockets that systemd has bound.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use hikyaku_testkit::{PATIENCE, Server, Site, eventually, get, has, this_test};
use rustix::process::{Pid, Signal, kill_process};

use super::support::wait_gone;

const ACTIVATE: &str = "systemd-socket-activate";

/// A free port of TCP and UDP.
fn free_address() -> SocketAddr {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

#[test]
fn whoever_comes_before_the_server_is_served() {
    if !has(&this_test(), ACTIVATE) {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    let (address, cleartext, unused) = (free_address(), free_address(), free_address());
    let text = [address, cleartext, unused].map(|address| address.to_string());
    let [at, cleartext_at, unused_at] = text.each_ref().map(String::as_str);
    // It starts the next program once somebody comes, and passes on what it was given itself.
    let by = [
        ACTIVATE,
        "-l",
        at,
        "-l",
        cleartext_at,
        "-l",
        unused_at,
        ACTIVATE,
        "-d",
        "-l",
        at,
    ];
    let client = thread::spawn(move || {
        let mut stream = eventually("systemd's socket", || TcpStream::connect(cleartext).ok());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let listen = format!("http.listen=[{cleartext_at:?}]");
    let args = [site.path(), "--listen", at, "--set", &listen];
    let server = Server::try_start_by(&by, &args).unwrap();
    let answer = client.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
    let unused = format!("a socket of {unused}, which nothing in the configuration listens on");
    assert!(server.log().contains(&unused), "{}", server.log());
    is_served(&server);

    // Where there are fewer sockets than workers, the next process has as many.
    let first = Pid::from_raw(server.pid().cast_signed()).unwrap();
    server.signal(Signal::USR2);
    let log = server.wait_log("upgraded: process ");
    let new = log
        .split("upgraded: process ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next();
    let new = Pid::from_raw(new.unwrap().parse().unwrap()).unwrap();
    wait_gone(first);
    is_served(&server);
    kill_process(new, Signal::TERM).unwrap();
    wait_gone(new);
}

/// Each connection of HTTP/3 may have another worker.
#[track_caller]
fn is_served(server: &Server) {
    for http in ["1.1", "2", "3", "3", "3", "3", "3", "3"] {
        let records = get(&["--http", http, &server.url("/")]);
        assert_eq!(records[0]["status"], 200, "HTTP/{http}: {records:?}");
    }
}

#[test]
fn what_is_no_socket_is_refused() {
    let site = Site::new(&[("index.html", b"start")]);
    let cases = [
        (
            "LISTEN_FDS=1",
            "exec 3</dev/null",
            "taking socket 3 of systemd's",
        ),
        ("LISTEN_FDS=many", ":", "LISTEN_FDS=many is no number"),
    ];
    for (variable, open, want) in cases {
        let script = format!("{open}; LISTEN_PID=$$ {variable} exec \"$0\" \"$@\"");
        let refused = Server::try_start_by(&["sh", "-c", &script], &[site.path()]);
        let log = refused.err().unwrap();
        assert!(log.contains(want), "{log}");
    }
}
