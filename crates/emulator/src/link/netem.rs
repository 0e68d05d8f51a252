//! The netem back end: the kernel's own netem and tbf instead of the pump.
//!
//! netem on a sender's own egress does not behave like a link. The sender's stack sees the queue,
//! and counts dropped packets as sent and queues them again. So the qdiscs are in a namespace of
//! their own between the two ends:
//!
//! ```text
//! end a ── a0 ▷ up0 ══ down0 ▷ b0 ── end b      ▷  redirected on ingress
//!               tbf           netem             up;  down is the mirror image
//! ```
//!
//! Each direction passes a queue with a rate (tbf) and then delay and loss (netem), the order of
//! [`hikyaku_netsim::Link`]. Segmentation offload is off, since only then each packet counts by
//! itself.

mod commands;
mod stats;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::error::LinkError;
use super::lateness::Lateness;
use super::netns::Netns;
use super::owner::Claim;
use super::pump::LinkPair;
use super::report::{DirectionState, Report, Sample};
use super::steal::CpuTime;

/// The emulator of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The pump between two TUN interfaces. It has every property, on every kernel.
    #[default]
    Tun,
    /// The kernel's netem and tbf: rate, delay, loss and queue. It has no jitter, reordering,
    /// marks, traces, policies, changes, samples and packet log.
    Netem,
}

impl Backend {
    /// Whether the kernel supports the back end, found by a trial.
    ///
    /// # Errors
    /// Without privileges or iproute2.
    pub fn is_available(self) -> Result<bool, LinkError> {
        if self == Self::Tun {
            return Ok(true);
        }
        let scratch = Netns::create("probe")?;
        Ok(tc(&scratch, "qdisc add dev lo root netem delay 1ms").is_ok())
    }
}

/// A link of veth pairs and qdiscs.
#[derive(Debug)]
pub(super) struct NetemLink {
    middle: Netns,
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    started: Instant,
    cpu: CpuTime,
}

impl NetemLink {
    /// Makes the interfaces of the ends by namespace and name, and a namespace between them. The
    /// interfaces are down and have no addresses.
    pub(super) fn create(
        claim: &Arc<Claim>,
        name: &str,
        ends: [(&Netns, &str); 2],
        mtu: u32,
    ) -> Result<Self, LinkError> {
        // No node has a dot in its name.
        let middle = Netns::create_with(claim, &format!("{name}.link"))?;
        for ((end, interface), peer) in ends.into_iter().zip([commands::A, commands::B]) {
            end.ip(&commands::end(interface, peer, middle.name(), mtu))?;
        }
        middle.ip(&commands::middle(mtu))?;
        Ok(Self { middle, run: None })
    }

    /// Starts the link, empty. A run before it ends. netem has a seed of its own.
    pub(super) fn start(&mut self, links: &LinkPair) -> Result<(), LinkError> {
        self.halt();
        let shape = commands::shape(links).map_err(LinkError::NotForNetem)?;
        for command in shape.iter().chain(&commands::open()) {
            tc(&self.middle, command)?;
        }
        self.run = Some(Run {
            started: Instant::now(),
            cpu: CpuTime::now().map_err(LinkError::StartPump)?,
        });
        Ok(())
    }

    /// Counts of packets from the qdiscs; empty while the link is stopped.
    pub(super) fn state(&self) -> Result<Sample, LinkError> {
        let Some(run) = &self.run else {
            return Ok(Sample::default());
        };
        let [up, down] = self.directions()?;
        Ok(Sample {
            at: run.started.elapsed(),
            up,
            down,
        })
    }

    /// Stops the link and drops the packets on their way. Returns `None` if it was stopped.
    pub(super) fn stop(&mut self) -> Result<Option<Report>, LinkError> {
        let sample = self.state()?;
        let Some(run) = self.run.take() else {
            return Ok(None);
        };
        self.halt();
        let cpu = CpuTime::now().map_err(LinkError::Pump)?;
        Ok(Some(Report {
            up: sample.up.counters,
            down: sample.down.counters,
            samples: Vec::new(),
            lateness: Lateness::default(),
            faults: 0,
            realtime: false,
            cpu: Duration::ZERO,
            steal: run.cpu.steal_until(cpu),
            elapsed: run.started.elapsed(),
        }))
    }

    fn directions(&self) -> Result<[DirectionState; 2], LinkError> {
        let read = |[queue, wire]: [&str; 2]| -> Result<DirectionState, LinkError> {
            let show = |interface| tc(&self.middle, &format!("-s -j qdisc show dev {interface}"));
            stats::direction(&show(queue)?, &show(wire)?).map_err(|problem| LinkError::Tc {
                arguments: "-s -j qdisc show".to_owned(),
                problem,
            })
        };
        Ok([read(commands::UP)?, read(commands::DOWN)?])
    }

    /// Blocks all packets, and empties the queues.
    fn halt(&mut self) {
        self.run = None;
        for command in commands::close() {
            // A qdisc may not exist; any remains make `start` fail.
            let _ = tc(&self.middle, &command);
        }
    }
}

/// Runs `tc` in a namespace and returns its output.
fn tc(netns: &Netns, arguments: &str) -> Result<String, LinkError> {
    let failed = |problem: String| LinkError::Tc {
        arguments: arguments.to_owned(),
        problem,
    };
    let mut command = Command::new("tc");
    command.args(arguments.split_whitespace());
    let output = netns
        .output(&mut command)?
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    Err(failed(lines.join("; ")))
}
