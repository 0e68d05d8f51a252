//! The server's words on its clients, every now and then.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use hikyaku_edge::config::AdminConfig;
use hikyaku_emulator::topology::Network;
use http::Method;
use serde_json::Value;

use super::ADMIN;
use super::networks::{NETWORKS, SERVER, clients};
use crate::admin::{Demand, ask_server};

/// The time limit of an answer.
const LIMIT: Duration = Duration::from_secs(5);
/// Clients of a network that are looked at, to find one that is not held back.
const TRIED: u8 = 40;

/// Writes the choice for a client of each network, and the gain of all.
pub(super) fn write(emulated: &Network, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out)?;
    for (index, network) in NETWORKS.iter().enumerate() {
        let client = clients(index, TRIED)
            .map_while(|client| look(emulated, &client).ok().map(|known| (client, known)))
            .take_while(|(_, known)| {
                known["levels"]
                    .as_array()
                    .is_some_and(|all| !all.is_empty())
            })
            .find(|(_, known)| known["decision"]["group"] != "hold_back");
        if let Some((client, known)) = client {
            let sentence = known["sentence"].as_str().unwrap_or_default();
            writeln!(out, "  {:<14} {client}: {sentence}", network.name)?;
        }
    }
    // A server without a report of its gain goes without this line.
    if let Ok(gain) = ask(emulated, "/v1/gain?since=1h")
        && let Some(sentence) = gain["sentence"].as_str()
    {
        writeln!(out, "  {sentence}")?;
    }
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

fn look(network: &Network, client: &str) -> anyhow::Result<Value> {
    ask(network, &format!("/v1/clients/{client}"))
}

fn ask(network: &Network, path: &str) -> anyhow::Result<Value> {
    let mut config = AdminConfig::default();
    config.listen.0 = Some(ADMIN.into());
    let demand = Demand {
        method: Method::GET,
        path,
        body: String::new(),
        limit: LIMIT,
        without: "",
    };
    let node = network.node(SERVER).context("the server's node")?;
    let answer = node.enter(|| ask_server(&config, demand))??;
    serde_json::from_slice(&answer).context("reading the answer")
}
