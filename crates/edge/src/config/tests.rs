use std::path::Path;

use super::*;
use crate::egress::{MptcpFor, Steer};

#[test]
fn the_example_configuration_shows_the_defaults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/edge.toml");
    let shown = Config::load(Some(Path::new(path)), &[]).unwrap();
    assert_eq!(shown, Config::default());
}

#[test]
fn assignments_override_the_file() {
    let set = |assignments: &[&str]| {
        let assignments: Vec<String> = assignments.iter().map(|&a| a.to_owned()).collect();
        Config::load(None, &assignments)
    };
    let config = set(&[
        "policy.version=h2",
        "tls.min_version=1.3",
        "limits.streams=7",
        "listen=['127.0.0.1:1', '[::1]:2']",
        "timeouts.idle=5s",
        "policy.udp.probe_min=2s",
        "egress.socket=/run/api.sock",
        "egress.steer=address",
        "egress.mptcp=adaptive",
    ])
    .unwrap();
    assert_eq!(config.tls.min_version, TlsVersion::Tls13);
    assert_eq!(config.limits.streams, 7);
    let egress = EgressConfig {
        socket: Some("/run/api.sock".into()),
        steer: Steer::Address,
        mptcp: MptcpFor::Adaptive,
    };
    assert_eq!(config.egress, egress);
    assert_eq!(config.listen.len(), 2);
    assert_eq!(config.timeouts.idle, Duration::from_secs(5));
    assert_eq!(config.policy.udp.probe_min, Duration::from_secs(2));
}

#[test]
fn wrong_assignments_are_told() {
    let cases = [
        ("policy.versoin=h2", "unknown field `versoin`"),
        ("policy.version=h4", "unknown variant `h4`"),
        ("limits.streams=many", "invalid type"),
        ("timeouts.idle=5", "the unit is missing"),
        ("root.x=1", "invalid type"),
        ("novalue", "expected KEY=VALUE"),
        ("=h2", "expected KEY=VALUE"),
        ("admin.listen=here", "no ADDRESS:PORT"),
        ("egress.steer=left", "unknown variant `left`"),
        ("egress.sockt=/x", "unknown field `sockt`"),
    ];
    for (assignment, want) in cases {
        let error = Config::load(None, &[assignment.to_owned()]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(want) && text.contains(assignment),
            "{assignment}: {text}"
        );
    }
}

#[test]
fn keys_that_do_not_fit_together_are_told() {
    let served = || Config {
        root: Some("site".into()),
        ..Config::default()
    };
    let mut half = served();
    half.tls.cert = vec!["cert.pem".into()];
    let mut unequal = served();
    unequal.tls.cert = vec!["a.pem".into(), "b.pem".into()];
    unequal.tls.key = vec!["a.key".into()];
    let mut open_admin = served();
    open_admin.admin.listen = AdminAddress(Some(SocketAddr::from(([0, 0, 0, 0], 1))));
    let mut class = served();
    class.classes[0].types = vec!["video".to_owned()];
    let mut name = served();
    name.tls.names = vec!["not a name".to_owned()];
    let cases = [
        (served(), None),
        (Config::default(), Some("nothing to serve")),
        (
            Config {
                upstream: Some("http://localhost".to_owned()),
                ..served()
            },
            Some("both `root` and `upstream`"),
        ),
        (
            Config {
                listen: Vec::new(),
                ..served()
            },
            Some("`listen` is empty"),
        ),
        (half, Some("belong together")),
        (unequal, Some("`tls.cert` has 2 files and `tls.key` 1")),
        (open_admin, Some("set `admin.token`")),
        (name, Some("`not a name`")),
        (class, Some("class `live` is wrong in `types`")),
    ];
    for (config, want) in cases {
        match (config.check(), want) {
            (Ok(()), None) => {}
            (Err(error), Some(want)) => assert!(error.to_string().contains(want), "{error}"),
            (result, want) => panic!("{result:?}, but expected {want:?}"),
        }
    }
}
