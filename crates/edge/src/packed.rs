//! Files that are built into the program, compressed by `build.rs`.

use std::io::{self, Read as _};

use flate2::read::GzDecoder;

/// A compressed file.
pub(crate) struct Packed(&'static [u8]);

/// The model that decides where the configuration names none (`docs/model.md`).
pub(crate) const MODEL: Packed =
    Packed(include_bytes!(concat!(env!("OUT_DIR"), "/default.json.gz")));

/// `bpf/congestion.bpf.c`, built by `scripts/bpf.sh`.
pub(crate) const CONGESTION: Packed = Packed(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/congestion.bpf.o.gz"
)));

impl Packed {
    /// The file's bytes.
    ///
    /// # Errors
    /// When the program is damaged.
    pub(crate) fn unpack(&self) -> io::Result<Vec<u8>> {
        let mut file = Vec::new();
        GzDecoder::new(self.0).read_to_end(&mut file)?;
        Ok(file)
    }
}

/// The text of the model that is built in.
///
/// # Errors
/// When the program is damaged.
pub fn built_in_model() -> io::Result<String> {
    String::from_utf8(MODEL.unpack()?).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_what_the_tree_has() {
        let files: [(Packed, &[u8]); 2] = [
            (MODEL, include_bytes!("../../../models/default.json")),
            (CONGESTION, include_bytes!("../bpf/congestion.bpf.o")),
        ];
        for (packed, file) in files {
            assert_eq!(packed.unpack().unwrap(), file);
        }
    }
}
