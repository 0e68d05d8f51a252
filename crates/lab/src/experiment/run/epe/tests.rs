use std::net::Ipv6Addr;
use std::path::Path;

use super::super::programs::BGPD;
use super::*;
use hikyaku_emulator::link::privileges::is_program;
use hikyaku_emulator::link::scratch::Scratch;
use hikyaku_testkit::{skip, this_test};

/// A test bed, or the reason why there is none.
fn bed(borders: Borders) -> Result<(TestBed, Scratch), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("namespaces need root".to_owned());
    }
    if !is_program("gobgpd".as_ref()) {
        return Err("`gobgpd` is not on PATH (scripts/setup.sh test)".to_owned());
    }
    if borders == Borders::Frr && !Path::new(BGPD).exists() {
        return Err(format!("{BGPD} is missing (scripts/setup.sh test)"));
    }
    of_egress(EGRESS).map_err(|error| error.to_string())?;
    let scratch = Scratch::create(false).unwrap();
    let directory = scratch.path().to_owned();
    let bed = TestBed::open(directory, borders);
    Ok((bed.unwrap(), scratch))
}

/// Whether the client answers in the end: its kernel may wait for a CPU longer than a connection does.
fn answers(bed: &TestBed, from: Ipv6Addr) -> bool {
    (0..30).any(|_| bed.answers(from).unwrap())
}

#[test]
fn the_server_reaches_its_client_over_every_path() {
    let (mut bed, _scratch) = match bed(Borders::Agents) {
        Ok(bed) => bed,
        Err(why) => return skip(&this_test(), &why),
    };
    let server = bed.agent("server");
    assert_eq!(server.status().unwrap().problems, [""; 0]);
    let lookup = server.lookup(CLIENT).unwrap();
    assert_eq!(lookup.best.as_deref(), Some("transit-a"));
    assert_eq!(lookup.paths.len(), 2);

    // A border that dies leaves its routes; after a restart it has them again.
    bed.kill_agent("asbr2");
    bed.start_agent("asbr2", Borders::Agents).unwrap();
    bed.wait_until_ready().unwrap();

    // Each path takes its own link.
    for side in Side::ALL {
        bed.start_links(Side::ALL.map(|_| LinkPair::default()), 0)
            .unwrap();
        assert!(answers(&bed, side.epe_address()));
        let down = |side| bed.link(side).delivered_bytes()[1];
        let other = Side::ALL.into_iter().find(|other| *other != side).unwrap();
        assert!(down(side) > 0 && down(other) == 0, "{side:?}");
    }
    let error = server.request("GET", "/v1/paths/nowhere", "").unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}

/// Borders whose own LOCAL_PREF outweighs the AS path, which no EPE route shows.
#[test]
fn plain_packets_take_the_path_that_the_borders_prefer() {
    let (bed, _scratch) = match bed(Borders::Frr) {
        Ok(bed) => bed,
        Err(why) => return skip(&this_test(), &why),
    };
    let server = bed.agent("server");
    let path = format!("/v1/lookup?client={CLIENT}");
    let lookup: serde_json::Value = server.get(&path).unwrap();
    let hops = |index: usize| lookup["paths"][index]["as_path"].as_array().unwrap().len();
    assert!(hops(0) > hops(1), "{lookup:#}");
    assert_eq!(lookup["best"], "transit-a", "{lookup:#}");
    let before = bed.link(Side::A).delivered_bytes()[1];
    assert!(answers(&bed, SERVER));
    assert!(bed.link(Side::A).delivered_bytes()[1] > before);
}
