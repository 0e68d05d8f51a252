use super::*;
use hikyaku_emulator::link::privileges::is_program;
use hikyaku_emulator::link::scratch::Scratch;
use hikyaku_testkit::{skip, this_test};

/// A test bed, or the reason why there is none.
fn bed() -> Result<(TestBed, Scratch), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("namespaces need root".to_owned());
    }
    if !is_program("gobgpd".as_ref()) {
        return Err("`gobgpd` is not on PATH (scripts/setup.sh test)".to_owned());
    }
    of_egress(EGRESS).map_err(|error| error.to_string())?;
    let scratch = Scratch::create(false).unwrap();
    let directory = scratch.path().to_owned();
    let bed = TestBed::open(directory);
    Ok((bed.unwrap(), scratch))
}

#[test]
fn the_server_reaches_its_client_over_every_path() {
    let (mut bed, _scratch) = match bed() {
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
    bed.start_agent("asbr2").unwrap();
    bed.wait_until_ready().unwrap();

    // Each path takes its own link.
    for side in Side::ALL {
        bed.start_links(Side::ALL.map(|_| LinkPair::default()), 0)
            .unwrap();
        assert!(bed.answers(side.epe_address()).unwrap());
        let down = |side| bed.link(side).delivered_bytes()[1];
        let other = Side::ALL.into_iter().find(|other| *other != side).unwrap();
        assert!(down(side) > 0 && down(other) == 0, "{side:?}");
    }
    let error = server.request("GET", "/v1/paths/nowhere", "").unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}
