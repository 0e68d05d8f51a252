//! Reports of tests that are skipped. `scripts/test.sh` lists them, and does not count them as
//! passed.

use std::io::{Write, stderr};
use std::thread;

/// Reports a skipped test on the real standard error, which the harness does not capture.
pub fn skip(test: &str, why: &str) {
    write(&format!("SKIPPED {test}: {why}\n"));
}

/// Reports that a test skips a part of its checks.
pub fn skip_part(test: &str, why: &str) {
    write(&format!("SKIPPED IN {test}: {why}\n"));
}

/// The name of the running test, for helpers. The harness gives it to the thread.
pub fn this_test() -> String {
    thread::current().name().unwrap_or("unnamed").to_owned()
}

/// Writes a line in one piece, since the harness writes to the same file meanwhile.
fn write(line: &str) {
    let _ = stderr().write_all(line.as_bytes());
}
