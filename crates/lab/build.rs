//! Packs the experiments that come with the program: a JSON object of texts by name, compressed.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

const EXPERIMENTS: &str = "../../experiments";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={EXPERIMENTS}");
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(EXPERIMENTS)? {
        let path = entry?.path();
        if let (Some(name), Some("toml")) = (
            path.file_stem().and_then(|name| name.to_str()),
            path.extension().and_then(|extension| extension.to_str()),
        ) {
            texts.insert(name.to_owned(), fs::read_to_string(&path)?);
        }
    }
    let target = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let packed = File::create(target.join("experiments.json.gz"))?;
    let mut encoder = GzEncoder::new(packed, Compression::best());
    serde_json::to_writer(&mut encoder, &texts)?;
    encoder.finish()?;
    Ok(())
}
