//! The clients: their commands, and what they report of a run.

mod curl;
mod go;
mod h2load;
mod ngtcp2;

use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::process::Stop;
use super::rows::{Client, Load, Row};
use super::server::{Cpus, Server};
use super::workspace::Workspace;

/// The suite that every client and server here has, so that all arms encrypt alike.
const CIPHER: &str = "TLS_AES_256_GCM_SHA384";

/// Time after a run, within which a server ends its own part of connections.
const SETTLE: Duration = Duration::from_millis(50);

/// The result of a run, by its client and the server's clock.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Requests that were answered.
    pub(super) requests: u64,
    pub(super) body_bytes: u64,
    pub(super) connections: u64,
    /// From the first request to the last answer.
    pub(super) elapsed: Duration,
    /// CPU time of the server for it.
    pub(super) server_cpu: Duration,
    /// CPU time of the client, if it reports that.
    pub(super) client_cpu: Option<Duration>,
    pub(super) latency: Option<Latency>,
    /// Bytes that the server's memory grew by, while all connections were open.
    pub(super) memory: Option<u64>,
}

impl Outcome {
    const EMPTY: Self = Self {
        requests: 0,
        body_bytes: 0,
        connections: 0,
        elapsed: Duration::ZERO,
        server_cpu: Duration::ZERO,
        client_cpu: None,
        latency: None,
        memory: None,
    };
}

/// Times of answers, in µs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

/// The surroundings of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) cpus: Cpus,
    pub(super) stop: &'a Stop,
}

/// Sends `count` requests of `row`, or opens as many connections.
///
/// # Errors
/// If any request failed, or used another protocol, cipher or number of connections.
pub(super) fn run(scene: Scene<'_>, row: &Row, server: &Server, count: u64) -> Result<Outcome> {
    let outcome = match row.load {
        Load::Closed {
            client: Client::Curl,
            file,
            ..
        } => counted(scene, server, || {
            curl::run(scene, row.http, server, file, count)
        }),
        Load::Closed {
            client: Client::Ngtcp2,
            file,
            ..
        } => counted(scene, server, || ngtcp2::run(scene, server, file, count)),
        Load::Closed {
            client: Client::H2load,
            file,
            connections,
            streams,
        } => {
            let shape = (connections, streams);
            counted(scene, server, || {
                h2load::run(
                    scene,
                    row.http,
                    &server.url(file),
                    (count, file.size()),
                    shape,
                )
            })
        }
        _ => go::run(scene, row, server, count),
    };
    outcome.with_context(|| format!("measuring {}", row.id))
}

/// The program that sends the requests of `row`.
pub(super) fn program(row: &Row) -> &'static str {
    match row.load {
        Load::Closed { client, .. } => match client {
            Client::Curl => "curl",
            Client::H2load => "h2load",
            Client::Ngtcp2 => ngtcp2::PROGRAM,
            Client::Go => go::PROGRAM,
        },
        _ => go::PROGRAM,
    }
}

/// Adds the server's CPU time, handshakes included, of a client that does not stop in between.
fn counted(
    scene: Scene<'_>,
    server: &Server,
    client: impl FnOnce() -> Result<Outcome>,
) -> Result<Outcome> {
    let before = server.cpu_time()?;
    let outcome = client()?;
    scene.stop.sleep(SETTLE)?;
    Ok(Outcome {
        server_cpu: server.cpu_time()?.saturating_sub(before),
        ..outcome
    })
}
