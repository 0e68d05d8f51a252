//! Name resolution, and the choice of the first address that connects.

use std::collections::VecDeque;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, iter};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::lookup_host;
use tokio::time::sleep;

use super::error::FetchError;
use super::settings::Settings;

/// Returns a host's addresses in the order of trial, and the time that resolution took.
///
/// The order is the resolver's (RFC 6724) with the families taking turns (RFC 8305 §4).
pub(super) async fn resolve(
    settings: &Settings,
    host: &str,
    port: u16,
) -> Result<(Vec<SocketAddr>, Duration), FetchError> {
    let start = Instant::now();
    let fixed = settings.overrides.addresses(host, port);
    let found = if !fixed.is_empty() {
        fixed
    } else if let Ok(address) = host.parse::<IpAddr>() {
        vec![SocketAddr::new(address, port)]
    } else {
        lookup_host((host, port))
            .await
            .map_err(|source| failed(host, source))?
            .collect()
    };
    let usable = |address: &SocketAddr| {
        settings.family.allows(*address)
            && settings
                .local
                .is_none_or(|local| local.is_ipv4() == address.is_ipv4())
    };
    let addresses = take_turns(found.into_iter().filter(usable).collect());
    if addresses.is_empty() {
        let source = io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            "it has no address of the family asked for",
        );
        return Err(failed(host, source));
    }
    Ok((addresses, start.elapsed()))
}

fn failed(host: &str, source: io::Error) -> FetchError {
    FetchError::Resolve {
        host: host.to_owned(),
        source: Arc::new(source),
    }
}

fn take_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut one, mut other): (VecDeque<_>, VecDeque<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    iter::from_fn(|| {
        std::mem::swap(&mut one, &mut other);
        other.pop_front().or_else(|| one.pop_front())
    })
    .collect()
}

/// Delay before the next attempt. RFC 8305 §8: "Connection Attempt Delay ... recommended ... 250
/// ms".
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connects by Happy Eyeballs (RFC 8305 §5) and returns the first address that connects. The next
/// address is tried once the last one failed or did not answer for [`ATTEMPT_DELAY`]. The error is
/// that of the last attempt to fail.
pub(super) async fn first_to_connect<T, F>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, FetchError>
where
    F: Future<Output = Result<T, FetchError>>,
{
    let mut waiting = VecDeque::from(addresses);
    let mut attempts = FuturesUnordered::new();
    if let Some(address) = waiting.pop_front() {
        attempts.push(connect(address));
    }
    loop {
        let outcome = tokio::select! {
            Some(outcome) = attempts.next() => Some(outcome),
            () = sleep(ATTEMPT_DELAY), if !waiting.is_empty() => None,
        };
        match outcome {
            Some(Ok(connection)) => return Ok(connection),
            Some(Err(error)) if waiting.is_empty() && attempts.is_empty() => return Err(error),
            _ => {
                if let Some(address) = waiting.pop_front() {
                    attempts.push(connect(address));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn families_take_turns() {
        let [v6, w6, v4, w4] = ["[::1]:1", "[::2]:1", "1.1.1.1:1", "2.2.2.2:1"].map(address);
        let cases = [
            (vec![v6, w6, v4, w4], vec![v6, v4, w6, w4]),
            (vec![v4, v6, w6], vec![v4, v6, w6]),
            (vec![v4, w4], vec![v4, w4]),
            (vec![], vec![]),
        ];
        for (given, want) in cases {
            assert_eq!(take_turns(given.clone()), want, "{given:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_address_that_connects_is_taken() {
        // Per address: milliseconds to the answer, and whether it connects.
        type Case = (&'static str, &'static [(u64, bool)], Option<(usize, u64)>);
        let cases: &[Case] = &[
            ("the first", &[(10, true), (0, true)], Some((0, 10))),
            (
                "after a refusal at once",
                &[(5, false), (10, true)],
                Some((1, 15)),
            ),
            (
                "after a silence",
                &[(60_000, true), (10, true)],
                Some((1, 260)),
            ),
            (
                "a slow first beats a slower second",
                &[(300, true), (100, true)],
                Some((0, 300)),
            ),
            ("none", &[(5, false), (7, false)], None),
        ];
        for (name, answers, want) in cases {
            let addresses = (0..answers.len() as u16)
                .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
                .collect();
            let start = Instant::now();
            let got = first_to_connect(addresses, |address| {
                let port = usize::from(address.port());
                let (ms, connects) = answers[port];
                async move {
                    sleep(Duration::from_millis(ms)).await;
                    if connects {
                        Ok(port)
                    } else {
                        Err(FetchError::Status(0))
                    }
                }
            })
            .await;
            let got = got
                .ok()
                .map(|port| (port, start.elapsed().as_millis() as u64));
            assert_eq!(got, *want, "{name}");
        }
    }
}
