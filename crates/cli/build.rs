//! Sets `HIKYAKU_COMMIT` to the commit of the sources: 40 hexadecimal digits, with `-dirty` if the
//! sources were changed. `unknown` outside of a repository.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = git(&[
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty",
        "--exclude=*",
    ]);
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=HIKYAKU_COMMIT={commit}");
    let reference = git(&["rev-parse", "--symbolic-full-name", "HEAD"]).unwrap_or_default();
    let inside =
        ["HEAD", "packed-refs", &reference].map(|name| git(&["rev-parse", "--git-path", name]));
    // Whether sources of the program are changed.
    let sources = ["../../Cargo.toml", "../../Cargo.lock", "../../models", ".."].map(str::to_owned);
    for path in inside.into_iter().flatten().chain(sources) {
        // A missing file would make this run at each build.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Returns git's output, one line.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
