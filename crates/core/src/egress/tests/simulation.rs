//! Whole days of ISPs whose routes differ, under a virtual clock. Nobody is worse off than on plain,
//! and where a route is clearly better most sessions get it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::{
    Criterion, Group, Mptcp, Phase, PolicyConfig, Route, RouteObservation, Session, Wants, World,
    decide_route, mptcp_share,
};
use hikyaku_units::Timestamp;
use hikyaku_units::mix::draw;

const START: u64 = 1_800_000_000;
const SEED: u64 = 12;
/// Clients in a prefix.
const HOSTS: u32 = 5;
/// An ISP's routes: goodput as a multiple of the rate of a client's access line.
struct Isp {
    name: &'static str,
    prefixes: u32,
    sessions_per_hour: u32,
    /// Over plain's egress route, the other, the third, and all together; at an hour, for a prefix.
    speed: fn(u64, u32) -> [f64; 4],
    /// The share of it that remains after a response's first second.
    later: [f64; 4],
    /// Mean goodput, and mean time of a response, as a multiple of plain's, at least; of short and of long
    /// responses alike.
    least: f64,
    /// Times that a client is given another route in a phase, at most, in some 80 responses per session
    /// of an hour. Such changes happen between equals by chance, and where the choice depends on
    /// whether the connection has MPTCP.
    switches: u32,
    /// Share of the responses after six hours that get the best route, at least.
    best: f64,
    /// Most of its sessions that may explore, as a share.
    explored: f64,
}

/// How long responses took.
#[derive(Debug, Default)]
struct Took {
    responses: u32,
    /// Sum of goodputs by plain's.
    goodput: f64,
    /// Sum of durations by plain's.
    time: f64,
}

impl Took {
    /// The lesser of the mean goodput and the mean speed, by plain's.
    fn gain(&self) -> f64 {
        let responses = f64::from(self.responses);
        (self.goodput / responses).min(responses / self.time)
    }
}

/// The figures of a day.
#[derive(Debug, Default)]
struct Day {
    /// Of responses by [`Phase`].
    took: [Took; 2],
    sessions: u32,
    explored: u32,
    normal: u32,
    best: u32,
    switches: u32,
}

/// Numbers that look random, the same in every run.
struct Dice {
    isp: u64,
    drawn: u64,
}

impl Dice {
    fn uniform(&mut self) -> f64 {
        self.drawn += 1;
        draw([SEED, self.isp, self.drawn, 99])
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn place(route: Route) -> usize {
    match route {
        Route::Plain => 0,
        Route::Steered(egress) => egress.index(),
        Route::Aggregated => 3,
    }
}

/// The clients' MPTCP.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Clients {
    /// All have it, and none is refused.
    Taken,
    /// All have it, and it is taken of those that get several egress routes, and as far as it explores them.
    TakenWhereItPays,
}

impl Clients {
    fn mptcp(self, share: f64, dice: &mut Dice) -> Mptcp {
        match self {
            Self::Taken => Mptcp::Taken,
            Self::TakenWhereItPays if share == 1.0 => Mptcp::Taken,
            Self::TakenWhereItPays if dice.uniform() < share => Mptcp::Drawn,
            Self::TakenWhereItPays => Mptcp::Refused,
        }
    }
}

/// The parts in which the edge reports a response of some bytes, by the goodput of a route in bit/s,
/// then and later. The first part is its first second, and the rest follows in parts of a second.
fn parts(bytes: u64, goodput: [f64; 2]) -> Vec<RouteObservation> {
    let mut left = bytes as f64 * 8.0;
    let mut parts = Vec::new();
    while left > 0.5 {
        let phase = [Phase::Startup, Phase::Sustained][parts.len().min(1)];
        let sent = left.min(goodput[phase as usize]);
        left -= sent;
        parts.push(RouteObservation {
            bytes: (sent / 8.0).round() as u64,
            duration: Duration::from_secs_f64(sent / goodput[phase as usize]),
            phase,
            rtt: Some(Duration::from_millis(30)),
            packets_sent: 1000,
            ..RouteObservation::default()
        });
    }
    parts
}

fn duration(parts: &[RouteObservation]) -> f64 {
    parts.iter().map(|part| part.duration.as_secs_f64()).sum()
}

fn day(number: u32, isp: &Isp, clients: Clients) -> Day {
    let World {
        mut table,
        policy,
        mut candidates,
        ..
    } = World::sized(PolicyConfig::default(), 100_000);
    let mut dice = Dice {
        isp: number.into(),
        drawn: 0,
    };
    let mut day = Day::default();
    let mut last = BTreeMap::new();
    for session in 0..24 * isp.sessions_per_hour {
        let at = u64::from(session) * 3600 / u64::from(isp.sessions_per_hour);
        let hour = at / 3600;
        let prefix = (dice.uniform() * f64::from(isp.prefixes)) as u32;
        let host = (dice.uniform() * f64::from(HOSTS)) as u32;
        let client = Ipv4Addr::from_bits(0x0a00_0000 | prefix << 8 | host);
        // Access lines from 5 to 200 Mbit/s, that others in the household use, too.
        let line = 5e6 * 40f64.powf(draw([SEED, number.into(), client.to_bits().into(), 98]));
        let line = line * (0.3 * dice.normal()).exp();
        let session = Session((START + at) as u32 ^ session);
        let asn = Some(64_500 + number);
        let mut now = Timestamp::from_secs(START + at);
        let speed = (isp.speed)(hour, prefix);
        let most = speed.iter().copied().fold(0.0, f64::max);
        let view = table.view(client.into(), asn, now);
        candidates.mptcp = Mptcp::Taken;
        let mut bytes = (3e5 * 100f64.powf(dice.uniform())) as u64;
        let wants = Wants {
            criterion: Criterion::Goodput,
            phase: view.phase_of(bytes),
        };
        let share = mptcp_share(&view, wants, &candidates, &policy, Some(SEED));
        candidates.mptcp = clients.mptcp(share, &mut dice);
        let mut explored = false;
        for _ in 0..1 + (dice.uniform() * 6.0) as u32 {
            let view = table.view(client.into(), asn, now);
            let wants = Wants {
                criterion: Criterion::Goodput,
                phase: view.phase_of(bytes),
            };
            let decision = decide_route(&view, wants, &candidates, &policy, session.into(), SEED);
            table.decided(client.into(), wants, &decision);
            let later: [f64; 4] = std::array::from_fn(|place| speed[place] * isp.later[place]);
            let place = place(decision.route);
            let (used, most) = match wants.phase {
                Phase::Startup => (speed[place], most),
                Phase::Sustained => (later[place], later.iter().copied().fold(0.0, f64::max)),
            };
            if decision.group == Group::Explore {
                explored = true;
            } else if decision.group != Group::HoldBack {
                let last = last
                    .entry((client, wants.phase as usize))
                    .or_insert(Route::Plain);
                day.switches +=
                    u32::from(std::mem::replace(last, decision.route) != decision.route);
                day.normal += u32::from(hour >= 6);
                day.best += u32::from(hour >= 6 && used >= 0.95 * most);
            }
            let carrier = decision.route.carrier(candidates.plain_is);
            let luck = line * (0.25 * dice.normal()).exp();
            let by = |place: usize| parts(bytes, [luck * speed[place], luck * later[place]]);
            let seen = by(place);
            for part in &seen {
                now = now.saturating_add(part.duration);
                table.learn(client.into(), asn, carrier, part, now);
            }
            let gain = duration(&by(0)) / duration(&seen);
            bytes = (3e5 * 100f64.powf(dice.uniform())) as u64;
            let took = &mut day.took[wants.phase as usize];
            took.responses += 1;
            took.goodput += gain;
            took.time += gain.recip();
        }
        day.sessions += 1;
        day.explored += u32::from(explored);
    }
    day
}

/// An ISP whose values most rows share.
const USUAL: Isp = Isp {
    name: "",
    prefixes: 40,
    sessions_per_hour: 200,
    speed: |_, _| [1.0; 4],
    later: [1.0; 4],
    switches: 0,
    least: 0.98,
    best: 0.9,
    explored: 0.03,
};

const ISPS: &[Isp] = &[
    Isp {
        name: "all alike, and several harm by 8 %",
        speed: |_, _| [1.0, 1.0, 1.0, 0.92],
        switches: 250,
        ..USUAL
    },
    Isp {
        name: "plain is the best, several harm by 8 %",
        speed: |_, _| [1.0, 0.9, 0.8, 0.92],
        switches: 100,
        ..USUAL
    },
    Isp {
        name: "another is twice as fast",
        speed: |_, _| [1.0, 2.0, 0.7, 1.5],
        switches: 800,
        least: 1.5,
        best: 0.8,
        ..USUAL
    },
    Isp {
        name: "several are twice as fast",
        speed: |_, _| [1.0, 1.0, 1.0, 2.0],
        switches: 800,
        least: 1.5,
        best: 0.8,
        ..USUAL
    },
    Isp {
        name: "others are next to dead",
        speed: |_, _| [1.0, 0.1, 0.05, 0.4],
        switches: 50,
        ..USUAL
    },
    Isp {
        name: "all are slow in the evening",
        // Clients look whether the others have fallen, too.
        explored: 0.04,
        speed: |hour, _| [1.0, 0.9, 0.8, 0.92].map(|s| if hour % 24 >= 18 { 0.4 * s } else { s }),
        switches: 300,
        ..USUAL
    },
    Isp {
        name: "plain's path is slow in the evening",
        speed: |hour, _| [if hour % 24 >= 18 { 0.4 } else { 1.0 }, 0.9, 0.5, 0.8],
        switches: 600,
        best: 0.5,
        ..USUAL
    },
    Isp {
        name: "prefixes differ",
        prefixes: 20,
        sessions_per_hour: 600,
        speed: |_, prefix| {
            if prefix % 2 == 0 {
                [1.0, 2.0, 1.0, 1.0]
            } else {
                [1.0, 0.5, 1.0, 1.0]
            }
        },
        switches: 600,
        best: 0.5,
        ..USUAL
    },
    Isp {
        name: "another is faster at first, and slower later",
        speed: |_, _| [1.0, 1.3, 0.9, 0.95],
        later: [1.0, 0.6, 1.0, 1.0],
        switches: 500,
        best: 0.2,
        ..USUAL
    },
    Isp {
        name: "another is slower at first, and faster later",
        speed: |_, _| [1.0, 0.8, 0.9, 0.95],
        later: [1.0, 2.0, 1.0, 1.0],
        switches: 400,
        best: 0.5,
        ..USUAL
    },
    Isp {
        name: "several harm at first, and gain later",
        speed: |_, _| [1.0, 1.0, 0.9, 0.8],
        later: [1.0, 1.0, 1.0, 2.0],
        switches: 1500,
        best: 0.5,
        ..USUAL
    },
    Isp {
        name: "few sessions",
        prefixes: 200,
        sessions_per_hour: 20,
        speed: |_, _| [1.0, 2.0, 0.5, 0.92],
        switches: 800,
        best: 0.0,
        ..USUAL
    },
];

#[test]
#[allow(
    clippy::print_stderr,
    reason = "the table of docs/decisions.md, with `--nocapture`"
)]
fn nobody_is_worse_off_than_on_plain() {
    let clients = [Clients::Taken, Clients::TakenWhereItPays];
    let days = clients.iter().flat_map(|clients| {
        let isps = (0..).zip(ISPS);
        isps.map(move |(number, isp)| (isp, clients, day(number, isp, *clients)))
    });
    let mut wrong = Vec::new();
    for (isp, clients, day) in days {
        let [short, long] = [0, 1].map(|phase| day.took[phase].gain());
        let best = f64::from(day.best) / f64::from(day.normal);
        let explored = f64::from(day.explored) / f64::from(day.sessions);
        let line = format!(
            "{}, {clients:?}: short {short:.3}, long {long:.3}, best {best:.3}, explored {explored:.4}, switches {}",
            isp.name, day.switches
        );
        eprintln!("{line}");
        if short.min(long) < isp.least
            || best < isp.best
            || explored > isp.explored
            || day.switches > isp.switches
        {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
