//! A session of `hikyaku get`, as client and server saw it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::access_log::Line;
use super::error::RunError;
use super::fetch::{Fetched, Request};
use super::measured::Measured;
use super::server::Server;
use crate::experiment::files::SiteFile;
use crate::experiment::record::Outcome;

/// Time that the server may take to log a response, or to notice that it was given up.
const LOG_LIMIT: Duration = Duration::from_secs(10);

/// The coarsest kernel tick (`CONFIG_HZ_100`).
const TICK_US: u64 = 10_000;

/// A session's requests, and the files that it had to fetch.
#[derive(Debug)]
pub(super) struct Get<'a> {
    pub(super) fetched: &'a Fetched,
    /// The last file of the session.
    pub(super) file: &'a SiteFile,
    pub(super) rtt: Duration,
}

impl Get<'_> {
    /// Returns the request for the last file.
    fn last(&self) -> Option<&Request> {
        let mut requests = self.fetched.requests.iter().rev();
        requests.find(|request| request.file() == self.file.name)
    }

    /// Records the client's measurements.
    pub(super) fn measure(&self, measured: &mut Measured) {
        let requests = &self.fetched.requests;
        if let Some(error) = &self.fetched.error {
            measured.fail(Outcome::Failed, error.clone());
        }
        for request in requests {
            if let Some(status) = request.status.filter(|status| *status >= 400) {
                let why = format!("{} has status {status}", request.url);
                measured.fail(Outcome::Failed, why);
            }
            if let Some(error) = &request.error {
                let outcome = match request.timed_out {
                    true => Outcome::TimedOut,
                    false => Outcome::Failed,
                };
                measured.fail(outcome, format!("{}: {}", request.url, error.message));
            }
        }
        let end_us = requests.iter().map(Request::end_us).max();
        let (Some(first), Some(end_us)) = (requests.first(), end_us) else {
            return;
        };
        let load_us = end_us - first.start_us;
        measured.metric("load_ms", load_us as f64 / 1e3);
        let handshake_us = first.connect_us + first.tls_us;
        measured.metric("handshake_ms", handshake_us as f64 / 1e3);
        if let Some(us) = first.first_byte_us {
            measured.metric("first_byte_ms", us as f64 / 1e3);
        }
        let bytes: u64 = requests.iter().map(|request| request.body_bytes).sum();
        measured.metric("goodput_mbps", bytes as f64 * 8.0 / load_us.max(1) as f64);
        let used = requests.iter().filter_map(|request| request.connection);
        let used: BTreeSet<u64> = used.collect();
        measured.metric("connections", used.len() as f64);
        measured.label("http_first", first.http.as_deref().unwrap_or("none"));
        if let Some(alt_svc) = &first.alt_svc {
            measured.label("alt_svc", alt_svc);
        }
        if let Some(last) = self.last() {
            measured.label("http", last.http.as_deref().unwrap_or("none"));
        }
    }

    /// Returns the line of the server's access log for the last file, if one exists.
    pub(super) fn server_line(&self, server: &mut Server) -> Result<Option<Line>, RunError> {
        let last = self
            .last()
            .and_then(|request| Some((request.local?, request)));
        let (Some(log), Some((local, request))) = (&mut server.log, last) else {
            return Ok(None);
        };
        log.wait_for(local.port(), &format!("/{}", request.file()), LOG_LIMIT)
    }

    /// Records the server's measurements, and the response's time by the model's definition.
    pub(super) fn measure_server(&self, line: Option<&Line>, measured: &mut Measured) {
        let Some(last) = self.last() else {
            return;
        };
        let size = self.file.bytes;
        measured.metric("size_bytes", size as f64);
        if let Some(line) = line {
            if line.min_rtt_us > 0 {
                measured.metric("server_min_rtt_ms", line.min_rtt_us as f64 / 1e3);
            }
            measured.metric("server_packets_sent", line.packets_sent as f64);
            measured.metric("server_packets_lost", line.packets_lost as f64);
            for (name, value) in [
                ("congestion", &line.congestion),
                ("session_decision", &line.decision),
                ("session_reason", &line.reason),
            ] {
                if let Some(value) = value {
                    measured.label(name, value);
                }
            }
            if let Some(bps) = line.delivery_rate_bps {
                measured.metric("server_rate_mbps", bps as f64 / 1e6);
                let flag = f64::from(u8::from(line.app_limited));
                measured.metric("server_app_limited", flag);
            }
        }
        let response_us = if last.timed_out {
            measured.label("censored", "true");
            extrapolate(last, self.fetched, size)
        } else if last.error.is_none() {
            let acknowledged = line
                .filter(|line| line.complete)
                .map(|line| line.duration_us);
            let rtt_us = self.rtt.as_micros() as u64;
            Some(response_us(acknowledged, last.since_request_us(), rtt_us) as f64)
        } else {
            None
        };
        if let Some(us) = response_us {
            measured.metric("response_ms", us / 1e3);
        }
    }
}

/// Returns the load time in µs of a complete download.
///
/// Client and server see the same interval half a round trip apart. The client's time is exact, but
/// includes the retransmission of a lost request, which the server cannot see. The server's time
/// ends at the kernel's time of the last acknowledgement, which is up to a tick early on TCP. So
/// the result is the client's time, bounded by the server's. A server's time shorter than the round
/// trip bounds nothing.
fn response_us(server_us: Option<u64>, client_us: u64, rtt_us: u64) -> u64 {
    match server_us {
        Some(server_us) if server_us + TICK_US >= rtt_us => {
            client_us.clamp(server_us, server_us + TICK_US)
        }
        _ => client_us,
    }
}

/// Returns the load time in µs of a download that was given up, extrapolated at the rate of its
/// second half. If that brought nothing, it uses the rate of the whole.
fn extrapolate(request: &Request, fetched: &Fetched, size: u64) -> Option<f64> {
    let so_far = request.since_request_us() as f64 / 1e6;
    let body = request.body_bytes as f64;
    if body == 0.0 || so_far == 0.0 {
        return None;
    }
    // Share of body bytes among all that the link delivered.
    let body_share = body / fetched.client.progress.total().max(1) as f64;
    let late = fetched.client.progress.late_rate();
    let rate = late.map_or(body / so_far, |rate| rate * body_share);
    let left = size.saturating_sub(request.body_bytes) as f64;
    Some((so_far + left / rate) * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_time_is_the_clients_as_far_as_the_servers_allows() {
        let cases = [
            // name, server µs, client µs, RTT µs, load µs
            ("they agree", Some(100_300), 101_000, 50_000, 101_000),
            ("a tick early", Some(97_000), 101_000, 50_000, 101_000),
            (
                "the request was lost",
                Some(52_000),
                252_000,
                50_000,
                62_000,
            ),
            ("the client is ahead", Some(54_000), 52_000, 50_000, 54_000),
            ("faster than light", Some(0), 101_000, 50_000, 101_000),
            ("no line in the log", None, 101_000, 50_000, 101_000),
            ("less than a tick", Some(0), 1_700, 1_000, 1_700),
        ];
        for (name, server_us, client_us, rtt_us, want) in cases {
            assert_eq!(response_us(server_us, client_us, rtt_us), want, "{name}");
        }
    }
}
