use std::net::SocketAddr;

use hikyaku_units::arm::Version;
use http::Request;

use super::*;
use crate::header_size::HeaderSize;
use crate::proxy::{UpstreamConfig, Upstreams};
use hikyaku_units::ByteSize;

const URLS: [&str; 3] = [
    "http://127.0.0.1:1",
    "http://127.0.0.1:2",
    "http://127.0.0.1:3",
];

fn group(config: &ProxyConfig) -> Group {
    of_urls(URLS, config)
}

fn of_urls<const N: usize>(urls: [&str; N], config: &ProxyConfig) -> Group {
    of(urls.map(UpstreamConfig::from), config)
}

fn of<const N: usize>(upstreams: [UpstreamConfig; N], config: &ProxyConfig) -> Group {
    let (header_size, known) = (
        HeaderSize::from(ByteSize::from_kib(64)),
        Upstreams::default(),
    );
    let member =
        |upstream: UpstreamConfig| Member::new(&upstream, config, header_size, &known).unwrap();
    Group::new(upstreams.map(member).into(), config)
}

/// The upstreams that some requests would begin at.
fn chosen(group: &Group, tried: &[usize]) -> Vec<usize> {
    let all = (0..50).filter_map(|key| group.begin(key, tried).map(|(index, _)| index));
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn by(balance: &str) -> ProxyConfig {
    ProxyConfig {
        balance: balance.parse().unwrap(),
        ..ProxyConfig::default()
    }
}

fn key(group: &Group, remote: &str, path: &str, fields: &[(&str, &str)]) -> u64 {
    let mut request = Request::builder().uri(path);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let peer = Peer {
        remote: SocketAddr::new(remote.parse().unwrap(), 1),
        local: SocketAddr::from(([192, 0, 2, 2], 443)),
        version: Version::H2,
        tls: None,
        server_name: None,
        scheme: crate::Scheme::Https,
        via: None,
    };
    group.key(&parts, &peer)
}

/// Makes an upstream one that is avoided.
fn fail(group: &Group, index: usize) {
    let begun = Instant::now();
    for _ in 0..3 {
        let state = &group.members[index].state;
        state.failed(
            begun,
            &SendError::Connect(std::io::Error::other("it is gone")),
        );
    }
}

#[test]
fn requests_with_the_same_key_have_that_in_common() {
    let cookie = |text| ("cookie", text);
    // balance, the requests, whether their keys are the same
    type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let a = "192.0.2.1";
    let cases: [(&str, Asked<'_>, Asked<'_>, bool); 11] = [
        ("least_requests", (a, "/x", &[]), ("::1", "/y", &[]), true),
        ("hash:address", (a, "/x", &[]), (a, "/y", &[]), true),
        (
            "hash:address",
            (a, "/", &[]),
            ("192.0.2.2", "/", &[]),
            false,
        ),
        (
            "hash:address",
            (a, "/", &[]),
            ("::ffff:192.0.2.1", "/", &[]),
            true,
        ),
        ("hash:path", (a, "/x?y", &[]), ("::1", "/x?z", &[]), true),
        ("hash:path", (a, "/x", &[]), (a, "/y", &[]), false),
        (
            "hash:header:X-User",
            (a, "/", &[("x-user", "u")]),
            ("::1", "/", &[("x-user", "u")]),
            true,
        ),
        (
            "hash:header:X-User",
            (a, "/", &[("x-user", "u")]),
            (a, "/", &[("x-user", "v")]),
            false,
        ),
        (
            "hash:cookie:id",
            (a, "/", &[cookie("xid=2; id=1")]),
            ("::1", "/", &[cookie("a=b"), cookie("id=1; id=3")]),
            true,
        ),
        (
            "hash:cookie:id",
            (a, "/", &[cookie("id=1")]),
            (a, "/", &[cookie("id=2")]),
            false,
        ),
        (
            "hash:cookie:id",
            (a, "/", &[cookie("id2=1")]),
            (a, "/x", &[]),
            true,
        ),
    ];
    for (balance, one, other, want) in cases {
        let group = group(&by(balance));
        let of = |(remote, path, fields): Asked<'_>| key(&group, remote, path, fields);
        assert_eq!(of(one) == of(other), want, "{balance}: {one:?} {other:?}");
    }
}

#[test]
fn those_that_fail_are_avoided_unless_all_do() {
    for balance in ["least_requests", "hash:path"] {
        let group = group(&by(balance));
        let chosen = |tried: &[usize]| chosen(&group, tried);
        assert_eq!(chosen(&[]), [0, 1, 2], "{balance}");
        assert_eq!(chosen(&[2]), [0, 1], "{balance}");
        fail(&group, 1);
        assert_eq!(chosen(&[]), [0, 2], "{balance}");
        assert_eq!(chosen(&[0]), [2], "{balance}");
        assert_eq!(chosen(&[0, 2]), [1], "{balance}: there is no other");
        fail(&group, 0);
        fail(&group, 2);
        assert_eq!(chosen(&[]), [0, 1, 2], "{balance}: all fail");
        assert!(chosen(&[0, 1, 2]).is_empty(), "{balance}");
    }
}

#[test]
fn backups_are_asked_when_no_other_can_be() {
    for balance in ["least_requests", "hash:path"] {
        let config = ProxyConfig {
            max_requests: 50,
            ..by(balance)
        };
        // The backup stands first, and is the last of the group all the same.
        let [backup, one, other] = URLS.map(UpstreamConfig::from);
        let backup = UpstreamConfig {
            backup: true,
            ..backup
        };
        let group = of([backup, one, other], &config);
        assert_eq!(&*group.members[2].state.url, URLS[0]);
        let chosen = |tried: &[usize]| chosen(&group, tried);
        assert_eq!(chosen(&[]), [0, 1], "{balance}");
        assert_eq!(chosen(&[0]), [1], "{balance}");
        assert_eq!(chosen(&[0, 1]), [2], "{balance}: both were tried");
        fail(&group, 0);
        assert_eq!(chosen(&[]), [1], "{balance}");
        assert_eq!(chosen(&[1]), [2], "{balance}: the other is avoided");
        let turns = (0..50).map_while(|_| group.members[1].state.begin(None));
        let turns: Vec<_> = turns.collect();
        assert_eq!(chosen(&[]), [2], "{balance}: the other is full");
        drop(turns);
        fail(&group, 1);
        assert_eq!(chosen(&[]), [2], "{balance}");
        assert_eq!(chosen(&[2]), [0, 1], "{balance}: there is no other");
        fail(&group, 2);
        assert_eq!(chosen(&[]), [0, 1], "{balance}: all fail");
    }
}

#[test]
fn weights_hold_for_load_and_for_keys() {
    let weights = [1, 2, 5];
    for balance in ["least_requests", "hash:path"] {
        let mut next = weights.into_iter();
        let upstreams = URLS.map(|url| UpstreamConfig {
            weight: next.next().unwrap(),
            ..url.into()
        });
        let group = of(upstreams, &by(balance));
        let mut counts = [0_u32; 3];
        for number in 0..8000_u64 {
            let key = hash::hash(&number.to_le_bytes());
            counts[group.begin(key, &[]).unwrap().0] += 1;
        }
        for (count, weight) in counts.iter().zip(weights) {
            let want = f64::from(weight) * 1000.0;
            let differs = (f64::from(*count) - want).abs() / want;
            assert!(differs < 0.15, "{balance}: {counts:?}");
        }
    }
}

#[test]
fn a_full_upstream_leaves_requests_to_the_others() {
    for balance in ["least_requests", "hash:path"] {
        let group = group(&ProxyConfig {
            max_requests: 2,
            ..by(balance)
        });
        let turns: Vec<_> = (0..6).map_while(|_| group.begin(7, &[])).collect();
        let mut chosen: Vec<_> = turns.iter().map(|(index, _)| *index).collect();
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 0, 1, 1, 2, 2], "{balance}");
        assert!(group.begin(7, &[]).is_none(), "{balance}");
        drop(turns);
        assert!(group.begin(7, &[]).is_some(), "{balance}");
    }
}

#[test]
fn a_group_has_as_many_tries_as_retries_and_upstreams_allow() {
    for (retries, tries) in [(0, 1), (1, 2), (2, 3), (9, 3)] {
        let group = group(&ProxyConfig {
            retries,
            ..ProxyConfig::default()
        });
        let all = (1..10).take_while(|tries| group.has_retry(*tries));
        assert_eq!(all.count() + 1, tries, "{retries} retries");
    }
}

#[test]
fn a_group_has_upgrades_if_all_of_it_have() {
    let cases = [
        (["http://a", "unix:/a"], true),
        (["http://a", "h2c://a"], false),
        (["h2c+unix:/a", "h2c://a"], false),
    ];
    for (urls, want) in cases {
        let group = of_urls(urls, &ProxyConfig::default());
        assert_eq!(group.has_upgrades(), want, "{urls:?}");
    }
}
