//! One edge: what a server does for its fleet at each connection.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use hikyaku_core::bounded::TableConfig;
use hikyaku_core::client::key::Prefix;
use hikyaku_core::client::sample::{Observation, TransportSample};
use hikyaku_core::client::shared::Contributions;
use hikyaku_core::client::table::ClientTable;
use hikyaku_core::fleet::Pop;
use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;
use hikyaku_fleet::{Change, Fleet, FleetConfig, Host, Identity, Key};
use hikyaku_units::arm::{Congestion, Version};
use hikyaku_units::{Rate, Timestamp};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::time::{MissedTickBehavior, interval};

/// The longest that a read may take: a handshake over 25 ms.
const DEADLINE: Duration = Duration::from_millis(50);
/// Between two bursts of connections.
const TICK: Duration = Duration::from_millis(100);

/// A simulated edge.
pub(super) struct Edge {
    fleet: Fleet,
    knowledge: Arc<Knowledge>,
    name: String,
    policy: PolicyConfig,
    seed: u64,
}

/// Connections that come to an edge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Connections a second.
    pub(super) rate: u32,
    pub(super) time: Duration,
}

/// The fields that the edge has to write.
#[derive(Default)]
struct Knowledge {
    /// A contribution as an edge encodes it.
    payload: Vec<u8>,
    number: u32,
    edges: u32,
    /// The next prefix of those that are known at the start, and their number.
    next: AtomicU32,
    filled: AtomicU32,
    known_by: AtomicU32,
    prefixes: AtomicU32,
    changed: Mutex<Vec<u32>>,
}

impl Edge {
    /// # Errors
    /// If it can't be of the fleet.
    pub(super) fn start(number: u32, edges: u32, url: &str) -> Result<Arc<Self>> {
        let name = format!("edge-{number}");
        let text =
            format!("store = \"{url}\"\nname = \"{name}\"\npop = \"fra1\"\nmax_keys = 20000000\n");
        let config: FleetConfig = toml::from_str(&text)?;
        let knowledge = Arc::new(Knowledge {
            payload: contribution()?,
            number,
            edges,
            ..Knowledge::default()
        });
        let identity = Identity {
            version: "0.1.0".to_owned(),
            config: "measured".to_owned(),
        };
        let host = Arc::clone(&knowledge);
        Ok(Arc::new(Self {
            fleet: Fleet::start(config, identity, host, Arc::default())?,
            knowledge,
            name,
            policy: PolicyConfig::default(),
            seed: number.into(),
        }))
    }

    /// Lets it know its part of the prefixes.
    pub(super) fn fill(&self, prefixes: u32, known_by: u32) {
        let knowledge = &self.knowledge;
        knowledge.known_by.store(known_by, Ordering::Relaxed);
        knowledge.prefixes.store(prefixes, Ordering::Relaxed);
        knowledge.filled.store(prefixes, Ordering::Release);
    }

    /// Number of fields that were written.
    pub(super) fn written(&self) -> u64 {
        self.fleet.status().counts.written
    }

    pub(super) fn fault(&self) -> String {
        let status = self.fleet.status();
        let fault = status.fault.or(status.write_fault);
        fault.unwrap_or_else(|| "the store takes them slowly".to_owned())
    }

    pub(super) async fn stop(&self) {
        self.fleet.stop().await;
    }

    /// Serves connections from random prefixes, and returns how long their reads took.
    pub(super) async fn load(self: Arc<Self>, load: Load) -> Latencies {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let prefixes = self.knowledge.prefixes.load(Ordering::Relaxed);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (begun, mut connections) = (Instant::now(), Vec::new());
        let mut owed = 0.0;
        while begun.elapsed() < load.time {
            ticks.tick().await;
            owed += f64::from(load.rate) * TICK.as_secs_f64();
            while owed >= 1.0 {
                owed -= 1.0;
                let edge = Arc::clone(&self);
                let number = random.next_u32() % prefixes.max(1);
                connections.push(tokio::spawn(async move { edge.connection(number).await }));
            }
        }
        let mut latencies = Latencies::default();
        for connection in connections {
            latencies.add(connection.await.ok().flatten());
        }
        latencies
    }

    /// Reads the prefix of a client, adds up the others' knowledge of it, and learns something.
    async fn connection(&self, number: u32) -> Option<Duration> {
        let begun = Instant::now();
        let deadline = begun + DEADLINE;
        let read = self.fleet.read(vec![key(number)?], deadline).await;
        self.knowledge.changed().push(number);
        let fields = read.ok()?.pop()?;
        let took = begun.elapsed();
        let now = now();
        let fields = fields
            .iter()
            .map(|field| (field.edge.as_str(), &*field.payload));
        let (known, _) = Contributions::read(fields, now);
        std::hint::black_box(known.remote(&self.name.as_str(), pop(), now, &self.policy));
        Some(took)
    }
}

impl Knowledge {
    fn changed(&self) -> MutexGuard<'_, Vec<u32>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next prefix that this edge knows from the start.
    fn next(&self) -> Option<u32> {
        let filled = self.filled.load(Ordering::Acquire);
        let known_by = self.known_by.load(Ordering::Relaxed);
        loop {
            let number = self.next.load(Ordering::Relaxed);
            if number >= filled {
                return None;
            }
            self.next.store(number + 1, Ordering::Relaxed);
            let place = (self.number + self.edges - number % self.edges) % self.edges;
            if place < known_by {
                return Some(number);
            }
        }
    }
}

impl Host for Knowledge {
    fn changes(&self, max: usize) -> Vec<Change> {
        let change = |number| {
            Some(Change {
                key: key(number)?,
                payload: self.payload.clone(),
            })
        };
        let mut numbers: Vec<u32> = std::iter::from_fn(|| self.next()).take(max).collect();
        let mut changed = self.changed();
        let more = changed.len().min(max - numbers.len());
        numbers.extend(changed.drain(..more));
        numbers.into_iter().filter_map(change).collect()
    }

    /// A store that is begun with has nothing yet.
    fn mark_all(&self) {}

    fn purge(&self, _: Option<&[u8]>) {}
}

/// How long reads took, and how many had no answer.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    answered: Vec<Duration>,
    pub(super) missed: u64,
}

impl Latencies {
    fn add(&mut self, took: Option<Duration>) {
        match took {
            Some(took) => self.answered.push(took),
            None => self.missed += 1,
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.answered.extend(other.answered);
        self.missed += other.missed;
    }

    pub(super) fn connections(&self) -> u64 {
        self.answered.len() as u64 + self.missed
    }

    /// The time within which such a share was answered.
    pub(super) fn quantile(&mut self, share: f64) -> Option<Duration> {
        self.answered.sort_unstable();
        let last = self.answered.len().checked_sub(1)?;
        Some(self.answered[(last as f64 * share) as usize])
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp::from_micros(since.map_or(0, |since| since.as_micros() as u64))
}

fn pop() -> Pop {
    Pop::named("fra1")
}

/// The key of a /24 by its number.
fn key(number: u32) -> Option<Key> {
    Key::path(&format!("{}/24", Ipv4Addr::from_bits(number << 8)))
}

/// A contribution of an edge that has measured a client in a prefix.
fn contribution() -> Result<Vec<u8>> {
    let config = TableConfig {
        max_records: 16,
        hash_key: [1, 2],
        journal: false,
    };
    let model = Model::from_json(include_str!("../../../../models/default.json"))?;
    let mut table = ClientTable::new(config, Arc::new(PolicyConfig::default()), Arc::new(model));
    table.share(pop(), config);
    let client: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
    let sample = TransportSample {
        version: Version::H2,
        congestion: Congestion::Cubic,
        packets_sent: 1000,
        packets_lost: 10,
        min_rtt: Duration::from_millis(38),
        srtt: Duration::from_millis(40),
        delivery_rate: Some(Rate::from_mbps(20)),
        app_limited: false,
    };
    table.observe(client, now(), &Observation::Path(sample));
    let shared = table.drain_shared(1);
    let of = |(prefix, bytes): (Prefix, Box<[u8]>)| prefix.contains(client).then_some(bytes);
    let bytes = shared.into_iter().find_map(of).context("no contribution")?;
    Ok(bytes.into())
}
