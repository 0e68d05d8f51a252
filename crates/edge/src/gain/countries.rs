//! Countries of addresses, from a database in MaxMind's format.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use maxminddb::{PathElement, Reader};

/// A database of countries, or none.
#[derive(Default)]
pub(crate) struct Countries(Option<Reader<Vec<u8>>>);

/// Why the database of countries can't be used.
#[derive(Debug, thiserror::Error)]
#[error("reading the database of countries {} (gain.countries)", path.display())]
pub struct CountriesError {
    path: PathBuf,
    #[source]
    source: maxminddb::MaxMindDbError,
}

impl Countries {
    /// Reads a database whole.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, CountriesError> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let reader = Reader::open_readfile(path).map_err(|source| CountriesError {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self(Some(reader)))
    }

    pub(crate) const fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// The country of an address: its English name, or its code (ISO 3166-1).
    pub(crate) fn of(&self, address: IpAddr) -> Option<String> {
        let found = self.0.as_ref()?.lookup(address).ok()?;
        let text = |keys: &[&'static str]| {
            let path: Vec<_> = keys.iter().map(|key| PathElement::Key(key)).collect();
            found.decode_path::<String>(&path).ok()?
        };
        text(&["country", "names", "en"]).or_else(|| text(&["country", "iso_code"]))
    }
}

impl fmt::Debug for Countries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Countries").field(&self.is_known()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database (MaxMind DB file format, version 2.0) in which addresses below 128.0.0.0 are in a country.
    fn database(names: &[u8]) -> Vec<u8> {
        let text = |text: &str| [&[0x40 | text.len() as u8][..], text.as_bytes()].concat();
        // One node: its left record leads to the data, and its right one nowhere. Its data begins at 16.
        let (nodes, separator) = ([0, 0, 17, 0, 0, 1], [0; 16]);
        let country = [
            &[0xe2][..],
            &text("iso_code"),
            &text("XX"),
            &text("names"),
            names,
        ]
        .concat();
        let data = [&[0xe1][..], &text("country"), &country].concat();
        let number = |key: &str, value: u8| [&text(key)[..], &[0xa1, value]].concat();
        let metadata = [
            &[0xe9][..],
            &number("binary_format_major_version", 2),
            &number("binary_format_minor_version", 0),
            &[&text("build_epoch")[..], &[0x01, 0x02, 1]].concat(),
            &[&text("database_type")[..], &text("Test-Country")].concat(),
            &[&text("description")[..], &[0xe0]].concat(),
            &number("ip_version", 4),
            &[&text("languages")[..], &[0x00, 0x04]].concat(),
            &[&text("node_count")[..], &[0xc1, 1]].concat(),
            &number("record_size", 24),
        ]
        .concat();
        let marker = b"\xab\xcd\xefMaxMind.com";
        [&nodes[..], &separator, &data, marker, &metadata].concat()
    }

    #[test]
    fn addresses_have_the_country_of_the_database() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("countries.mmdb");
        let near = [&[0xe1, 0x42][..], b"en", &[0x44], b"Near"].concat();
        for (names, want) in [(&near[..], "Near"), (&[0xe0][..], "XX")] {
            std::fs::write(&file, database(names)).unwrap();
            let countries = Countries::open(Some(&file)).unwrap();
            assert!(countries.is_known());
            let of = |address: &str| countries.of(address.parse().unwrap());
            assert_eq!(of("10.0.0.1").as_deref(), Some(want));
            assert_eq!((of("192.0.2.1"), of("2001:db8::1")), (None, None));
        }
        std::fs::write(&file, b"nonsense").unwrap();
        let refused = Countries::open(Some(&file)).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("countries.mmdb (gain.countries)")
        );
        assert!(!Countries::open(None).unwrap().is_known());
    }
}
