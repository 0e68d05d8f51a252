//! `GET /v1/map`: clients by round-trip time and loss, on the model's plane of the two (VERSION §4.2, figure 4).

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use hikyaku_core::transport::Plane;
use hikyaku_units::arm::Version;
use hikyaku_units::{ByteSize, LossRate, Rate, Timestamp};
use http::{Response, StatusCode};
use serde::Serialize;

use super::clients::loss;
use super::query::Query;
use super::{json, problem};
use crate::clients::{Known, Seen};
use crate::shared::Shared;
use hikyaku_content::Body;

/// Most clients, the newest, that are drawn.
const MAX_DRAWN: usize = 20_000;
/// Most dots.
const MAX_DOTS: usize = 600;
/// Dots a decade of the round-trip time, and of the loss: clients that are closer share one.
const DOTS: f64 = 16.0;
/// The smallest loss and round-trip time that differ from none on the map.
const MIN_LOSS: f64 = 1e-4;
const MIN_RTT: f64 = 1e-4;
/// Columns and rows of the model's plane.
const POINTS: usize = 33;
/// Its ends: from 1 ms to 1 s, and from 0.01 % to 20 %.
const RTTS: [f64; 2] = [1e-3, 1.0];
const LOSSES: [f64; 2] = [1e-4, 0.2];
/// Rate of the plane while that of no client is known.
const RATE: Rate = Rate::from_mbps(20);

/// The answer.
#[derive(Debug, Serialize)]
struct Map {
    /// Number of all clients, and of those that are drawn.
    known: usize,
    drawn: usize,
    /// Of the newest clients, those whose path is not known.
    without_path: usize,
    dots: Vec<Dot>,
    plane: Gains,
}

/// Clients of like paths that get the same.
#[derive(Debug, Serialize)]
struct Dot {
    /// The same as long as there is the dot.
    key: String,
    /// Geometric mean.
    min_rtt_us: u64,
    /// Mean share of lost packets.
    loss: f64,
    version: &'static str,
    group: &'static str,
    clients: u32,
    /// The one seen last.
    address: IpAddr,
    /// Mean share of an ordinary server's load time that is saved.
    saves: Option<f32>,
}

/// The model's expected gain of HTTP/3, by row (round-trip time) and column (loss).
#[derive(Debug, Serialize)]
struct Gains {
    rate_bps: u64,
    size: u64,
    min_rtt_us: Vec<u64>,
    loss: Vec<f64>,
    gain: Vec<Vec<Option<f32>>>,
}

/// The sums behind a dot.
#[derive(Debug)]
struct Sums {
    ln_rtt: f64,
    loss: f64,
    saves: (f32, u32),
    clients: u32,
    address: IpAddr,
    last_seen: Option<Timestamp>,
}

/// The place and the decision of a dot.
type Place = (i32, i32, Version, &'static str);

/// Draws the map.
pub(super) fn map(query: Option<&str>, shared: &Shared) -> Response<Body> {
    let read = || -> Result<(Option<Rate>, Option<ByteSize>), String> {
        let query = Query::read(query, &["rate", "size"])?;
        Ok((query.value("rate")?, query.value("size")?))
    };
    let (rate, size) = match read() {
        Ok(asked) => asked,
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    let (newest, known) = shared.clients.newest(MAX_DRAWN);
    let mut places: HashMap<Place, Sums> = HashMap::new();
    let (mut rates, mut without_path) = (Vec::new(), 0);
    for known in &newest {
        let seen = shared.clients.look(known.address);
        rates.extend(seen.view.rate.map(Rate::bits_per_sec));
        if !add(&mut places, known, &seen) {
            without_path += 1;
        }
    }
    let rate = rate.or_else(|| median(&mut rates)).unwrap_or(RATE);
    let size = size.unwrap_or_else(|| shared.clients.typical_size());
    json(&Map {
        known,
        drawn: newest.len() - without_path,
        without_path,
        dots: dots(places),
        plane: plane(rate, size, shared),
    })
}

/// Adds a client to its dot. Returns `false` where its path is not known.
fn add(places: &mut HashMap<Place, Sums>, known: &Known, seen: &Seen) -> bool {
    let Some((min_rtt, loss)) = seen.view.min_rtt.zip(loss(seen)) else {
        return false;
    };
    let ln_rtt = min_rtt.as_secs_f64().max(MIN_RTT).ln();
    let cell = |log10: f64| (log10 * DOTS).floor() as i32;
    let place = (
        cell(ln_rtt / std::f64::consts::LN_10),
        cell(loss.max(MIN_LOSS).log10()),
        seen.decision.version,
        seen.decision.group.name(),
    );
    let sums = places.entry(place).or_insert(Sums {
        ln_rtt: 0.0,
        loss: 0.0,
        saves: (0.0, 0),
        clients: 0,
        address: known.address,
        last_seen: None,
    });
    sums.ln_rtt += ln_rtt;
    sums.loss += loss;
    sums.clients += 1;
    if let Some(saves) = seen.saves {
        sums.saves = (sums.saves.0 + saves, sums.saves.1 + 1);
    }
    // Of several that were seen in the same second always the same one, or dots would flicker.
    let newer = (known.last_seen, known.address) > (sums.last_seen, sums.address);
    if sums.last_seen.is_none() || newer {
        (sums.address, sums.last_seen) = (known.address, known.last_seen);
    }
    true
}

/// The dots of the most clients.
fn dots(places: HashMap<Place, Sums>) -> Vec<Dot> {
    let dot = |((column, row, version, group), sums): (Place, Sums)| {
        let clients = f64::from(sums.clients);
        Dot {
            key: format!("{}_{group}_{column}_{row}", version.name()),
            min_rtt_us: ((sums.ln_rtt / clients).exp() * 1e6) as u64,
            loss: sums.loss / clients,
            version: version.name(),
            group,
            clients: sums.clients,
            address: sums.address,
            saves: (sums.saves.1 > 0).then(|| sums.saves.0 / sums.saves.1 as f32),
        }
    };
    let mut dots: Vec<Dot> = places.into_iter().map(dot).collect();
    dots.sort_by(|a, b| b.clients.cmp(&a.clients).then(a.address.cmp(&b.address)));
    dots.truncate(MAX_DOTS);
    dots
}

fn median(rates: &mut [u64]) -> Option<Rate> {
    let middle = rates.len() / 2;
    if rates.is_empty() {
        return None;
    }
    let (_, median, _) = rates.select_nth_unstable(middle);
    Some(Rate::from_bits_per_sec(*median))
}

fn plane(rate: Rate, size: ByteSize, shared: &Shared) -> Gains {
    let rtts = spread(RTTS).map(Duration::from_secs_f64);
    let losses = spread(LOSSES).map(LossRate::from_fraction);
    let plane = Plane {
        min_rtts: &rtts,
        losses: &losses,
        rate,
        size,
    };
    let rounded = |gain: f32| (gain * 1000.0).round() / 1000.0;
    let gains = shared.clients.gains(&plane).into_iter();
    let row = |row: Vec<Option<f32>>| row.into_iter().map(|gain| gain.map(rounded)).collect();
    Gains {
        rate_bps: rate.bits_per_sec(),
        size: size.bytes(),
        min_rtt_us: rtts.map(|rtt| rtt.as_micros() as u64).to_vec(),
        loss: losses.map(LossRate::fraction).to_vec(),
        gain: gains.map(row).collect(),
    }
}

/// Points between two ends, in equal ratios.
fn spread([from, to]: [f64; 2]) -> [f64; POINTS] {
    let step = (to / from).ln() / (POINTS - 1) as f64;
    std::array::from_fn(|point| from * (step * point as f64).exp())
}
