//! `gobgpd`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::super::error::RunError;
use super::super::super::process::Process;
use super::super::super::programs::GOBGPD;
use super::{Family, Router, place, write};
use hikyaku_emulator::link::Netns;

pub(super) fn start(router: &Router, netns: &Netns, directory: &Path) -> Result<Process, RunError> {
    let directory = place(directory)?;
    let file = directory.join("gobgpd.toml");
    write(&file, &config(router))?;
    let mut command = Command::new(GOBGPD);
    command.arg("-f").arg(&file).stdout(Stdio::null());
    command.args(["--api-hosts", "[::1]:50051", "--pprof-disable", "-p"]);
    Process::start(netns, &mut command, &directory.join("gobgpd.log"))
}

/// Returns the configuration. Graceful restart is on so that each side marks the end of its routes.
fn config(router: &Router) -> String {
    let addresses: Vec<String> = router
        .listen
        .iter()
        .map(|address| format!("\"{address}\""))
        .collect();
    let Router { asn, router_id, .. } = router;
    let mut text = format!(
        "[global.config]\nas = {asn}\nrouter-id = \"{router_id}\"\nport = 179\n\
         local-address-list = [{}]\n",
        addresses.join(", ")
    );
    for neighbour in &router.neighbours {
        let _ = write!(
            text,
            "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{}\"\npeer-as = {}\n\
             [neighbors.transport.config]\npassive-mode = {}\nlocal-address = \"{}\"\n\
             [neighbors.timers.config]\nconnect-retry = 1\nidle-hold-time-after-reset = 1\n\
             [neighbors.graceful-restart.config]\nenabled = true\nrestart-time = 30\n",
            neighbour.address, neighbour.asn, neighbour.passive, neighbour.local
        );
        if router.reflects(neighbour) {
            let _ = write!(
                text,
                "[neighbors.route-reflector.config]\nroute-reflector-client = true\n\
                 route-reflector-cluster-id = \"{router_id}\"\n"
            );
        }
        for name in neighbour.families.iter().flat_map(|family| names(*family)) {
            let _ = write!(
                text,
                "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{name}\"\n\
                 [neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true\n"
            );
        }
    }
    text
}

fn names(family: Family) -> &'static [&'static str] {
    match family {
        Family::Unicast => &["ipv6-unicast"],
        Family::Vpn => &["l3vpn-ipv6-unicast", "l3vpn-ipv4-unicast"],
    }
}
