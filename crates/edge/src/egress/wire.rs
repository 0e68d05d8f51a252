//! Messages of the agent, as `docs/egress-api.yaml` describes them. Fields that are not needed are left out,
//! and unknown ones ignored, as that document asks for.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use hikyaku_core::egress::{self, Mode};
use hikyaku_units::Timestamp;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::net::Net;

/// Use that a path may be put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EgressState {
    /// It may be used.
    Up,
    /// Connections on it may go on, and no new ones shall begin.
    Draining,
    /// Packets do not get through.
    Down,
}

impl EgressState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Down => "down",
        }
    }
}

/// A way out of the AS.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Path {
    pub(crate) name: String,
    pub(crate) state: EgressState,
    /// Why it is in this state.
    #[serde(default)]
    pub(crate) reason: String,
    /// `SO_MARK` of packets that shall take it; 0 for none.
    #[serde(default)]
    pub(crate) mark: u32,
    /// EPE addresses, at most one of each family.
    #[serde(default)]
    pub(crate) addresses: Vec<IpAddr>,
    /// To be used only where there is no other.
    #[serde(default)]
    pub(crate) backup: bool,
    /// Liveness by probes; `None` without them.
    #[serde(default)]
    pub(crate) probe: Option<Probe>,
    /// Present while somebody drains it at this agent.
    #[serde(default)]
    pub(super) drain: Option<Drain>,
    /// When its state began.
    #[serde(default)]
    pub(super) since: String,
    /// Its drain at another edge of the PoP, which the agent does not know.
    #[serde(skip)]
    pub(super) elsewhere: Option<Arc<Elsewhere>>,
    /// Router ID of its border.
    #[serde(default)]
    border: Option<Ipv4Addr>,
    #[serde(default)]
    port: Option<Port>,
}

/// A drain of a path.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Drain {
    #[serde(default)]
    pub(crate) reason: String,
    /// When it was begun.
    #[serde(default)]
    since: String,
}

impl Drain {
    /// When it was begun.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        timestamp(&self.since)
    }
}

/// A drain at another edge of the PoP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    edge: String,
    since: Option<Timestamp>,
    reason: String,
    /// Edge and reason as a clause.
    standing: String,
}

impl Elsewhere {
    /// A drain at `edge`; `reason` is empty without one.
    pub(crate) fn new(edge: &str, since: Option<Timestamp>, reason: &str) -> Self {
        let standing = match reason {
            "" => format!("drained at {edge}"),
            reason => format!("drained at {edge}: {reason}"),
        };
        Self {
            edge: edge.to_owned(),
            since,
            reason: reason.to_owned(),
            standing,
        }
    }

    /// Edge and reason as a clause.
    pub(crate) fn standing(&self) -> &str {
        &self.standing
    }
}

/// A time of the agent's, in the form of RFC 3339.
fn timestamp(text: &str) -> Option<Timestamp> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let micros = time.unix_timestamp_nanos() / 1000;
    u64::try_from(micros).ok().map(Timestamp::from_micros)
}

impl Path {
    /// Its use, and the reason: those of the agent, unless it is drained at another edge.
    pub(crate) fn standing(&self) -> (EgressState, &str) {
        match (self.state, &self.elsewhere) {
            (EgressState::Up, Some(drain)) => (EgressState::Draining, drain.standing()),
            (state, _) => (state, &self.reason),
        }
    }

    /// The drain that keeps new connections off it; `None` without one.
    pub(super) fn drained(&self, now: Timestamp) -> Option<egress::EgressDrain> {
        let (at, since, reason) = match (self.state, &self.elsewhere, &self.drain) {
            (EgressState::Up, Some(drain), _) => {
                let at = egress::DrainedAt::Edge(drain.edge.clone());
                (at, drain.since, &drain.reason)
            }
            (EgressState::Draining, _, Some(drain)) => {
                (egress::DrainedAt::Here, drain.since(), &drain.reason)
            }
            (EgressState::Draining, _, None) => {
                let since = timestamp(&self.since);
                (egress::DrainedAt::Border, since, &self.reason)
            }
            _ => return None,
        };
        Some(egress::EgressDrain {
            at,
            age: since.map(|since| now.since(since)),
            reason: reason.clone(),
        })
    }

    /// Whether probes show that its packets are lost, whatever BGP says.
    pub(crate) fn is_dead(&self) -> bool {
        self.state == EgressState::Down
            && self
                .probe
                .as_ref()
                .is_some_and(|probe| probe.state == "down")
    }

    /// The port by which it leaves the AS, where its border reports one.
    pub(crate) fn port(&self) -> Option<egress::Port> {
        let port = self.port.as_ref()?;
        Some(egress::Port {
            border: self.border?,
            number: port.number,
            price: port.price,
            admitted: port.admitted.into(),
            billed: port.billed.into(),
            spare: port.spare,
        })
    }
}

/// A port with its room and its price.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Port {
    number: u8,
    price: f64,
    admitted: PortShares,
    billed: PortShares,
    spare: f64,
}

/// Shares of clients by what content wants.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct PortShares {
    goodput: f64,
    stall: f64,
    rtt: f64,
}

impl From<PortShares> for egress::PortShares {
    fn from(shares: PortShares) -> Self {
        let PortShares {
            goodput,
            stall,
            rtt,
        } = shares;
        Self {
            goodput,
            stall,
            rtt,
        }
    }
}

/// Liveness of a path by probes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Probe {
    /// `up`, `down` or `unknown`.
    state: String,
}

/// An operator's rule for some clients. Answers to lookups say which rule holds for a client; the fields
/// here serve until there is an answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Policy {
    /// Clients in any of these prefixes, or of these ASes; all, where both are empty.
    #[serde(default)]
    pub(crate) clients: Vec<Net>,
    #[serde(default)]
    pub(crate) asns: Vec<u32>,
    pub(crate) mode: Mode,
}

impl Policy {
    pub(crate) const fn is_for_all(&self) -> bool {
        self.clients.is_empty() && self.asns.is_empty()
    }
}

/// Everything that events report.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) ready: bool,
    pub(crate) paths: Vec<Path>,
    pub(crate) policies: Vec<Policy>,
}

/// Answers to lookups may have changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct RouteChange {
    /// Of the clients whose answers may have changed; empty: all.
    pub(crate) prefixes: Vec<Net>,
}

/// An event of the agent's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AgentEvent {
    Snapshot(Snapshot),
    Path(Path),
    Routes(RouteChange),
    Ready(bool),
    Policies(Vec<Policy>),
    /// One of no interest here.
    Other,
}

impl AgentEvent {
    /// Reads an event of the stream.
    ///
    /// # Errors
    /// When its data is not what its name promises.
    pub(crate) fn parse(name: &str, data: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Ready {
            ready: bool,
        }
        #[derive(Deserialize)]
        struct Policies {
            policies: Vec<Policy>,
        }
        Ok(match name {
            "snapshot" => Self::Snapshot(serde_json::from_str(data)?),
            "path" => Self::Path(serde_json::from_str(data)?),
            "routes" => Self::Routes(serde_json::from_str(data)?),
            "ready" => Self::Ready(serde_json::from_str::<Ready>(data)?.ready),
            "policies" => Self::Policies(serde_json::from_str::<Policies>(data)?.policies),
            _ => Self::Other,
        })
    }
}

/// Which paths reach a client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Lookup {
    pub(crate) client: Net,
    /// The path that plain packets take.
    #[serde(default)]
    pub(crate) best: Option<String>,
    /// Why that is not known, a clause.
    #[serde(default)]
    pub(crate) best_unknown: Option<Box<str>>,
    pub(crate) paths: Vec<Reach>,
    /// The operator's policies that match, in the order in which they count.
    pub(crate) policies: Vec<Verdict>,
}

/// A policy that matches the clients of a lookup.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Verdict {
    /// The prefixes within the lookup's that it holds for; empty: all of it.
    pub(crate) clients: Vec<Net>,
    /// Classes of content; empty: all.
    pub(crate) classes: Vec<String>,
    pub(crate) mode: Mode,
    /// Those that may be used; empty: all.
    pub(crate) paths: Vec<String>,
    pub(crate) backup: Vec<String>,
}

/// A path's route to a client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Reach {
    pub(crate) name: String,
    /// From the egress peer to the client's AS.
    #[serde(default)]
    pub(crate) as_path: Vec<u32>,
}

/// Clients to look up.
#[derive(Debug, Serialize)]
pub(crate) struct LookupRequest<'a> {
    pub(crate) clients: &'a [Net],
}

/// Answers, in the order of the clients.
#[derive(Debug, Deserialize)]
pub(crate) struct LookupList {
    pub(crate) lookups: Vec<Lookup>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_documented() {
        let path = r#"{"name":"transit-a","number":1,"state":"draining","reason":"x","since":"2026-11-22T09:00:00Z",
            "border":"192.0.2.1","peer":1,"sid":"2001:db8:b1:1::","mark":6815745,
            "addresses":["2001:db8:5::a1","198.51.100.161"],"backup":true,"table":10001,"mtu":1536,
            "port":{"number":3,"kind":"transit","price":0.45,"admitted":{"goodput":0.5,"stall":1,"rtt":1},
                "billed":{"goodput":0,"stall":0.25,"rtt":1},"spare":0.125},
            "routes":{"ipv6":200000,"ipv4":3},"drain":{"reason":"","since":"2026-11-22T09:00:00Z"}}"#;
        let Ok(AgentEvent::Path(read)) = AgentEvent::parse("path", path) else {
            panic!("a path is expected");
        };
        assert_eq!((read.state, read.mark), (EgressState::Draining, 6_815_745));
        let since = Timestamp::from_secs(1_795_338_000);
        assert_eq!(read.drain.as_ref().unwrap().since(), Some(since));
        let drained = read.drained(Timestamp::from_secs(1_795_338_060)).unwrap();
        assert_eq!(drained.to_string(), "drained at this host's agent for 60 s");
        assert_eq!((read.addresses.len(), read.backup), (2, true));
        let port = read.port().unwrap();
        assert_eq!((port.number, port.price, port.spare), (3, 0.45, 0.125));
        assert_eq!((port.admitted.goodput, port.billed.stall), (0.5, 0.25));
        let snapshot = format!(
            r#"{{"ready":true,"paths":[{path}],"sessions":[],"policies":[{{"name":"p","order":-1,
            "clients":["2001:db9::/32"],"classes":[],"mode":"aggregated","paths":[],"backup":[]}}]}}"#
        );
        let Ok(AgentEvent::Snapshot(read)) = AgentEvent::parse("snapshot", &snapshot) else {
            panic!("a snapshot is expected");
        };
        assert_eq!(read.policies[0].mode, Mode::Aggregated);
        let routes = r#"{"path":"transit-a","prefixes":["2001:db9::/32"]}"#;
        let Ok(AgentEvent::Routes(read)) = AgentEvent::parse("routes", routes) else {
            panic!("a change of routes is expected");
        };
        assert!(read.prefixes[0].contains("2001:db9::7".parse().unwrap()));
        let ready = AgentEvent::parse("ready", r#"{"ready":false}"#).unwrap();
        assert_eq!(ready, AgentEvent::Ready(false));
        let later = AgentEvent::parse("weather", "{}").unwrap();
        assert_eq!(later, AgentEvent::Other);
        for (name, data) in [
            ("path", r#"{"name":"a"}"#),
            ("path", r#"{"name":"a","state":"sideways"}"#),
            ("routes", r#"{"path":"a","prefixes":["nowhere"]}"#),
            ("snapshot", "[]"),
        ] {
            assert!(AgentEvent::parse(name, data).is_err(), "{name} {data}");
        }
    }
}
