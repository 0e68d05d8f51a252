//! From an experiment's arm in a cell to a scenario.

use std::str::FromStr;
use std::time::Duration;

use hikyaku_congestion::{Algorithm, SEND_WINDOW, Settings, Start};
use hikyaku_core::policy::MinCwnd;

use crate::experiment::{
    Arm, Axis, Backend, Cell, Client, Flow as FlowSpec, Http, Kind, Server, Spec, Transport,
};
use crate::sim::{Flow, Scenario};

/// Keys of an arm that only simulation knows.
const PACKETS: &str = "simulation.initial_packets";
const RAPID: &str = "simulation.rapid_start";

const CROWD: &str = "only flows that share a link are simulated, no crowd";
const CONTROL: &str = "routers are programs, which are not simulated";
const FLEET: &str = "a fleet is made of programs, which are not simulated";
const PATHS: &str = "one link is simulated, not the test bed of several paths";

/// Checks whether an arm can be simulated.
pub(super) fn check(spec: &Spec, arm: &Arm) -> Result<(), String> {
    let link = spec.backend == Backend::Link;
    if spec.workload.kind == Kind::Crowd {
        return Err(CROWD.to_owned());
    }
    if spec.workload.kind == Kind::Control {
        return Err(CONTROL.to_owned());
    }
    if spec.workload.kind == Kind::Paths {
        return Err(PATHS.to_owned());
    }
    if spec.workload.kind == Kind::Fleet {
        return Err(FLEET.to_owned());
    }
    if arm.server != Server::Hikyaku || arm.client != Client::Get {
        return Err("other programs cannot be simulated".to_owned());
    }
    // Without links no TCP exists with which `auto` could begin; flows name their transport.
    let quic = arm.http == Http::Http3
        || (arm.http == Http::Auto && (!link || spec.workload.kind == Kind::Flows));
    if !quic {
        return Err("only HTTP/3 can be simulated".to_owned());
    }
    if arm.connections.is_some_and(|n| n != 1)
        || arm.shards > 0
        || spec.axes.contains_key(&Axis::Connections)
    {
        return Err("a session is simulated over one connection".to_owned());
    }
    if !spec.workload.change.is_empty() {
        return Err("links do not change in simulation".to_owned());
    }
    let known = [
        "policy.congestion",
        "policy.min_cwnd",
        "policy.version",
        PACKETS,
        RAPID,
    ];
    if let Some(key) = arm.set.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("simulation knows nothing of `{key}`"));
    }
    if let Some(flow) = arm
        .flows
        .iter()
        .find(|flow| flow.transport == Transport::Tcp)
    {
        return Err(format!(
            "flow `{}` is TCP, which is the kernel's: only QUIC can be simulated",
            flow.name
        ));
    }
    Ok(())
}

/// Returns the scenario of an arm in a cell.
pub(super) fn scenario(spec: &Spec, cell: &Cell, arm: &Arm, seed: u64) -> Result<Scenario, String> {
    check(spec, arm).map_err(|why| format!("arm `{}`: {why}", arm.name))?;
    let [up, down] = spec.links(cell)?.in_session(seed)?;
    let (flows, until) = match spec.workload.kind {
        Kind::Load => (vec![download(spec, cell, arm)?], spec.timeout(cell, arm)),
        Kind::Flows => {
            let until = spec.workload.duration.unwrap_or_default();
            let flows = spec.flows(arm).into_iter();
            let flows = flows.map(|(flow, copy, start)| one(flow, copy, start));
            (flows.collect::<Result<_, _>>()?, until)
        }
        Kind::Crowd => return Err(CROWD.to_owned()),
        Kind::Control => return Err(CONTROL.to_owned()),
        Kind::Paths => return Err(PATHS.to_owned()),
        Kind::Fleet => return Err(FLEET.to_owned()),
    };
    Ok(Scenario {
        up,
        down,
        flows,
        until,
        seed,
    })
}

fn download(spec: &Spec, cell: &Cell, arm: &Arm) -> Result<Flow, String> {
    let setting = |axis, key: &str| cell.get(axis).or(arm.set.get(key).map(String::as_str));
    let congestion = setting(Axis::Congestion, "policy.congestion");
    let floor = setting(Axis::MinCwnd, "policy.min_cwnd");
    Ok(Flow {
        name: arm.name.clone(),
        settings: Settings {
            start: Start {
                packets: parse(arm, PACKETS)?,
                rapid: parse(arm, RAPID)?.unwrap_or(true),
            },
            ..settings(congestion.unwrap_or("cubic"), floor)?
        },
        start: Duration::ZERO,
        sizes: spec.files(cell).iter().map(|file| file.bytes).collect(),
        page: spec.workload.page,
    })
}

fn one(flow: &FlowSpec, copy: u32, start: Duration) -> Result<Flow, String> {
    let name = match flow.count {
        1 => flow.name.clone(),
        _ => format!("{}-{copy}", flow.name),
    };
    Ok(Flow {
        name,
        settings: Settings {
            start: Start {
                packets: flow.initial_packets,
                rapid: flow.rapid_start.unwrap_or(true),
            },
            ..settings(&flow.congestion, flow.min_cwnd.as_deref())?
        },
        start,
        sizes: flow.size.iter().map(|size| size.bytes()).collect(),
        page: false,
    })
}

/// Returns the value of a key that only simulation knows.
fn parse<T: FromStr>(arm: &Arm, key: &str) -> Result<Option<T>, String> {
    let value = arm.set.get(key);
    value
        .map(|text| {
            text.parse()
                .map_err(|_| format!("`{key}` cannot be `{text}`"))
        })
        .transpose()
}

/// Returns the settings as the server does: CUBIC with an adaptive floor is an algorithm of its
/// own, and BBR needs none.
fn settings(congestion: &str, floor: Option<&str>) -> Result<Settings, String> {
    let algorithm = congestion.parse().map_err(|error| format!("{error}"))?;
    let adaptive = floor == Some("adaptive");
    Ok(Settings {
        algorithm: match algorithm {
            Algorithm::Cubic if adaptive => Algorithm::Floor,
            algorithm => algorithm,
        },
        min_cwnd: match floor {
            Some(text) if !adaptive => min_cwnd(text)?,
            _ => None,
        },
        ..Settings::default()
    })
}

fn min_cwnd(text: &str) -> Result<Option<u64>, String> {
    let floor: MinCwnd = text.parse().map_err(|error| format!("{error}"))?;
    match floor.bytes() {
        Some(bytes) if bytes > SEND_WINDOW => Err(format!(
            "a minimum window of {bytes} bytes is more than the {SEND_WINDOW} that a connection \
             may have in flight"
        )),
        bytes => Ok(bytes),
    }
}
