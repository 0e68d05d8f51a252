//! Real servers as upstreams, started and stopped under load.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::mortal::nobody;
use crate::support::{Edge, eventually, read, reason};
use hikyaku_content::ProxyConfig;
use hikyaku_testkit::{has, this_test};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A server of one page, which is its name.
struct Nginx {
    address: SocketAddr,
    _dir: TempDir,
    process: Child,
}

impl Nginx {
    async fn start(name: &str, address: SocketAddr) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let mut conf = format!("daemon off; pid {at}/pid; error_log {at}/error.log;\n");
        conf += "master_process off; events { worker_connections 64; }\nhttp { access_log off;\n";
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            writeln!(conf, "{kind}_temp_path {at}/{kind};").unwrap();
        }
        writeln!(conf, "server {{ listen {address}; return 200 {name}; }} }}").unwrap();
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, conf).unwrap();
        let process = Command::new("nginx")
            .args([
                "-p",
                dir.path().to_str().unwrap(),
                "-c",
                file.to_str().unwrap(),
            ])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nginx = Self {
            address,
            _dir: dir,
            process,
        };
        eventually("nginx listens", || {
            std::net::TcpStream::connect(address).ok()
        })
        .await;
        nginx
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it, by a signal.
    fn stop(&mut self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_may_stop_and_start_without_a_lost_get() {
    if !has(&this_test(), "nginx") {
        return;
    }
    let a = Nginx::start("a", nobody().await).await;
    let mut b = Nginx::start("b", nobody().await).await;
    let config = ProxyConfig {
        avoid_min: Duration::from_millis(100),
        avoid_max: Duration::from_millis(200),
        slow_start: Duration::from_millis(100),
        ..ProxyConfig::default()
    };
    let edge = Arc::new(Edge::of_group(&[a.url(), b.url()], &config));
    let ends = Arc::new(AtomicBool::new(false));
    let clients = [(); 8].map(|()| {
        let (edge, ends) = (Arc::clone(&edge), Arc::clone(&ends));
        tokio::spawn(async move {
            while !ends.load(Relaxed) {
                let response = edge.get("/").await;
                assert_eq!(response.status(), 200, "{}", reason(&response));
                read(response).await;
            }
        })
    });
    let (address, url) = (b.address, b.url());
    let gets_more = async || {
        let before = edge.status(&url).requests;
        eventually("b gets requests", || {
            (edge.status(&url).requests > before + 100).then_some(())
        })
        .await;
    };
    for signal in [Signal::QUIT, Signal::KILL] {
        gets_more().await;
        b.stop(signal);
        eventually("b is down", || (!edge.status(&url).is_up).then_some(())).await;
        b = Nginx::start("b", address).await;
        eventually("b is up", || edge.status(&url).is_up.then_some(())).await;
    }
    gets_more().await;
    ends.store(true, Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}
