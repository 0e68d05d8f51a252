//! How tests tell that they are left out. `scripts/test.sh` lists what they tell, and does
//! not count them as passed.

use std::io::{Write, stderr};
use std::thread;

/// Tells on the real standard error, which the harness does not capture, that a test is
/// left out.
pub fn skip(test: &str, why: &str) {
    tell(&format!("SKIPPED {test}: {why}\n"));
}

/// Tells that a test leaves out a part of what it tries.
pub fn skip_part(test: &str, why: &str) {
    tell(&format!("SKIPPED IN {test}: {why}\n"));
}

/// The test that runs, for helpers: the harness gives its thread this name.
pub fn this_test() -> String {
    thread::current().name().unwrap_or("unnamed").to_owned()
}

/// In one piece, because the harness writes to the same place meanwhile.
fn tell(line: &str) {
    let _ = stderr().write_all(line.as_bytes());
}
