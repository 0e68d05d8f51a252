//! One report of the gain for all edges.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hikyaku_testkit::store::Store;
use hikyaku_testkit::{eventually, this_test};
use serde_json::Value;

use super::{Edge, section};

#[test]
fn each_edge_reports_on_the_clients_of_all() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys");
    fs::write(&keys, "01".repeat(32)).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    let start = |name| {
        let fleet = section(name, &store.url());
        Edge::with(&format!("{fleet}key_file = {keys:?}\n"))
    };
    let edges = ["a", "b"].map(start);
    // 127.0.0.3 comes to both edges.
    for (edge, clients) in edges
        .iter()
        .zip([["127.0.0.2", "127.0.0.3"], ["127.0.0.3", "127.0.0.4"]])
    {
        for client in clients {
            edge.serve(client);
        }
    }
    for edge in &edges {
        let report = eventually("a report of both edges", || {
            let report = edge.server.admin_json("/v1/gain");
            (sum(&report, "responses") == 4 && report["edges"] == 2).then_some(report)
        });
        assert_eq!(sum(&report, "clients"), 3, "{report:#}");
        edge.says("2 days of edges, for the gain");
    }
}

fn sum(report: &Value, field: &str) -> u64 {
    let of = |assignment| report[field][assignment].as_u64().unwrap();
    of("hikyaku") + of("hold_back")
}
