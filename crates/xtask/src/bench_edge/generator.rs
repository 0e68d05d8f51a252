//! The load generators, and their reports.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::arm::{Arm, Generator, Http, Load, PARALLEL};
use super::process::{self, Stop};
use super::server::Workspace;

/// The suite that both OpenSSL and rustls prefer, so that all arms encrypt alike.
const CIPHER: &str = "TLS_AES_256_GCM_SHA384";

/// Sends `count` requests to `url` by `arm`, and returns their time.
///
/// # Errors
/// If any of them failed, or used another protocol, cipher or number of connections.
pub(super) fn load(
    workspace: &Workspace,
    arm: Arm,
    url: &str,
    count: u64,
    stop: &Stop,
) -> Result<Duration> {
    let run = |program: &Path, arguments: Vec<String>| {
        let (cpu, directory) = (workspace.client_cpu, workspace.path());
        process::output(program, cpu, directory, &arguments, stop)
    };
    let certificate = workspace.certificate();
    let certificate = certificate.to_string_lossy();
    let elapsed = match arm.generator {
        Generator::Curl => {
            let said = run("curl".as_ref(), curl(arm, url, count, &certificate))?;
            parse_curl(&said, arm, count)
        }
        Generator::H2load => {
            let said = run("h2load".as_ref(), h2load(arm, url, count))?;
            parse_h2load(&said, count)
        }
        Generator::Get => {
            let said = run(&workspace.hikyaku, get(arm, url, count, &certificate))?;
            parse_get(&said, arm, count)
        }
    };
    elapsed.with_context(|| format!("measuring {arm}"))
}

fn curl(arm: Arm, url: &str, count: u64, certificate: &str) -> Vec<String> {
    let version = format!("--http{}", arm.http.number());
    let report = "%{http_version} %{http_code} %{size_download} %{num_connects} %{time_total}\\n";
    let mut arguments: Vec<String> = ["-sS", &version, "--cacert", certificate]
        .into_iter()
        .chain(["--tls13-ciphers", CIPHER, "-w", report])
        .map(str::to_owned)
        .collect();
    for _ in 0..count {
        arguments.extend(["-o", "/dev/null", url].map(str::to_owned));
    }
    arguments
}

fn parse_curl(said: &str, arm: Arm, count: u64) -> Result<Duration> {
    let (mut connections, mut seconds, mut downloads) = (0, 0.0, 0);
    for line in said.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [version, "200", size, connects, time] = fields[..] else {
            anyhow::bail!("curl reported `{line}`");
        };
        ensure!(
            version == arm.http.number() && size == arm.load.size().to_string(),
            "curl got {size} bytes by HTTP/{version}"
        );
        connections += connects.parse::<u64>()?;
        seconds += time.parse::<f64>()?;
        downloads += 1;
    }
    ensure!(
        (downloads, connections) == (count, 1),
        "curl made {downloads} downloads over {connections} connections"
    );
    Ok(Duration::try_from_secs_f64(seconds)?)
}

fn h2load(arm: Arm, url: &str, count: u64) -> Vec<String> {
    let (count, parallel) = (count.to_string(), PARALLEL.to_string());
    let shape = match arm.http {
        Http::H1 => ["--h1", "-c", &parallel, "-m", "1"],
        Http::H2 | Http::H3 => ["--npn-list=h2", "-c", "1", "-m", &parallel],
    };
    ["-t", "1", "-n", &count, "--tls13-ciphers", CIPHER]
        .into_iter()
        .chain(shape)
        .chain([url])
        .map(str::to_owned)
        .collect()
}

fn parse_h2load(said: &str, count: u64) -> Result<Duration> {
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

fn get(arm: Arm, url: &str, count: u64, certificate: &str) -> Vec<String> {
    let parallel = match arm.load {
        Load::Large => 1,
        Load::Small => PARALLEL,
    };
    let (count, parallel) = (count.to_string(), parallel.to_string());
    let arguments = ["get", "--http", arm.http.number(), "--requests", &count];
    arguments
        .into_iter()
        .chain(["--connections", "1", "--parallel", &parallel])
        .chain(["--threads", "1", "--cacert", certificate, "--fail"])
        .chain(["--json", url])
        .map(str::to_owned)
        .collect()
}

/// The client's report (`docs/get.md`), as far as the benchmark needs it.
#[derive(Debug, Deserialize)]
struct LoadReport {
    requests: u64,
    failed: u64,
    body_bytes: u64,
    elapsed_us: u64,
}

fn parse_get(said: &str, arm: Arm, count: u64) -> Result<Duration> {
    let report: LoadReport = serde_json::from_str(said)
        .with_context(|| format!("reading the report of `hikyaku get`: {said}"))?;
    ensure!(
        (report.requests, report.failed) == (count, 0)
            && report.body_bytes == count * arm.load.size(),
        "`hikyaku get` reported {report:?}"
    );
    Ok(Duration::from_micros(report.elapsed_us))
}

#[cfg(test)]
mod tests {
    use super::super::arm::{ServerKind, arm};
    use super::*;

    const H2LOAD: &str = "\
starting benchmark...
TLS Protocol: TLSv1.3
Cipher: TLS_AES_256_GCM_SHA384
Application protocol: h2

finished in 203.45ms, 49152.12 req/s, 52.12MB/s
requests: 10000 total, 10000 started, 10000 done, 10000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 10000 2xx, 0 3xx, 0 4xx, 0 5xx
";

    #[test]
    fn reports_of_h2load() {
        let seconds = H2LOAD.replace("203.45ms", "2.04s");
        let missing = H2LOAD.replace("10000 2xx, 0 3xx, 0 4xx", "0 2xx, 0 3xx, 10000 4xx");
        let weaker = H2LOAD.replace("AES_256", "AES_128");
        let cases: &[(&str, &str, u64, Option<u64>)] = &[
            ("milliseconds", H2LOAD, 10_000, Some(203_450)),
            ("seconds", &seconds, 10_000, Some(2_040_000)),
            ("too few", H2LOAD, 10_001, None),
            ("not found", &missing, 10_000, None),
            ("another cipher", &weaker, 10_000, None),
            ("nothing", "", 10_000, None),
        ];
        for (name, said, count, want) in cases {
            let got = parse_h2load(said, *count);
            let want = want.map(Duration::from_micros);
            assert_eq!(got.ok(), want, "{name}");
        }
    }

    #[test]
    fn reports_of_curl() {
        let arm = arm(ServerKind::Nginx, Http::H2, Load::Large, Generator::Curl);
        let cases: &[(&str, &str, Option<u64>)] = &[
            (
                "two",
                "2 200 268435456 1 0.250000\n2 200 268435456 0 0.200000\n",
                Some(450),
            ),
            (
                "connected twice",
                "2 200 268435456 1 0.25\n2 200 268435456 1 0.2\n",
                None,
            ),
            ("one too few", "2 200 268435456 1 0.25\n", None),
            (
                "another version",
                "1.1 200 268435456 1 0.2\n2 200 268435456 0 0.2\n",
                None,
            ),
            ("short", "2 200 268435456 1 0.25\n2 200 7 0 0.2\n", None),
            (
                "not found",
                "2 200 268435456 1 0.25\n2 404 268435456 0 0.2\n",
                None,
            ),
        ];
        for (name, said, want) in cases {
            let got = parse_curl(said, arm, 2);
            assert_eq!(got.ok(), want.map(Duration::from_millis), "{name}");
        }
    }
}
