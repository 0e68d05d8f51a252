//! The output of `hikyaku --version`.

use std::sync::LazyLock;

use hikyaku_edge::built_in_model;
use hikyaku_lab::experiment::sha256;

/// The commit of the program's sources, with `-dirty` if they were changed.
pub(crate) const COMMIT: &str = env!("HIKYAKU_COMMIT");

/// The short version, such as `0.1.0 (8e307da12345)`.
pub(crate) static SHORT: LazyLock<String> = LazyLock::new(|| {
    let (hash, dirty) = COMMIT
        .split_once('-')
        .map_or((COMMIT, ""), |(hash, _)| (hash, "-dirty"));
    let hash = hash.get(..12).unwrap_or(hash);
    format!("{} ({hash}{dirty})", env!("CARGO_PKG_VERSION"))
});

/// The short version and further lines, which `hikyaku lab` reads from a program under test.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    // A damaged program says so when it serves.
    let model = sha256(built_in_model().unwrap_or_default().as_bytes());
    format!("{}\ncommit {COMMIT}\nmodel {model}", *SHORT)
});
