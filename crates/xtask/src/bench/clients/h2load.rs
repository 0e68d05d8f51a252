//! h2load: many requests at once, over HTTP/1.1 and HTTP/2. Debian's build has no HTTP/3.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::process;
use super::super::rows::Http;
use super::{CIPHER, Outcome, Scene};

/// Sends `count` requests for a file of `size` bytes over `connections` with `streams` each.
pub(super) fn run(
    scene: Scene<'_>,
    http: Http,
    url: &str,
    (count, size): (u64, u64),
    (connections, streams): (u32, u32),
) -> Result<Outcome> {
    let command = command(http, url, count, (connections, streams));
    let directory = scene.workspace.path();
    let said = process::output(command, scene.cpus.client, directory, scene.stop)?;
    Ok(Outcome {
        requests: count,
        body_bytes: count * size,
        connections: connections.into(),
        elapsed: parse(&said, count)?,
        ..Outcome::EMPTY
    })
}

fn command(http: Http, url: &str, count: u64, (connections, streams): (u32, u32)) -> Command {
    let mut command = Command::new("h2load");
    command.args([
        "-t",
        "1",
        "-n",
        &count.to_string(),
        "--tls13-ciphers",
        CIPHER,
    ]);
    command.args(["-c", &connections.to_string(), "-m", &streams.to_string()]);
    // A file of 100 KiB needs larger windows than 64 KiB: 16 MiB.
    command.args(["-w", "24", "-W", "24"]);
    command.arg(match http {
        Http::H1 => "--h1",
        Http::H2 | Http::H3 => "--npn-list=h2",
    });
    command.arg(url);
    command
}

fn parse(said: &str, count: u64) -> Result<Duration> {
    let line = |start: &str| {
        let found = said.lines().find_map(|line| line.strip_prefix(start));
        found.with_context(|| format!("h2load did not report `{start}`"))
    };
    let succeeded = format!(" {count} succeeded, 0 failed, 0 errored, 0 timeout");
    let requests = line("requests:")?;
    ensure!(
        requests.contains(&succeeded),
        "h2load reported `requests:{requests}`"
    );
    // Requests with other HTTP statuses count as succeeded in the line before.
    let statuses = line("status codes:")?;
    let all_fine = format!("{count} 2xx,");
    ensure!(
        statuses.trim().starts_with(&all_fine),
        "h2load reported `{statuses}`"
    );
    let cipher = line("Cipher: ")?;
    ensure!(cipher == CIPHER, "the server chose {cipher}");
    let elapsed = line("finished in ")?.split(',').next().unwrap_or_default();
    let seconds = match elapsed {
        _ if elapsed.ends_with("ms") => elapsed.trim_end_matches("ms").parse::<f64>()? / 1e3,
        _ if elapsed.ends_with("us") => elapsed.trim_end_matches("us").parse::<f64>()? / 1e6,
        _ => elapsed.trim_end_matches('s').parse()?,
    };
    Ok(Duration::try_from_secs_f64(seconds)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
starting benchmark...
TLS Protocol: TLSv1.3
Cipher: TLS_AES_256_GCM_SHA384
Application protocol: h2

finished in 203.45ms, 49152.12 req/s, 52.12MB/s
requests: 10000 total, 10000 started, 10000 done, 10000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 10000 2xx, 0 3xx, 0 4xx, 0 5xx
";

    #[test]
    fn reports() {
        let seconds = REPORT.replace("203.45ms", "2.04s");
        let missing = REPORT.replace("10000 2xx, 0 3xx, 0 4xx", "0 2xx, 0 3xx, 10000 4xx");
        let weaker = REPORT.replace("AES_256", "AES_128");
        let cases: &[(&str, &str, u64, Option<u64>)] = &[
            ("milliseconds", REPORT, 10_000, Some(203_450)),
            ("seconds", &seconds, 10_000, Some(2_040_000)),
            ("too few", REPORT, 10_001, None),
            ("not found", &missing, 10_000, None),
            ("another cipher", &weaker, 10_000, None),
            ("nothing", "", 10_000, None),
        ];
        for (name, said, count, want) in cases {
            let got = parse(said, *count);
            let want = want.map(Duration::from_micros);
            assert_eq!(got.ok(), want, "{name}");
        }
    }
}
