//! One of the servers through its lives: address, state, configuration and certificate stay.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::ledger::Ledger;
use hikyaku_testkit::{Server, certificate, eventually};

/// The events in a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// SIGHUP, without changes.
    Reload,
    /// SIGHUP, with another configuration.
    NewConfiguration,
    /// SIGHUP, with a configuration that is refused.
    BadConfiguration,
    NewCertificate,
    UpstreamRestart,
}

impl Event {
    pub(crate) const ALL: [Self; 5] = [
        Self::Reload,
        Self::NewConfiguration,
        Self::BadConfiguration,
        Self::NewCertificate,
        Self::UpstreamRestart,
    ];
}

pub(crate) struct Side {
    pub(crate) name: &'static str,
    /// Whether `/echo` returns the upload; otherwise there are files.
    pub(crate) echoes: bool,
    pub(crate) ledger: Ledger,
    /// The line of the configuration with the content.
    serves: String,
    /// Configuration, certificate and state.
    directory: TempDir,
    address: OnceLock<SocketAddr>,
    configurations: AtomicUsize,
}

impl Side {
    pub(crate) fn new(name: &'static str, serves: String) -> Self {
        let side = Self {
            name,
            echoes: serves.starts_with("upstream"),
            ledger: Ledger::default(),
            serves,
            directory: tempfile::tempdir().unwrap(),
            address: OnceLock::new(),
            configurations: AtomicUsize::new(0),
        };
        side.put_certificate();
        side.put_configuration("");
        side
    }

    /// Starts the server on its former port.
    pub(crate) fn start(&self) -> Server {
        let listen = self
            .address
            .get()
            .map_or("127.0.0.1:0".into(), SocketAddr::to_string);
        let (config, state) = (self.file("edge.toml"), self.file("state"));
        let [config, state] = [&config, &state].map(|path| path.to_str().unwrap());
        let args = ["--config", config, "--state", state, "--listen", &listen];
        // A client's UDP socket may have the port at this moment.
        let server = eventually("the server's start", || match Server::try_start(&args) {
            Ok(server) => Some(server),
            Err(log) if log.contains("Address already in use") => None,
            Err(log) => panic!("the server of {} did not start:\n{log}", self.name),
        });
        assert_eq!(
            server.address(),
            *self.address.get_or_init(|| server.address())
        );
        server
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address.get().unwrap())
    }

    /// Makes an event happen, and waits until the server has reacted.
    pub(crate) fn happens(&self, server: &Server, event: Event) {
        let taken = match event {
            Event::BadConfiguration => "hikyaku_reloads_failed_total{}",
            _ => "hikyaku_reloads_total{}",
        };
        let before = server.metric(taken);
        match event {
            Event::Reload | Event::UpstreamRestart => {}
            Event::NewConfiguration => self.put_configuration(""),
            Event::BadConfiguration => self.put_configuration("no_such_key = 1\n"),
            // The server notices it without a signal.
            Event::NewCertificate => return self.replace_certificate(server),
        }
        server.signal(Signal::HUP);
        server.wait_metric(taken, before + 1.0);
        if event == Event::BadConfiguration {
            self.put_configuration("");
        }
    }

    fn replace_certificate(&self, server: &Server) {
        let changed = || server.log().matches("certificate changed").count();
        let before = changed();
        self.put_certificate();
        eventually("the new certificate", || (changed() > before).then_some(()));
    }

    fn put_certificate(&self) {
        let (chain, key) = certificate();
        fs::write(self.file("cert.pem"), chain).unwrap();
        fs::write(self.file("key.pem"), key).unwrap();
    }

    /// Writes a configuration other than the last one, with a further line at its top.
    fn put_configuration(&self, line: &str) {
        let count = self.configurations.fetch_add(1, Ordering::Relaxed);
        let text = format!(
            "{line}{}\n\
             [tls]\ncert = {:?}\nkey = {:?}\n\
             [policy]\ntrials = {}\n\
             [timeouts]\nidle = \"3s\"\n\
             [proxy]\nkeep_alive = \"1s\"\n",
            self.serves,
            self.file("cert.pem"),
            self.file("key.pem"),
            3 + count % 2,
        );
        fs::write(self.file("edge.toml"), text).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
