//! curl: downloads one after the other on one connection.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::super::process;
use super::super::rows::{File, Http};
use super::super::server::Server;
use super::{CIPHER, Outcome, Scene};

pub(super) fn run(
    scene: Scene<'_>,
    http: Http,
    server: &Server,
    file: File,
    count: u64,
) -> Result<Outcome> {
    let command = command(
        http,
        &server.url(file),
        &scene.workspace.certificate(),
        count,
    );
    let directory = scene.workspace.path();
    let said = process::output(command, scene.cpus.client, directory, scene.stop)?;
    parse(&said, http, file, count)
}

fn command(http: Http, url: &str, certificate: &Path, count: u64) -> Command {
    let version = format!("--http{}", http.number());
    let report = "%{http_version} %{http_code} %{size_download} %{num_connects} %{time_total}\\n";
    let mut command = Command::new("curl");
    command.args(["-sS", &version, "--cacert"]).arg(certificate);
    command.args(["--tls13-ciphers", CIPHER, "-w", report]);
    for _ in 0..count {
        command.args(["-o", "/dev/null", url]);
    }
    command
}

fn parse(said: &str, http: Http, file: File, count: u64) -> Result<Outcome> {
    let (mut connections, mut seconds, mut downloads) = (0, 0.0, 0);
    for line in said.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [version, "200", size, connects, time] = fields[..] else {
            bail!("curl reported `{line}`");
        };
        ensure!(
            version == http.number() && size == file.size().to_string(),
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
    Ok(Outcome {
        requests: count,
        body_bytes: count * file.size(),
        connections,
        elapsed: Duration::try_from_secs_f64(seconds)?,
        ..Outcome::EMPTY
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports() {
        let file = File::Large { quick: false };
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
            let got = parse(said, Http::H2, file, 2).map(|outcome| outcome.elapsed);
            assert_eq!(got.ok(), want.map(Duration::from_millis), "{name}");
        }
    }
}
