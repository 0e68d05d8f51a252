//! The page of the demo.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Sizes of its images in kB.
const IMAGES: [usize; 12] = [30, 40, 60, 80, 100, 120, 150, 180, 220, 260, 320, 400];

/// Makes a page with images, which cannot be compressed, in a new directory below `parent`.
pub(super) fn make(parent: &Path) -> io::Result<PathBuf> {
    let root = parent.join("page");
    fs::create_dir(&root)?;
    let mut html =
        "<!doctype html><title>hikyaku demo</title><link rel=\"stylesheet\" href=\"style.css\">"
            .to_owned();
    for (number, size) in IMAGES.iter().enumerate() {
        let _ = write!(html, "<img src=\"{number}.png\" alt=\"\">");
        fs::write(
            root.join(format!("{number}.png")),
            noise(number as u64, size * 1000),
        )?;
    }
    fs::write(root.join("index.html"), html)?;
    fs::write(root.join("style.css"), "img { width: 20rem }\n".repeat(200))?;
    Ok(root)
}

/// Bytes without a pattern (SplitMix64).
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
