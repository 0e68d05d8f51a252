//! Samples as bytes, for the store and for other edges.
//!
//! A version byte, the fields as variable-length numbers (LEB128, signed ones in zigzag), and a check. Clients
//! stand in the order of their hashes, each as the difference from the one before it.

use std::collections::BTreeMap;

use super::response::{LOG_TIMES, MAX_ADJUSTED};
use super::sample::{Bottom, Client, MAX_PARTS, Part, Sample, Site, Sums, Times};
use super::subject::Network;
use crate::codec::{CHECK_LEN, DecodeError, seal, unsealed};

const VERSION: u8 = 1;
const MAX_SITES: usize = 65_536;
const MAX_NAME: usize = 255;
/// Clients of one group in a record.
const MAX_CLIENTS: usize = 65_536;

impl Sample {
    /// The sample as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let out = &mut bytes;
        let (first, last) = self.seen.unwrap_or_default();
        put(out, u64::from(first));
        put(out, u64::from(last.saturating_sub(first)));
        put(out, u64::from(self.seen.is_some()));
        let named = || self.sites.iter().filter(|(_, name)| name.len() <= MAX_NAME);
        put(out, named().take(MAX_SITES).count() as u64);
        for (site, name) in named().take(MAX_SITES) {
            put(out, u64::from(site.0));
            put(out, name.len() as u64);
            out.extend_from_slice(name.as_bytes());
        }
        for group in &self.groups {
            encode_group(group, out);
        }
        out.extend_from_slice(&[0; CHECK_LEN]);
        seal(out);
        bytes
    }

    /// A smaller sample as at most `max` bytes; that of the larger group becomes smaller first.
    #[must_use]
    pub fn encode_within(&self, max: usize) -> Vec<u8> {
        let mut bytes = self.encode();
        let mut sample = self.clone();
        while bytes.len() > max && sample.groups.iter().any(|group| !group.clients.is_empty()) {
            sample.shrink(bytes.len(), max);
            bytes = sample.encode();
        }
        bytes
    }

    /// Reads a sample.
    ///
    /// # Errors
    /// When the bytes are not those of one, or some value in them is impossible.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields(unsealed(bytes, VERSION)?);
        let seen = fields.seen()?;
        let mut sites = BTreeMap::new();
        for _ in 0..fields.count("number of sites", MAX_SITES)? {
            let site = Site(fields.u32("site")?);
            sites.insert(site, fields.name()?);
        }
        let groups = [fields.group()?, fields.group()?];
        match fields.0.is_empty() {
            true => Ok(Self {
                groups,
                sites,
                seen,
            }),
            false => Err(DecodeError::Length { len: bytes.len() }),
        }
    }
}

fn encode_group(group: &Bottom, out: &mut Vec<u8>) {
    put(out, group.responses);
    put(out, group.incomplete);
    // Mostly there is none, which is short so.
    put(out, !group.bound);
    put(out, group.clients.len().min(MAX_CLIENTS) as u64);
    let mut before = 0;
    for (&hash, client) in group.clients.iter().take(MAX_CLIENTS) {
        put(out, hash - before);
        before = hash;
        put(out, client.network.bits().rotate_left(1));
        put(out, client.parts.len().min(MAX_PARTS) as u64);
        for part in client.parts.iter().take(MAX_PARTS) {
            encode_part(part, out);
        }
    }
}

fn encode_part(part: &Part, out: &mut Vec<u8>) {
    put(out, u64::from(part.site.0));
    put(out, u64::from(part.share));
    put(out, u64::from(part.incomplete));
    for sums in &part.sizes {
        put(out, u64::from(sums.responses));
        if sums.responses > 0 {
            put(out, zigzag(sums.adjusted));
            put(out, zigzag(sums.log_time));
        }
    }
    for times in &part.versions {
        put(out, u64::from(times.responses));
        if times.responses > 0 {
            put(out, zigzag(times.log_time));
        }
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// The fields that are left to read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(DecodeError::Field { field })?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            let placed = bits << shift;
            if placed >> shift != bits {
                break;
            }
            value |= placed;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Field { field })
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        u32::try_from(self.u64(field)?).map_err(|_| DecodeError::Field { field })
    }

    fn count(&mut self, field: &'static str, max: usize) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.u64(field)?).ok();
        let count = count.filter(|&count| count <= max);
        count.ok_or(DecodeError::Field { field })
    }

    fn seen(&mut self) -> Result<Option<(u32, u32)>, DecodeError> {
        let first = self.u32("time")?;
        let last = first.checked_add(self.u32("time")?);
        let last = last.ok_or(DecodeError::Field { field: "time" })?;
        Ok((self.count("time", 1)? == 1).then_some((first, last)))
    }

    fn name(&mut self) -> Result<String, DecodeError> {
        const FIELD: DecodeError = DecodeError::Field { field: "site name" };
        let len = self.count("site name", MAX_NAME)?;
        let (name, rest) = self.0.split_at_checked(len).ok_or(FIELD)?;
        self.0 = rest;
        String::from_utf8(name.to_vec()).map_err(|_| FIELD)
    }

    fn group(&mut self) -> Result<Bottom, DecodeError> {
        let mut group = Bottom {
            responses: self.total("responses")?,
            incomplete: self.total("responses")?,
            bound: !self.u64("bound")?,
            clients: BTreeMap::new(),
        };
        let mut before = None;
        for _ in 0..self.count("number of clients", MAX_CLIENTS)? {
            const FIELD: DecodeError = DecodeError::Field { field: "client" };
            let step = self.u64("client")?;
            let hash = match before {
                None => step,
                Some(before) if step > 0 => step.checked_add(before).ok_or(FIELD)?,
                Some(_) => return Err(FIELD),
            };
            before = Some(hash);
            if hash >= group.bound {
                return Err(FIELD);
            }
            group.clients.insert(hash, self.client()?);
        }
        Ok(group)
    }

    fn client(&mut self) -> Result<Client, DecodeError> {
        let bits = self.u64("network")?.rotate_right(1);
        let network = Network::from_bits(bits);
        let mut client = Client {
            network: network.ok_or(DecodeError::Field { field: "network" })?,
            parts: Vec::new(),
        };
        for _ in 0..self.count("number of sites of a client", MAX_PARTS)? {
            let part = self.part()?;
            if client
                .parts
                .last()
                .is_some_and(|last| last.key() >= part.key())
            {
                return Err(DecodeError::Field { field: "site" });
            }
            client.parts.push(part);
        }
        Ok(client)
    }

    fn part(&mut self) -> Result<Part, DecodeError> {
        let site = Site(self.u32("site")?);
        let share = self.count("share", usize::from(u16::MAX))?;
        let mut part = Part::new(site, share as u16);
        part.incomplete = self.u32("responses")?;
        for sums in &mut part.sizes {
            *sums = self.sums()?;
        }
        for times in &mut part.versions {
            *times = self.times()?;
        }
        Ok(part)
    }

    fn sums(&mut self) -> Result<Sums, DecodeError> {
        let responses = self.u32("responses")?;
        if responses == 0 {
            return Ok(Sums::default());
        }
        Ok(Sums {
            responses,
            adjusted: self.sum("outcome", responses, (-MAX_ADJUSTED, MAX_ADJUSTED))?,
            log_time: self.sum("time", responses, LOG_TIMES.into_inner())?,
        })
    }

    fn times(&mut self) -> Result<Times, DecodeError> {
        let responses = self.u32("responses")?;
        if responses == 0 {
            return Ok(Times::default());
        }
        Ok(Times {
            responses,
            log_time: self.sum("time", responses, LOG_TIMES.into_inner())?,
        })
    }

    /// A sum over responses, each of which lies between two bounds.
    fn sum(
        &mut self,
        field: &'static str,
        responses: u32,
        (least, most): (i64, i64),
    ) -> Result<i64, DecodeError> {
        let sum = unzigzag(self.u64(field)?);
        let n = i64::from(responses);
        match (least * n..=most * n).contains(&sum) {
            true => Ok(sum),
            false => Err(DecodeError::Field { field }),
        }
    }

    /// A total: below 2^56, so that sums of many do not overflow.
    fn total(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        let total = self.u64(field)?;
        match total < 1 << 56 {
            true => Ok(total),
            false => Err(DecodeError::Field { field }),
        }
    }
}
