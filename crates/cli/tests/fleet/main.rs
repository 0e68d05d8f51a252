//! Servers that share what they learn through a real store.
#![allow(clippy::unwrap_used)]

mod drains;
mod gain;
mod outages;
mod sharing;

use std::path::PathBuf;

use hikyaku_testkit::store::Store;
use hikyaku_testkit::{Server, Site, eventually, get, hikyaku};

/// A member of a fleet, with files to serve.
pub(crate) struct Edge {
    pub(crate) server: Server,
    pub(crate) site: Site,
    config: PathBuf,
}

impl Edge {
    pub(crate) fn start(name: &str, store: &str) -> Self {
        Self::with(&section(name, store))
    }

    /// A server of a configuration file.
    pub(crate) fn with(config: &str) -> Self {
        let site = Site::with_big_file(200_000);
        site.write("edge.toml", config.as_bytes());
        let file = PathBuf::from(site.path()).join("edge.toml");
        let server = Server::start(&[site.path(), "--config", file.to_str().unwrap()]);
        Self {
            server,
            site,
            config: file,
        }
    }

    /// Has the server read another configuration.
    pub(crate) fn reload(&self, config: &str) {
        std::fs::write(&self.config, config).unwrap();
        let admin = self.server.admin.to_string();
        let output = hikyaku(&["reload", "--admin", &admin]);
        assert!(output.status.success(), "{output:?}");
    }

    /// A client downloads something.
    #[track_caller]
    pub(crate) fn serve(&self, client: &str) {
        let records = get(&["--local", client, &self.server.url("/big.bin")]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
    }

    /// The output of `hikyaku fleet`.
    pub(crate) fn fleet(&self) -> String {
        let output = hikyaku(&["fleet", "--admin", &self.server.admin.to_string()]);
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    }

    #[track_caller]
    pub(crate) fn says(&self, what: &str) -> String {
        eventually(&format!("`{what}` of hikyaku fleet"), || {
            let said = self.fleet();
            said.contains(what).then_some(said)
        })
    }

    /// How many other edges' knowledge of the path counts for a client.
    pub(crate) fn edges_of_pop(&self, client: &str) -> Option<u64> {
        let explained = self.server.admin_json(&format!("/v1/clients/{client}"));
        let from = explained["from_edges"].as_array()?;
        let pop = from.iter().find(|from| from["reach"] == "pop")?;
        pop["edges"].as_u64()
    }

    /// Serves a client, which no edge knows, until the knowledge of its prefix has come.
    #[track_caller]
    pub(crate) fn hears(&self, client: &str) {
        eventually("the others' knowledge", || {
            self.serve(client);
            self.edges_of_pop(client)
        });
    }
}

/// The configuration of a member.
pub(crate) fn section(name: &str, store: &str) -> String {
    format!("[fleet]\nstore = \"{store}\"\nname = \"{name}\"\npop = \"here\"\n")
}

/// Waits until a store has a contribution to a prefix.
#[track_caller]
pub(crate) fn has_shared(store: &Store, name: &str, prefix: &str) {
    let key = format!("hikyaku:1:path:{{{prefix}}}");
    eventually(&format!("{key} of {name}"), || {
        (store.run(&["HEXISTS", &key, name]) == "1").then_some(())
    });
}
