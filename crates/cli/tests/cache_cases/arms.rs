//! The caches that the cases are run against.

use std::any::Any;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use hikyaku_testkit::{Server, eventually, has, this_test};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Place;

/// A cache in front of the origin. It ends when dropped.
pub(crate) struct Arm {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) place: Place,
    _running: Box<dyn Any>,
}

/// A server of others.
struct Peer {
    process: Child,
    _dir: TempDir,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Varnish ends its second process then.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

impl Arm {
    /// No cache: the client asks the origin.
    pub(crate) fn none(origin: SocketAddr) -> Self {
        Self::new("no cache", String::new(), origin, ())
    }

    /// hikyaku, with these settings beside its upstream.
    pub(crate) fn hikyaku(name: &'static str, origin: SocketAddr, settings: &[&str]) -> Self {
        let upstream = format!("http://{origin}");
        let mut args = vec!["--upstream", upstream.as_str()];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        let server = Server::start(&args);
        let version = said("git", &["describe", "--always", "--dirty", "--exclude=*"]);
        let address = server.address();
        let mut this = Self::new(name, version, address, server);
        this.place.tls = true;
        this
    }

    /// nginx, if it is installed.
    pub(crate) fn nginx(origin: SocketAddr) -> Option<Self> {
        if !has(&this_test(), "nginx") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let address = free_address();
        let conf = dir.path().join("nginx.conf");
        let text = include_str!("peers/nginx.conf.in")
            .replace("@DIR@", dir.path().to_str().unwrap())
            .replace("@ADDRESS@", &address.to_string())
            .replace("@ORIGIN@", &origin.to_string());
        fs::write(&conf, text).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(dir.path()).arg("-c").arg(&conf);
        let version = said("nginx", &["-v"]);
        let peer = Peer::start(command, dir, address);
        Some(Self::new("nginx", version, address, peer))
    }

    /// Varnish, if it is installed, with the settings by which it follows RFC 9111 most.
    pub(crate) fn varnish(origin: SocketAddr) -> Option<Self> {
        if !has(&this_test(), "varnishd") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let address = free_address();
        let vcl = dir.path().join("varnish.vcl");
        let text = include_str!("peers/varnish.vcl.in")
            .replace("@HOST@", &origin.ip().to_string())
            .replace("@PORT@", &origin.port().to_string());
        fs::write(&vcl, text).unwrap();
        let mut command = Command::new("varnishd");
        command.args(["-F", "-j", "none", "-T", "127.0.0.1:0", "-s", "malloc,64m"]);
        command.args(["-p", "default_grace=0", "-p", "default_keep=3600"]);
        command.args(["-p", "default_ttl=0", "-p", "http_gzip_support=off"]);
        command.arg("-n").arg(dir.path().join("work"));
        command.arg("-a").arg(address.to_string());
        command.arg("-f").arg(&vcl);
        let version = said("varnishd", &["-V"]);
        let peer = Peer::start(command, dir, address);
        Some(Self::new("Varnish", version, address, peer))
    }

    fn new(name: &'static str, version: String, address: SocketAddr, running: impl Any) -> Self {
        Self {
            name,
            version,
            place: Place {
                address,
                tls: false,
            },
            _running: Box::new(running),
        }
    }
}

impl Peer {
    fn start(mut command: Command, dir: TempDir, address: SocketAddr) -> Self {
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let peer = Self { process, _dir: dir };
        eventually("the peer listens", || TcpStream::connect(address).ok());
        peer
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap()
}

/// The first line that a program says of itself.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("nginx version: ").to_owned()
}
