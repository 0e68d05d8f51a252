//! A certificate authority that speaks ACME: Pebble, with its DNS server.

mod between;

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::json;
use tempfile::TempDir;

use super::fetch::curl;
use super::{eventually, has};
pub use between::{Between, Rules};

/// Where Pebble looks for the answers to challenges, on the address of [`Pebble::address`].
pub const HTTPS_PORT: u16 = 5001;
pub const HTTP_PORT: u16 = 5002;

/// A running Pebble. All names have one address, at which the server of the test is to listen.
pub struct Pebble {
    /// Of this Pebble and its test alone.
    pub address: Ipv4Addr,
    children: Vec<Child>,
    dir: TempDir,
}

impl Pebble {
    /// Starts Pebble with certificates that are valid for `seconds`; `None`, and a skip, where it is not
    /// installed.
    pub fn start(test: &str, seconds: u64) -> Option<Self> {
        Self::start_with(test, seconds, &json!({}))
    }

    /// The same with further keys of its configuration.
    pub fn start_with(test: &str, seconds: u64, more: &serde_json::Value) -> Option<Self> {
        if !has(test, "pebble") || !has(test, "pebble-challtestsrv") || !has(test, "curl") {
            return None;
        }
        let mut pebble = Self {
            address: own_address(),
            children: Vec::new(),
            dir: tempfile::tempdir().unwrap(),
        };
        pebble.start_dns();
        pebble.run(seconds, more);
        Some(pebble)
    }

    /// URL of the directory.
    pub fn directory(&self) -> String {
        format!("https://{}:14000/dir", self.address)
    }

    /// The root of the directory's own certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("pebble.pem")
    }

    /// A directory that lives as long as Pebble.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes the root of the issued certificates to a file.
    pub fn root(&self) -> PathBuf {
        let path = self.dir.path().join("root.pem");
        let url = format!("https://{}:15000/roots/0", self.address);
        fs::write(&path, curl(&[&url]).stdout).unwrap();
        path
    }

    /// Changes the answers of the DNS server, by a command of pebble-challtestsrv.
    pub fn dns(&self, command: &str, content: &serde_json::Value) {
        let url = format!("http://{}:8055/{command}", self.address);
        let output = curl(&["-f", "-d", &content.to_string(), &url]);
        assert!(output.status.success(), "{command}: {output:?}");
    }

    /// Writes a hook for dns-01 that commands the DNS server, and notes its calls in `calls`.
    pub fn hook(&self) -> PathBuf {
        let (path, calls) = (self.dir.path().join("hook"), self.dir.path().join("calls"));
        let script = format!(
            "#!/bin/sh\n\
             echo \"$@\" >>{calls}\n\
             case $1 in present) c=set-txt ;; *) c=clear-txt ;; esac\n\
             exec curl -qsSf -d '{{\"host\":\"'$3'.\",\"value\":\"'$4'\"}}' \
             http://{address}:8055/$c\n",
            calls = calls.display(),
            address = self.address,
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The calls of the hook so far, a line each.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Pebble's log so far.
    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("pebble.log")).unwrap_or_default()
    }

    /// The number of orders so far.
    pub fn orders(&self) -> usize {
        self.log().matches("Added order ").count()
    }

    /// The number of accounts that have been made so far.
    pub fn accounts(&self) -> usize {
        self.log().matches(" accounts in memory").count()
    }

    /// Ends Pebble and starts it anew: it forgets its accounts, and has another root.
    pub fn restart(&mut self, seconds: u64) {
        end(self.children.pop());
        self.run(seconds, &json!({}));
    }

    fn start_dns(&mut self) {
        let address = self.address.to_string();
        let (dns, management) = (format!("{address}:8053"), format!("{address}:8055"));
        let mut command = Command::new("pebble-challtestsrv");
        command.args(["-defaultIPv4", &address, "-defaultIPv6", ""]);
        command.args(["-dns01", &dns, "-management", &management]);
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", ""]);
        self.spawn(command, "dns.log");
        self.wait(8055);
    }

    fn run(&mut self, seconds: u64, more: &serde_json::Value) {
        let dir = self.dir.path().to_owned();
        let [cert, key] = [self.ca_file(), dir.join("pebble.key")];
        if !cert.exists() {
            let made = rcgen::generate_simple_self_signed([self.address.to_string()]).unwrap();
            fs::write(&cert, made.cert.pem()).unwrap();
            fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        }
        let mut config = json!({
            "listenAddress": format!("{}:14000", self.address),
            "managementListenAddress": format!("{}:15000", self.address),
            "certificate": cert,
            "privateKey": key,
            "httpPort": HTTP_PORT,
            "tlsPort": HTTPS_PORT,
            "certificateValidityPeriod": seconds,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            config[name] = value.clone();
        }
        let path = dir.join("pebble.json");
        fs::write(&path, json!({ "pebble": config }).to_string()).unwrap();
        let mut command = Command::new("pebble");
        command.arg("-config").arg(&path);
        command.args(["-dnsserver", &format!("{}:8053", self.address)]);
        // Each order proves its names, at once, and nothing is refused by chance.
        command.envs([
            ("PEBBLE_VA_NOSLEEP", "1"),
            ("PEBBLE_AUTHZREUSE", "0"),
            ("PEBBLE_WFE_NONCEREJECT", "0"),
        ]);
        self.spawn(command, "pebble.log");
        self.wait(14000);
        self.wait(15000);
    }

    fn spawn(&mut self, mut command: Command, log: &str) {
        let path = self.dir.path().join(log);
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.children.push(child.unwrap());
    }

    fn wait(&self, port: u16) {
        eventually(&format!("port {port} of Pebble"), || {
            TcpStream::connect((self.address, port)).ok()
        });
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        while let Some(child) = self.children.pop() {
            end(Some(child));
        }
    }
}

fn end(child: Option<Child>) {
    let mut child = child.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A loopback address that no other test of this machine uses, as far as processes' ids differ.
fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 100 + next % 100, high, low.clamp(1, 254))
}
