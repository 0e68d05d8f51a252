//! The clients of the demo: on each network one visits after the other, and each comes again.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use hikyaku_emulator::topology::Network;
use serde::Deserialize;

use super::PORT;
use super::networks::{NETWORKS, clients, subnet};

/// Between two visits on a network.
const PAUSE: Duration = Duration::from_millis(300);

/// The clients of one network.
struct Visitors {
    network: Arc<Network>,
    index: usize,
    program: PathBuf,
    scratch: PathBuf,
    news: Sender<String>,
}

/// A page's load, as `hikyaku get --json` reports it.
#[derive(Debug, Deserialize)]
struct Load {
    total_us: Option<u64>,
    failed: u64,
    /// Responses by version.
    http: HashMap<String, u64>,
}

/// Has all clients visit, until the process ends. Returns the news of them, in lines.
pub(super) fn start(
    network: &Arc<Network>,
    count: u8,
    scratch: &Path,
) -> anyhow::Result<Receiver<String>> {
    let (news, heard) = channel();
    let program = std::env::current_exe().context("finding this program")?;
    for (index, own) in NETWORKS.iter().enumerate() {
        let visitors = Visitors {
            network: Arc::clone(network),
            index,
            program: program.clone(),
            scratch: scratch.to_owned(),
            news: news.clone(),
        };
        thread::Builder::new()
            .name(own.name.to_owned())
            .spawn(move || visitors.run(count))
            .context("starting the clients")?;
    }
    Ok(heard)
}

impl Visitors {
    fn run(&self, count: u8) {
        let mut used: HashMap<String, String> = HashMap::new();
        loop {
            for client in clients(self.index, count) {
                let line = match self.visit(&client) {
                    Ok(load) => self.news_of(&client, &load, &mut used),
                    Err(error) => Some(format!("{client} could not load: {error:#}")),
                };
                if line.is_some_and(|line| self.news.send(line).is_err()) {
                    return;
                }
                thread::sleep(PAUSE);
            }
        }
    }

    /// Loads the page once, as a browser does that has been here before.
    fn visit(&self, client: &str) -> anyhow::Result<Load> {
        let name = NETWORKS[self.index].name;
        let node = self.network.node(name).context("the network's node")?;
        let kept = self.scratch.join(format!("alt-svc-{client}.json"));
        let mut command = Command::new(&self.program);
        command
            .args(["get", "--insecure", "--json", "--page", "--threads", "1"])
            .args(["--alt-svc", "race", "--local", client, "--timeout", "30s"])
            .arg("--alt-svc-cache")
            .arg(kept)
            .arg(format!("https://{}.1:{PORT}/", subnet(self.index)));
        command
            .stderr(self.errors()?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let child = node.spawn(&mut command)?.context("starting a client")?;
        let output = child.wait_with_output().context("waiting for a client")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let run = text.lines().find(|line| line.contains("\"type\":\"run\""));
        let run = run.with_context(|| format!("it ended with {}", output.status))?;
        serde_json::from_str(run).context("reading its report")
    }

    fn errors(&self) -> io::Result<Stdio> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(self.scratch.join("clients.log"))?;
        Ok(file.into())
    }

    /// The line on a visit that differs from the client's last.
    fn news_of(
        &self,
        client: &str,
        load: &Load,
        used: &mut HashMap<String, String>,
    ) -> Option<String> {
        let (version, _) = load.http.iter().max_by_key(|(_, count)| **count)?;
        let before = used.insert(client.to_owned(), version.clone());
        if before.as_ref() == Some(version) {
            return None;
        }
        let time = load.total_us.map_or_else(|| "?".to_owned(), seconds);
        let failed = match load.failed {
            0 => String::new(),
            failed => format!(", {failed} requests failed"),
        };
        let from = before.map_or_else(String::new, |before| format!(", before over HTTP/{before}"));
        let name = NETWORKS[self.index].name;
        Some(format!(
            "{client:<14} {name:<14} loaded the page in {time} over HTTP/{version}{from}{failed}"
        ))
    }
}

fn seconds(us: u64) -> String {
    format!("{:.2} s", us as f64 / 1e6)
}
