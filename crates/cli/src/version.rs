//! What `hikyaku --version` tells.

use std::sync::LazyLock;

use hikyaku_lab::experiment::model_sha256;

/// Commit that the program was built from, with `-dirty` where the sources were changed.
const COMMIT: &str = env!("HIKYAKU_COMMIT");

/// `0.1.0 (8e307da12345)`.
pub(crate) static SHORT: LazyLock<String> = LazyLock::new(|| {
    let (hash, dirty) = COMMIT
        .split_once('-')
        .map_or((COMMIT, ""), |(hash, _)| (hash, "-dirty"));
    let hash = hash.get(..12).unwrap_or(hash);
    format!("{} ({hash}{dirty})", env!("CARGO_PKG_VERSION"))
});

/// As [`SHORT`], with lines that `hikyaku lab` reads of a program that it measures.
pub(crate) static LONG: LazyLock<String> =
    LazyLock::new(|| format!("{}\ncommit {COMMIT}\nmodel {}", *SHORT, model_sha256()));
