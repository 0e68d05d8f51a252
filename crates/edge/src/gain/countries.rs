//! Countries of addresses, from a database in MaxMind's format.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use maxminddb::{Reader, geoip2};

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
        let country = found.decode::<geoip2::Country<'_>>().ok()??.country;
        let name = country.names.english.or(country.iso_code)?;
        Some(name.to_owned())
    }
}

impl fmt::Debug for Countries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Countries").field(&self.is_known()).finish()
    }
}
