//! Debian's client of ngtcp2: requests on one connection of HTTP/3.
//!
//! It reports nothing. So its answers are counted on loopback, which only the benchmark uses. As
//! many requests are under way as the server allows.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::super::process;
use super::super::rows::File;
use super::super::server::Server;
use super::{Outcome, Scene};

pub(super) const PROGRAM: &str = "gtlsclient";

pub(super) fn run(scene: Scene<'_>, server: &Server, file: File, count: u64) -> Result<Outcome> {
    let command = command(server.address(), &server.url(file), count);
    let directory = scene.workspace.path();
    let (began, before) = (Instant::now(), received()?);
    process::output(command, scene.cpus.client, directory, scene.stop)?;
    let (elapsed, received) = (began.elapsed(), received()?.saturating_sub(before));
    let body_bytes = count * file.size();
    ensure!(
        received >= body_bytes,
        "{count} answers have {body_bytes} bytes, but loopback carried {received}"
    );
    Ok(Outcome {
        requests: count,
        body_bytes,
        connections: 1,
        elapsed,
        ..Outcome::EMPTY
    })
}

fn command(address: SocketAddr, url: &str, count: u64) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["--quiet", "--no-quic-dump", "--no-http-dump"]);
    // The suite that the other client of HTTP/3 takes.
    command.arg("--ciphers=NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM");
    command.args(["--exit-on-all-streams-close", "-n", &count.to_string()]);
    command.args([&address.ip().to_string(), &address.port().to_string(), url]);
    command
}

/// Bytes that the namespace's loopback has received.
fn received() -> Result<u64> {
    let path = "/proc/self/net/dev";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    parse(&text).with_context(|| format!("finding loopback in {path}"))
}

fn parse(devices: &str) -> Option<u64> {
    let mut lines = devices.lines();
    let counters = lines.find_map(|line| line.trim().strip_prefix("lo:"))?;
    counters.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_among_devices() {
        let devices = "\
Inter-|   Receive                            |  Transmit
 face |bytes    packets errs drop fifo frame |bytes    packets errs drop
    lo: 151158119   21856    0    0    0     0 151158119   21856    0    0
  eth0: 7 1 0 0 0 0 7 1 0 0
";
        assert_eq!(parse(devices), Some(151_158_119));
        assert_eq!(parse("eth0: 7 1"), None);
    }
}
