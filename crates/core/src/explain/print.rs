//! An explanation as aligned text.

use std::fmt;
use std::time::Duration;

use super::{Clear, Explanation, Level, Path, TransportLevel};
use crate::client::estimate::LossBounds;
use crate::page::ConnectionsSummary;
use hikyaku_units::SavedPath;
use hikyaku_units::arm::Transport;
use hikyaku_units::human;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sentence())?;
        writeln!(f)?;
        let decision = &self.decision;
        row(f, "client", &self.address)?;
        row(f, "decision", &decision.reason)?;
        row(f, "TCP", &decision.congestion.tcp.reason)?;
        row(f, "QUIC", &decision.congestion.quic.reason)?;
        row(f, "code", &decision.reason_code)?;
        row(f, "group", &decision.group.name())?;
        match (decision.advertised_for, decision.clear) {
            (Some(ma), _) => row(f, "Alt-Svc", &format_args!("h3 for {}", human::time(ma)))?,
            (None, Clear::All) => row(f, "Alt-Svc", &"clear")?,
            (None, Clear::H3) => row(f, "Alt-Svc", &"none; clear on HTTP/3")?,
            (None, Clear::Nowhere) => row(f, "Alt-Svc", &"none")?,
        }
        self.udp(f)?;
        if self.tcp_is_hidden {
            row(f, "balancer", &HIDDEN)?;
        }
        if let Some(connections) = &self.connections {
            let ConnectionsSummary { n, reason, .. } = connections;
            row(f, "connections", &format_args!("{n}: {reason}"))?;
        }
        for routes in &self.routes {
            write!(f, "{routes}")?;
        }
        for open in &self.open {
            row(f, "open", open)?;
            for subflow in &open.subflows {
                row(f, "", subflow)?;
            }
        }
        for arm in &self.arms {
            let (load, sd) = (
                human::time(arm.load.time),
                human::percent(arm.load.rel_sd.into()),
            );
            let size = human::size(self.path.size);
            row(
                f,
                &arm.arm.to_string(),
                &format_args!("{load} for {size}, ± {sd}"),
            )?;
        }
        self.path.print(f)?;
        for from in &self.from_edges {
            row(f, "shared", from)?;
        }
        if let Some(rate) = self.max_pacing_rate {
            let rate = human::rate(rate);
            let text = format_args!("{rate} on each connection (policy.max_pacing_rate)");
            row(f, "at most", &text)?;
        }
        self.levels(f)
    }
}

impl Explanation {
    fn udp(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.udp.health.clone();
        if let Some(prefix) = self.udp.prefix {
            text += &format!(" in {prefix}");
        }
        if let Some(wait) = self.udp.next_probe_in.filter(|wait| !wait.is_zero()) {
            text += &format!("; next probe in {}", human::time(wait));
        }
        row(f, "UDP", &text)
    }

    /// One column for each level.
    fn levels(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.levels.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        let columns: Vec<_> = self.levels.iter().map(cells).collect();
        let width = |cells: &[String; FACTS.len()]| {
            cells
                .iter()
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        for (line, fact) in FACTS.iter().enumerate() {
            write!(f, "{fact:LABEL$}")?;
            for (position, column) in columns.iter().enumerate() {
                // The last column is not padded: a line has no trailing blanks.
                let last = position + 1 == columns.len();
                let pad = if last { 0 } else { width(column) + 2 };
                write!(f, "{:pad$}", column[line])?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Path {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rtt, rate) = (
            or_dash(self.min_rtt.map(human::time)),
            or_dash(self.rate.map(human::rate)),
        );
        let (tcp, quic) = (or_dash(self.loss_tcp), or_dash(self.loss_quic));
        row(
            f,
            "path",
            &format_args!("RTT {rtt}, {rate}, {:.0} samples", self.samples),
        )?;
        row(f, "loss", &format_args!("{tcp} on TCP, {quic} on QUIC"))?;
        let begins = Transport::ALL.into_iter().filter_map(|transport| {
            let name = match transport {
                Transport::Tcp => "TCP",
                Transport::Quic => "QUIC",
            };
            let known = (*self.known.get(transport))?;
            Some(format!("{} on {name}", begin(known)))
        });
        let begins: Vec<String> = begins.collect();
        if begins.is_empty() {
            return Ok(());
        }
        row(f, "begin with", &begins.join(", "))
    }
}

/// The first window of a connection with a floor, and the BDP that the path has carried.
fn begin(known: SavedPath) -> String {
    let packets = known.initial_window();
    format!("{packets} packets of {}", human::size(known.bdp))
}

const FACTS: [&str; 15] = [
    "known of",
    "last seen",
    "samples",
    "min RTT",
    "smoothed RTT",
    "TCP packets",
    "TCP loss",
    "TCP rate",
    "HTTP/2 took",
    "QUIC packets",
    "QUIC loss",
    "QUIC rate",
    "HTTP/3 took",
    "response",
    "UDP",
];

fn cells(level: &Level) -> [String; FACTS.len()] {
    let ago = |age: Duration| format!("{} ago", human::time(age));
    let [tcp_packets, tcp_loss, tcp_rate, tcp_took] = transport(&level.tcp);
    let [quic_packets, quic_loss, quic_rate, quic_took] = transport(&level.quic);
    [
        match level.carried {
            true => CARRIED.to_owned(),
            false => level.key.to_string(),
        },
        or_dash(level.age.map(ago)),
        format!("{:.0}", level.samples),
        or_dash(level.min_rtt.map(human::time)),
        or_dash(level.srtt.map(human::time)),
        tcp_packets,
        tcp_loss,
        tcp_rate,
        tcp_took,
        quic_packets,
        quic_loss,
        quic_rate,
        quic_took,
        or_dash(level.size.map(human::size)),
        level.udp.clone(),
    ]
}

fn transport(known: &TransportLevel) -> [String; 4] {
    let took = known.outcomes.iter().map(|of| {
        let (congestion, ratio, responses) = (of.congestion, of.ratio, of.responses);
        format!("{congestion} {ratio:.2} x predicted ({responses:.0})")
    });
    let took: Vec<String> = took.collect();
    [
        format!("{:.0}", known.packets),
        or_dash(known.loss),
        or_dash(known.rate.map(human::rate)),
        or_dash((!took.is_empty()).then(|| took.join(", "))),
    ]
}

/// The text for people: `1 % (0.74 % to 1.3 %)`.
impl fmt::Display for LossBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mean, low, high] = [self.mean, self.low, self.high].map(human::loss);
        write!(f, "{mean} ({low} to {high})")
    }
}

fn or_dash(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn row(f: &mut fmt::Formatter<'_>, label: &str, value: &dyn fmt::Display) -> fmt::Result {
    writeln!(f, "{label:LABEL$}{value}")
}

/// The note on a client whose path TCP does not show.
const HIDDEN: &str = "no TCP connection came directly; the path to a balancer is not learnt";

/// The name of a level that came with the client.
const CARRIED: &str = "the client's ticket";

/// Width of the labels.
const LABEL: usize = 14;
