#![doc = include_str!("../README.md")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests alone use it, and fail where it cannot"
)]

pub mod agent;
pub mod browser;
pub mod client;
pub mod daemon;
pub mod fetch;
pub mod machine;
pub mod mapping;
pub mod ocsp;
pub mod pebble;
mod skip;
pub mod store;
pub mod tls;
pub mod tunnel;
pub mod upstream;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub use skip::{skip, skip_part, this_test};

/// The time after which an event counts as missing, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The path of the binary `hikyaku` that cargo has built for the tests.
///
/// Cargo passes it to the tests that it runs. A test that is run by hand looks beside itself.
pub fn binary() -> &'static str {
    static BINARY: LazyLock<String> = LazyLock::new(|| {
        env::var("CARGO_BIN_EXE_hikyaku").unwrap_or_else(|_| {
            let own = env::current_exe().unwrap();
            let beside = own.ancestors().nth(2).unwrap().join("hikyaku");
            beside.to_str().unwrap().to_owned()
        })
    });
    &BINARY
}

/// Polls `look` until it returns a value.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether `program` is installed; prints a skip if it is not.
pub fn has(test: &str, program: &str) -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).any(|dir| dir.join(program).is_file());
    if !found {
        skip(test, &format!("`{program}` is not installed"));
    }
    found
}

/// Runs `hikyaku` to its end.
pub fn hikyaku(args: &[&str]) -> Output {
    Command::new(binary())
        .args(args)
        .env_remove("HIKYAKU_ADMIN_TOKEN")
        .output()
        .unwrap()
}

/// Runs `hikyaku get --json` and returns its records.
pub fn get(args: &[&str]) -> Vec<Value> {
    let output = hikyaku(&[&["get", "--insecure", "--json"], args].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A directory to serve, removed when dropped.
pub struct Site(TempDir);

impl Site {
    pub fn new(files: &[(&str, &[u8])]) -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        for (name, content) in files {
            site.write(name, content);
        }
        site
    }

    /// Makes a page and a file of `size` bytes, `big.bin`.
    pub fn with_big_file(size: usize) -> Self {
        Self::new(&[
            ("index.html", b"<!doctype html><title>start</title>"),
            ("big.bin", &noise(size)),
        ])
    }

    pub fn write(&self, name: &str, content: &[u8]) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }
}

/// Makes bytes without a period that chunking could hide (xorshift).
pub fn noise(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// A running `hikyaku serve`; killed when dropped.
pub struct Server {
    child: Child,
    log: Arc<Mutex<String>>,
    dir: TempDir,
    pub addresses: Vec<SocketAddr>,
    /// Addresses of HTTP in the clear.
    pub cleartext: Vec<SocketAddr>,
    pub admin: SocketAddr,
    /// SHA-256 of the certificate's public key, Base64; empty of a server that has no TLS.
    pub spki: String,
}

impl Server {
    /// Starts `hikyaku serve ARGS` with an admin port and an access log, on a port of 127.0.0.1
    /// unless ARGS name others.
    #[track_caller]
    pub fn start(args: &[&str]) -> Self {
        // UDP takes the port that TCP got, which another test's socket may have.
        for _ in 0..10 {
            match Self::try_start(args) {
                Ok(server) => return server,
                Err(log) if log.contains("UDP") && log.contains("Address already in use") => {}
                Err(log) => panic!("the server did not start:\n{log}"),
            }
        }
        panic!("no port is free on TCP and UDP");
    }

    /// Starts a server on an address of each family and on the wildcard of both. Also returns the four
    /// addresses by which it is reached.
    #[track_caller]
    pub fn start_on_all(args: &[&str]) -> (Self, [SocketAddr; 4]) {
        let listen = ["127.0.0.1:0", "[::1]:0", "[::]:0"].map(|address| ["--listen", address]);
        let server = Self::start(&[args, listen.as_flattened()].concat());
        let [v4, v6, wildcard] = server.addresses[..] else {
            panic!("three addresses are listened on: {:?}", server.addresses);
        };
        let port = wildcard.port();
        let reached = [
            v4,
            v6,
            (Ipv4Addr::LOCALHOST, port).into(),
            (Ipv6Addr::LOCALHOST, port).into(),
        ];
        (server, reached)
    }

    /// Starts a server. Returns its standard error if it ends at once.
    pub fn try_start(args: &[&str]) -> Result<Self, String> {
        Self::try_start_by(&[], args)
    }

    /// Starts a server by a command that becomes the server. Returns its standard error if it ends
    /// at once.
    pub fn try_start_by(by: &[&str], args: &[&str]) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let words = [by, &[binary(), "serve"], args].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        if !args.contains(&"--listen") && !args.contains(&"listen=[]") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if !args.contains(&"--admin") {
            command.args(["--admin", "127.0.0.1:0"]);
        }
        if !args.iter().any(|arg| arg.starts_with("log.access=")) {
            let access = format!("log.access={}", dir.path().join("access.log").display());
            command.args(["--set", &access]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let reader = collect(child.stderr.take().unwrap(), Arc::clone(&log));
        let begun = Instant::now();
        while !log.lock().unwrap().contains("hikyaku explain") {
            if child.try_wait().unwrap().is_some() {
                reader.join().unwrap();
                return Err(log.lock().unwrap().clone());
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not start");
            thread::sleep(Duration::from_millis(5));
        }
        let greeting = log.lock().unwrap().clone();
        let words = |label: &str| {
            let lines = greeting.lines().map(str::trim_start);
            let rest = lines.filter_map(|line| line.strip_prefix(label));
            let words = rest.filter_map(|rest| rest.split_whitespace().next());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let admin = words("admin")[0].trim_start_matches("http://").to_owned();
        Ok(Self {
            addresses: words("serving")
                .iter()
                .map(|a| a.parse().unwrap())
                .collect(),
            cleartext: [words("redirecting"), words("in the clear")]
                .concat()
                .iter()
                .map(|a| a.parse().unwrap())
                .collect(),
            admin: admin.trim_end_matches('/').parse().unwrap(),
            spki: words("public key (SPKI) SHA-256")
                .into_iter()
                .next()
                .unwrap_or_default(),
            child,
            log,
            dir,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    pub fn port(&self) -> u16 {
        self.address().port()
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address())
    }

    /// A directory that lives as long as the server.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The bytes of memory that belong to the server alone. Pages of its program are not counted:
    /// their share per process changes whenever a server of another test starts or ends.
    pub fn memory(&self) -> u64 {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid())).unwrap();
        let line = rollup
            .lines()
            .find_map(|line| line.strip_prefix("Pss_Anon:"));
        let kib = line.unwrap().split_whitespace().next().unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }

    /// The server's standard error so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    #[track_caller]
    pub fn wait_log(&self, text: &str) -> String {
        let what = format!("`{text}` in the log");
        let begun = Instant::now();
        while !self.log().contains(text) {
            assert!(begun.elapsed() < PATIENCE, "never: {what}:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
        self.log()
    }

    pub fn access_path(&self) -> PathBuf {
        self.dir.path().join("access.log")
    }

    /// The complete lines of the access log so far.
    pub fn access_lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.access_path()).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(str::to_owned).collect()
    }

    /// Waits for an access log line that passes `test`, and returns the first.
    #[track_caller]
    pub fn wait_access(&self, what: &str, test: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("an access log line of {what}"), || {
            let lines = self.access_lines();
            let mut lines = lines.iter().map(|l| serde_json::from_str(l).unwrap());
            lines.find(|line| test(line))
        })
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    #[track_caller]
    pub fn wait_exit(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the server's end", || child.try_wait().unwrap())
    }

    /// Whether the server still runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Returns the body of an admin GET, which must succeed.
    #[track_caller]
    pub fn admin(&self, path: &str) -> String {
        let (status, body) = plain_http(self.admin, "GET", path, "", "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub fn admin_json(&self, path: &str) -> Value {
        serde_json::from_str(&self.admin(path)).unwrap()
    }

    /// The value of a metric, by its name with labels.
    #[track_caller]
    pub fn metric(&self, name: &str) -> f64 {
        let metrics = self.admin("/metrics");
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("no metric {name} in:\n{metrics}"))
            .parse()
            .unwrap()
    }

    /// Waits until a metric is at least `min`.
    #[track_caller]
    pub fn wait_metric(&self, name: &str, min: f64) {
        eventually(&format!("{name} >= {min}"), || {
            (self.metric(name) >= min).then_some(())
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let _ = writeln!(std::io::stderr(), "--- log of the server:\n{}", self.log());
        }
    }
}

/// Collects the output of a program.
fn collect(stream: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut text = into.lock().unwrap();
            text.push_str(&line);
            text.push('\n');
        }
    })
}

/// Makes one HTTP/1.1 exchange in the clear; `headers` are whole lines. Returns status and body.
pub fn plain_http(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = match headers.to_ascii_lowercase().contains("host:") {
        true => String::new(),
        false => format!("Host: {address}\r\n"),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}{headers}Content-Length: {}\r\nConnection: \
         close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line).unwrap();
    let status = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let mut length = u64::MAX;
    while line != "\r\n" {
        line.clear();
        answer.read_line(&mut line).unwrap();
        // Some servers do not close when asked to.
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = String::new();
    answer.take(length).read_to_string(&mut body).unwrap();
    (status, body)
}

/// Makes a self-signed certificate for localhost: the PEM of it and of its key.
pub fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}
