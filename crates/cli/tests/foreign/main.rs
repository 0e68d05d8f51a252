//! Clients of other projects, against the real server. `scripts/setup.sh` pins each of them. Tests
//! of missing clients report a skip and pass.
#![allow(clippy::unwrap_used, reason = "tests")]

mod aioquic;
mod debian;
mod go;
mod h2spec;
mod slow;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{Server, Site, skip, this_test};

/// Size of `big.bin`, in bytes.
const BIG: usize = 20_000_000;

/// A file server and a proxy, with their files and upstream.
struct Servers {
    files: Server,
    proxy: Server,
    _site: Site,
}

impl Servers {
    fn start() -> Self {
        Self::with(&[])
    }

    /// Starts both servers with these keys set.
    fn with(keys: &[&str]) -> Self {
        let site = Site::with_big_file(BIG);
        let set = keys.iter().flat_map(|key| ["--set", key]);
        let args: Vec<&str> = [site.path()].into_iter().chain(set).collect();
        let files = Server::start(&args);
        let proxy = proxy(keys);
        Self {
            files,
            proxy,
            _site: site,
        }
    }
}

/// Starts a proxy for an upstream of HTTP/1.1, with these keys set.
fn proxy(keys: &[&str]) -> Server {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let keys = keys.iter().flat_map(|key| ["--set", key]);
    let args: Vec<&str> = ["--upstream", &upstream].into_iter().chain(keys).collect();
    Server::start(&args)
}

/// The path of a program that `scripts/setup.sh` has put below `build`; reports a skip if it is
/// missing.
fn built(path: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join("build").join(path);
    if program.is_file() {
        return Some(program);
    }
    skip(
        &this_test(),
        &format!("`build/{path}` is missing: run `scripts/setup.sh test`"),
    );
    None
}

/// Runs a program to its end, for two minutes at most.
fn run(program: impl AsRef<Path>, args: &[&str]) -> Output {
    let output = Command::new("timeout")
        .arg("120")
        .arg(program.as_ref())
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let code = output.status.code();
    assert_ne!(code, Some(124), "{:?} never ended", program.as_ref());
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks a report with a line for each case, `NAME: ok` or `NAME: FAULT`.
#[track_caller]
fn expect_all_right(output: &Output, least: usize) {
    let report = text(&output.stdout);
    let wrong: Vec<&str> = report.lines().filter(|l| !l.ends_with(": ok")).collect();
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{report}{errors}");
    assert!(wrong.is_empty(), "{}\n{errors}", wrong.join("\n"));
    let count = report.lines().count();
    assert!(count >= least, "only {count} cases:\n{report}{errors}");
}
