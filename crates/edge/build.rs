//! Compresses the large files that are built into the program (`src/packed.rs`).

use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

const FILES: [&str; 2] = ["../../models/default.json", "bpf/congestion.bpf.o"];

fn main() -> Result<(), Box<dyn Error>> {
    let target = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for path in FILES {
        println!("cargo::rerun-if-changed={path}");
        let name = Path::new(path).file_name().ok_or("a path without a name")?;
        let mut packed = target.join(name).into_os_string();
        packed.push(".gz");
        let mut encoder = GzEncoder::new(File::create(packed)?, Compression::best());
        encoder.write_all(&fs::read(path)?)?;
        encoder.finish()?;
    }
    Ok(())
}
