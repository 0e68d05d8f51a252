//! The server's words on its clients, every now and then.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use hikyaku_edge::config::AdminConfig;
use http::Method;
use serde_json::Value;

use super::networks::{NETWORKS, clients};
use crate::admin::{Demand, ask_server};

/// The time limit of an answer.
const LIMIT: Duration = Duration::from_secs(5);
/// Clients of a network that are looked at, to find one that is not held back.
const TRIED: u8 = 40;

/// Writes the choice for a client of each network, and the gain of all.
pub(super) fn write(admin: SocketAddr, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out)?;
    for (index, network) in NETWORKS.iter().enumerate() {
        let client = clients(index, TRIED)
            .map_while(|client| look(admin, &client).ok().map(|known| (client, known)))
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
    if let Ok(gain) = ask(admin, "/v1/gain?since=1h")
        && let Some(sentence) = gain["sentence"].as_str()
    {
        writeln!(out, "  {sentence}")?;
    }
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

fn look(admin: SocketAddr, client: &str) -> anyhow::Result<Value> {
    ask(admin, &format!("/v1/clients/{client}"))
}

fn ask(admin: SocketAddr, path: &str) -> anyhow::Result<Value> {
    let mut config = AdminConfig::default();
    config.listen.0 = Some(admin.into());
    let demand = Demand {
        method: Method::GET,
        path,
        body: String::new(),
        limit: LIMIT,
        without: "",
    };
    let answer = ask_server(&config, demand)?;
    serde_json::from_slice(&answer).context("reading the answer")
}
