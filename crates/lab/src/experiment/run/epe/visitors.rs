//! Clients that load a file over and over, while links decay or ports fill.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_emulator::link::Netns;

use super::super::access_log::Line;
use super::super::error::RunError;
use super::super::fetch;
use super::super::measured::Measured;
use super::super::stop::Stop;
use super::{CLIENT, Side};
use crate::experiment::record::Outcome;
use crate::experiment::spec::Visitors;

/// A visit of a client.
#[derive(Clone, Copy, Debug)]
struct Visit {
    /// Since the first client began.
    began: Duration,
    goodput_mbps: f64,
}

/// Everything that clients have seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// By client, in order.
    visits: BTreeMap<Ipv6Addr, Vec<Visit>>,
    failures: Vec<String>,
    /// CPU time that clients waited for, as a share of their time.
    pub(super) cpu_wait: f64,
    /// A signal to stop came.
    pub(super) stopped: bool,
}

impl Seen {
    /// The number of visits.
    pub(super) fn count(&self) -> usize {
        self.visits.values().map(Vec::len).sum()
    }
}

/// The parts of the network that clients need.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) netns: &'a Netns,
    pub(super) stop: &'a Stop,
    pub(super) log: &'a PathBuf,
    pub(super) timeout: Duration,
}

/// Time between two looks for a signal to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Returns the address of a visitor, each in a /56 of its own: servers take an IPv6 /56 for a client.
/// The topology gives these to the client's node.
pub(super) fn visitor(number: u16) -> Ipv6Addr {
    let [a, b, c, ..] = CLIENT.segments();
    Ipv6Addr::new(a, b, c, 0x8000 | number << 8, 0, 0, 0, 1)
}

/// Has all clients visit, and calls `halfway` in the middle of it.
pub(super) fn visit(
    visitors: &Visitors,
    ground: Ground<'_>,
    command: impl Fn(Ipv6Addr) -> Command + Sync,
    halfway: impl FnOnce(),
) -> Result<Seen, RunError> {
    let began = Instant::now();
    let command = &command;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..visitors.clients)
            .map(|number| {
                let address = visitor(number);
                scope.spawn(move || {
                    // Not all in step.
                    let arrive = visitors.arrive.unwrap_or(visitors.pause);
                    let at = arrive * u32::from(number) / u32::from(visitors.clients);
                    while began.elapsed() < at && !ground.stop.is_set() {
                        thread::sleep(LOOK.min(at.saturating_sub(began.elapsed())));
                    }
                    client(visitors, ground, began, || command(address)).map(|seen| (address, seen))
                })
            })
            .collect();
        thread::sleep(visitors.duration / 2);
        halfway();
        let mut all = Seen::default();
        for client in clients {
            let Ok(ended) = client.join() else {
                unreachable!("clients do not panic");
            };
            let (address, one) = ended?;
            all.failures.extend(one.failures);
            all.stopped |= one.stopped;
            all.cpu_wait = all.cpu_wait.max(one.cpu_wait);
            all.visits.insert(address, one.visits);
        }
        Ok(all)
    })
}

/// The visits of one client.
#[derive(Debug, Default)]
struct One {
    visits: Vec<Visit>,
    failures: Vec<String>,
    cpu_wait: f64,
    stopped: bool,
}

fn client(
    visitors: &Visitors,
    ground: Ground<'_>,
    began: Instant,
    command: impl Fn() -> Command,
) -> Result<One, RunError> {
    let mut one = One::default();
    let (mut waited, mut took) = (Duration::ZERO, Duration::ZERO);
    while began.elapsed() < visitors.duration {
        let at = began.elapsed();
        let watch: fetch::Watch<'_> = (false, &|| 0);
        let limit = ground.timeout * 2 + Duration::from_secs(10);
        let fetched = fetch::fetch(
            ground.netns,
            command(),
            ground.log,
            limit,
            watch,
            ground.stop,
        )?;
        let Some(fetched) = fetched else {
            one.stopped = true;
            return Ok(one);
        };
        waited += fetched.client.waited;
        took += fetched.client.took;
        one.failures.extend(fetched.error.clone());
        for request in &fetched.requests {
            match &request.error {
                Some(error) => one
                    .failures
                    .push(format!("{}: {}", request.url, error.message)),
                None => one.visits.push(Visit {
                    began: at,
                    goodput_mbps: request.body_bytes as f64 * 8.0
                        / request.since_request_us().max(1) as f64,
                }),
            }
        }
        thread::sleep(visitors.pause);
    }
    one.cpu_wait = waited.as_secs_f64() / took.as_secs_f64().max(1e-9);
    Ok(one)
}

/// Records the clients' visits and the server's lines of them. `worse_at` is when the link of transit A
/// becomes slower than the other.
pub(super) fn record(
    seen: &Seen,
    lines: &[Line],
    visitors: &Visitors,
    worse_at: Option<Duration>,
    measured: &mut Measured,
) {
    for why in &seen.failures {
        measured.fail(Outcome::Failed, why.clone());
    }
    let mut goodputs: Vec<f64> = seen
        .visits
        .values()
        .flatten()
        .map(|visit| visit.goodput_mbps)
        .collect();
    goodputs.sort_by(f64::total_cmp);
    let count = goodputs.len() as f64;
    measured.metric("visits", count);
    measured.metric("goodput_mbps", goodputs.iter().sum::<f64>() / count);
    if let Some(low) = goodputs.get(goodputs.len() / 10) {
        measured.metric("tenth_goodput_mbps", *low);
    }
    let sent: u64 = lines.iter().map(|line| line.packets_sent).sum();
    let lost: u64 = lines.iter().map(|line| line.packets_lost).sum();
    measured.metric("loss_share", lost as f64 / sent as f64);
    let srtt = lines.iter().map(|line| line.srtt_us as f64 / 1e3);
    measured.metric("server_srtt_ms", srtt.sum::<f64>() / lines.len() as f64);
    let (mut moves, mut late_moves) = (0, 0);
    for (address, visits) in &seen.visits {
        let routes = steady_routes(*address, lines);
        let late = visits
            .iter()
            .filter(|visit| visit.began >= visitors.duration / 2)
            .count();
        let changes = |routes: &[(usize, &str)]| {
            routes
                .windows(2)
                .filter(|pair| pair[0].1 != pair[1].1)
                .count()
        };
        moves += changes(&routes);
        let from = routes.partition_point(|(place, _)| *place < visits.len() - late);
        late_moves += changes(&routes[from..]);
        if let (Some(worse_at), 1) = (worse_at, visitors.clients) {
            let last = routes.iter().rfind(|(_, route)| is_by_a(route));
            let left = last.and_then(|(place, _)| visits.get(*place + 1));
            let left = left.map_or(visitors.duration, |visit| visit.began);
            measured.metric("left_ms", left.saturating_sub(worse_at).as_secs_f64() * 1e3);
        }
    }
    let clients = f64::from(visitors.clients);
    measured.metric("moves_per_client", moves as f64 / clients);
    measured.metric("late_moves_per_client", late_moves as f64 / clients);
}

/// The routes of a client's visits that are no experiments, with their places among all.
fn steady_routes(client: Ipv6Addr, lines: &[Line]) -> Vec<(usize, &str)> {
    let its = lines
        .iter()
        .filter(|line| line.client == Some(IpAddr::V6(client)));
    let routes = its.enumerate().filter(|(_, line)| {
        let code = line.route_reason.as_deref();
        code.is_some_and(|code| code != "explore")
    });
    routes
        .filter_map(|(place, line)| Some((place, line.route.as_deref()?)))
        .collect()
}

/// Whether packets leave by transit A, which plain takes.
fn is_by_a(route: &str) -> bool {
    route == "plain" || route == Side::A.path()
}
