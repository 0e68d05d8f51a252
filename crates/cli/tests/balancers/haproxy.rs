//! HAProxy, as `scripts/setup.sh test` installs it.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_testkit::{PATIENCE, certificate};
use tempfile::TempDir;

/// A running HAProxy; killed when dropped.
pub(crate) struct Haproxy {
    child: Child,
    _dir: TempDir,
    pub(crate) port: u16,
}

impl Haproxy {
    /// Starts one that hands on TCP connections from 127.0.0.1 and ::1 to `server`, with `option`.
    #[track_caller]
    pub(crate) fn of_tcp(server: SocketAddr, option: &str) -> Self {
        Self::start("mode tcp", "", &format!("server edge {server} {option}"))
    }

    /// Starts one that hands on requests over HTTP/1.1, and names their clients.
    #[track_caller]
    pub(crate) fn of_http(server: SocketAddr) -> Self {
        Self::start(
            "mode http\n    option forwardfor\n    http-reuse always",
            "ssl crt @CERT@ alpn h2,http/1.1",
            &format!("server edge {server} ssl verify none"),
        )
    }

    #[track_caller]
    fn start(mode: &str, bind: &str, server: &str) -> Self {
        // Another process may take the port before HAProxy does.
        for _ in 0..10 {
            if let Some(haproxy) = Self::try_start(mode, bind, server) {
                return haproxy;
            }
        }
        panic!("HAProxy does not start with:\n{mode}\n{bind}\n{server}");
    }

    fn try_start(mode: &str, bind: &str, server: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let pem = dir.path().join("both.pem");
        let (cert, key) = certificate();
        fs::write(&pem, cert + &key).unwrap();
        let bind = bind.replace("@CERT@", pem.to_str().unwrap());
        let port = free_port();
        let config = format!(
            "global\n    maxconn 1000\n\
             defaults\n    {mode}\n    timeout connect 10s\n    timeout client 2m\n    timeout server 2m\n\
             frontend front\n    bind 127.0.0.1:{port} {bind}\n    bind [::1]:{port} {bind}\n    \
             default_backend back\n\
             backend back\n    {server}\n"
        );
        let path = dir.path().join("haproxy.cfg");
        fs::write(&path, config).unwrap();
        let mut child = Command::new("haproxy")
            .args(["-db", "-f"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        // It listens before it accepts; nothing is sent, so that its server sees a connection that ends.
        while TcpStream::connect((Ipv6Addr::LOCALHOST, port)).is_err() {
            if child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(begun.elapsed() < PATIENCE, "HAProxy does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Some(Self {
            child,
            _dir: dir,
            port,
        })
    }

    /// Its address of IPv4.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is free on 127.0.0.1 and ::1.
fn free_port() -> u16 {
    loop {
        let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = v4.local_addr().unwrap().port();
        if TcpListener::bind((Ipv6Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
