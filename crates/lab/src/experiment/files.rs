//! The files of the server, and the requests of a session.

use std::fs::{self, File};
use std::path::Path;

use hikyaku_netsim::derive_seed;
use hikyaku_units::{ByteSize, Rate};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::axis::{Axis, Cell};
use super::run::{Attempt, RunError};
use super::spec::{Kind, Spec};

/// A file of the served directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteFile {
    /// Name of the file; different cells' files have different names.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// The file that flows fetch.
pub(crate) const FLOW_FILE: &str = "flow.bin";

/// Largest size of a file in bytes, which is made in memory.
const LARGEST: u64 = 4_000_000_000;

/// The stream of a [`Traffic`](super::spec::Traffic) with a rate.
pub(crate) const LIVE_FILE: &str = "live.ts";

impl Spec {
    /// Returns the files of a cell, in the order of a session's requests.
    pub(crate) fn files(&self, cell: &Cell) -> Vec<SiteFile> {
        if self.workload.kind == Kind::Paths {
            return self.path_files(cell);
        }
        let mut tag = String::new();
        for axis in [Axis::Size, Axis::Images] {
            if let Some(value) = cell.get(axis) {
                tag = format!("{tag}-{value}");
            }
        }
        let last = self.workload.files.len().saturating_sub(1);
        let mut files = Vec::new();
        for (i, file) in self.workload.files.iter().enumerate() {
            let swept = |axis| cell.get(axis).filter(|_| i == last);
            let size: ByteSize = swept(Axis::Size)
                .and_then(|text| text.parse().ok())
                .unwrap_or(file.size);
            let copies = swept(Axis::Images).and_then(|text| text.parse().ok());
            let copies = copies.unwrap_or(file.copies);
            let (stem, extension) = file.name.rsplit_once('.').unwrap_or((&file.name, "bin"));
            files.extend((1..=copies).map(|copy| {
                let number = if copies > 1 {
                    format!("-{copy}")
                } else {
                    String::new()
                };
                SiteFile {
                    name: format!("{stem}{tag}{number}.{extension}"),
                    bytes: size.bytes(),
                }
            }));
        }
        files
    }

    /// Checks that the lab can make the files of all `cells`.
    ///
    /// # Errors
    /// If one is larger.
    pub(crate) fn check_files(&self, cells: &[Cell]) -> Result<(), RunError> {
        let mut files = cells.iter().flat_map(|cell| self.files(cell));
        let Some(file) = files.find(|file| file.bytes > LARGEST) else {
            return Ok(());
        };
        let (name, size) = (&file.name, ByteSize::from_bytes(file.bytes));
        let why = format!("`{name}` has {size}; the lab makes files of at most 4 GB");
        Err(RunError::Arguments(why))
    }

    /// Writes the files of all `cells` below `root`.
    pub(crate) fn write_files(&self, cells: &[Cell], root: &Path) -> Result<(), RunError> {
        fs::create_dir_all(root).attempt(|| format!("creating {}", root.display()))?;
        if self.workload.kind == Kind::Flows {
            return self.write_flow_file(cells, &root.join(FLOW_FILE));
        }
        for cell in cells {
            let mut files = self.files(cell);
            if self.workload.kind == Kind::Paths {
                // Streams come from a server behind.
                files.retain(|file| file.name != LIVE_FILE);
                files.extend(self.training_file());
            }
            for (i, file) in files.iter().enumerate() {
                let path = root.join(&file.name);
                if path.exists() {
                    continue;
                }
                let content = match i {
                    0 if self.workload.page => html(&files[1..], file.bytes),
                    _ => content(file),
                };
                fs::write(&path, content).attempt(|| format!("writing {}", path.display()))?;
            }
        }
        Ok(())
    }
}

impl Spec {
    /// Writes a file larger than any flow can carry, without blocks on the disk.
    fn write_flow_file(&self, cells: &[Cell], path: &Path) -> Result<(), RunError> {
        let rates = cells
            .iter()
            .filter_map(|cell| self.links(cell).ok()?.rate());
        let rate = rates.max().unwrap_or(Rate::from_mbps(10_000));
        let seconds = self.workload.duration.unwrap_or_default().as_secs() + 1;
        let bytes = rate.bits_per_sec() / 8 * seconds;
        let file = File::create(path).and_then(|file| file.set_len(bytes));
        file.attempt(|| format!("writing {}", path.display()))
    }
}

/// Makes a page that has all `parts`: style sheets and scripts by their names, and images. A `.bmp` is its large
/// picture. A comment fills the page up to `bytes` if it is shorter.
fn html(parts: &[SiteFile], bytes: u64) -> Vec<u8> {
    let mut page = "<!doctype html><title>page</title>\n".to_owned();
    for SiteFile { name, .. } in parts {
        page += &match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "css" => format!("<link rel=\"stylesheet\" href=\"{name}\">\n"),
            "js" => format!("<script src=\"{name}\"></script>\n"),
            "bmp" => format!("<img src=\"{name}\" fetchpriority=\"high\">\n"),
            _ => format!("<img src=\"{name}\">\n"),
        };
    }
    let missing = usize::try_from(bytes)
        .unwrap_or(usize::MAX)
        .saturating_sub(page.len());
    if let Some(filling) = missing.checked_sub("<!---->".len()) {
        page += &format!("<!--{}-->", " ".repeat(filling));
    }
    page.into_bytes()
}

/// Makes bytes that do not compress and are always the same for a size. The file becomes an image
/// if its name says so, since a browser reads that to the last byte.
fn content(file: &SiteFile) -> Vec<u8> {
    let bytes = usize::try_from(file.bytes).unwrap_or(usize::MAX);
    let random = |length: usize| {
        let mut random = vec![0; length];
        ChaCha8Rng::seed_from_u64(derive_seed(0, &[file.bytes])).fill_bytes(&mut random);
        random
    };
    let is = |extension: &str| file.name.ends_with(extension);
    if is(".css") || is(".js") {
        return comment(random(bytes));
    }
    match bytes.checked_sub(PNG_OVERHEAD) {
        Some(filling) if is(".png") => png(&random(filling)),
        Some(_) if is(".bmp") => bmp(random(bytes)),
        _ => random(bytes),
    }
}

/// Makes a comment of style sheets and scripts.
fn comment(mut bytes: Vec<u8>) -> Vec<u8> {
    for byte in &mut bytes {
        *byte = b'A' + *byte % 26;
    }
    if let [first, second, .., last_but_one, last] = &mut bytes[..] {
        (*first, *second, *last_but_one, *last) = (b'/', b'*', b'*', b'/');
    }
    bytes
}

/// Makes a picture of noise that is as wide as high, of 24 bits a pixel (BMP of Windows 3, 54 bytes of header).
/// Its large area makes it the page's largest contentful paint.
fn bmp(mut bytes: Vec<u8>) -> Vec<u8> {
    const HEADER: usize = 54;
    let pixels = (bytes.len() - HEADER) / 3;
    // A multiple of four, so that rows need no padding.
    let width = pixels.isqrt() / 4 * 4;
    let height = pixels.checked_div(width).unwrap_or(0);
    let word = |number: usize| (number as u32).to_le_bytes();
    let header = [
        [0, 0, b'B', b'M'],
        word(bytes.len()),
        word(0),
        word(HEADER),
        word(40),
        word(width),
        word(height),
        // One plane, 24 bits.
        [1, 0, 24, 0],
        word(0),
        word(width * height * 3),
        word(2835),
        word(2835),
        word(0),
        word(0),
    ];
    bytes[..HEADER].copy_from_slice(&header.concat()[2..]);
    bytes
}

/// Bytes of [`png`] besides the filling.
const PNG_OVERHEAD: usize = 8 + (12 + 13) + 12 + (12 + IDAT.len()) + 12;

/// Data of one black pixel: a zlib stream of one stored block.
const IDAT: &[u8] = &[0x78, 0x01, 0x01, 2, 0, 0xfd, 0xff, 0, 0, 0, 2, 0, 1];

/// Makes a picture of one pixel (PNG, ISO/IEC 15948) with `filling` in a private chunk before it.
/// So its decoding costs nothing and needs every byte.
fn png(filling: &[u8]) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    // One by one pixel, 8 bits of grey.
    chunk(&mut png, *b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]);
    chunk(&mut png, *b"fiLl", filling);
    chunk(&mut png, *b"IDAT", IDAT);
    chunk(&mut png, *b"IEND", &[]);
    png
}

fn chunk(png: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    png.extend((data.len() as u32).to_be_bytes());
    let begin = png.len();
    png.extend(kind);
    png.extend(data);
    let check = crc32(&png[begin..]);
    png.extend(check.to_be_bytes());
}

/// CRC-32 of ISO 3309, as PNG uses it.
fn crc32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|n| {
        (0..8).fold(n as u32, |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    });
    let step = |crc: u32, &byte: &u8| (crc >> 8) ^ table[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn files_have_their_size() {
        for (name, bytes) in [
            ("a.png", 10_000),
            ("a.png", 80),
            ("a.png", 5),
            ("a.css", 1_000),
            ("a.js", 2),
            ("a.bmp", 120_000),
            ("a.bmp", 80),
            ("a.bin", 125),
        ] {
            let file = SiteFile {
                name: name.to_owned(),
                bytes,
            };
            assert_eq!(content(&file).len() as u64, bytes, "{name} of {bytes}");
        }
        let images = [SiteFile {
            name: "b.png".to_owned(),
            bytes: 1,
        }];
        assert_eq!(html(&images, 1_000).len(), 1_000);
        assert!(html(&images, 10).len() > 10);
    }

    #[test]
    fn parts_of_a_page_are_of_their_kinds() {
        let named = |name: &str| SiteFile {
            name: name.to_owned(),
            bytes: 120_054,
        };
        let parts = ["a.css", "b.js", "c.png", "d.bmp"].map(named);
        let page = String::from_utf8(html(&parts, 0)).unwrap();
        for tag in [
            "<link rel=\"stylesheet\" href=\"a.css\">",
            "<script src=\"b.js\"></script>",
            "<img src=\"c.png\">",
            "<img src=\"d.bmp\" fetchpriority=\"high\">",
        ] {
            assert!(page.contains(tag), "{tag}: {page}");
        }
        let style = content(&parts[0]);
        assert!(style.starts_with(b"/*") && style.ends_with(b"*/"));
        assert!(style.is_ascii());
        let picture = content(&parts[3]);
        assert_eq!(picture[..6], *b"BM\xf6\xd4\x01\0");
        // 200 by 200 pixels.
        assert_eq!(picture[18..26], [200, 0, 0, 0, 200, 0, 0, 0]);
    }
}
