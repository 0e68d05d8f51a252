use std::collections::HashSet;
use std::time::Duration;

use hikyaku_core::client::key::Prefix;
use hikyaku_core::client::sample::UdpEvent;
use hikyaku_core::policy::VersionPolicy;
use hikyaku_units::arm::Version;

use super::*;
use crate::config::Config;
use crate::fakes::{
    AVAILABLE, clients, clients_by, in_force, model, policy, replace, rules, sample,
};

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The keys of the records that are put.
fn put(changes: &Changes) -> Vec<String> {
    let put = changes
        .records
        .iter()
        .filter(|(_, record)| record.is_some());
    let mut keys: Vec<_> = put.map(|(key, _)| key.to_string()).collect();
    keys.sort();
    keys
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_kept_and_a_preview_is_not() {
    let clients = clients(&policy(), false);
    let client = address("192.0.2.1");
    let preview = clients.preview(client, None);
    assert_eq!(clients.len(), 0);
    let decision = clients.decide(client, None);
    assert_eq!(decision, preview);
    assert!(clients.len() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_pinned_site_leaves_the_session_at_others_as_it_is() {
    let config: Config = toml::from_str(
        "[[site]]\nnames = [\"a.example\"]\nroot = \"/srv\"\npolicy = { version = \"h2\" }\n\
         [[site]]\nnames = [\"b.example\"]\nroot = \"/srv\"\npolicy = { unknown = \"h2\", holdback = 0 }",
    )
    .unwrap();
    let policies = Policies::new(&config).unwrap();
    let rules = in_force(Rules::new(policies, model(), AVAILABLE, false));
    let clients = clients_by(&rules, false);
    let client = address("192.0.2.1");
    let pinned = clients.decide(client, Some("a.example"));
    assert_eq!((pinned.version, clients.len()), (Version::H2, 0));
    assert_eq!(clients.decide(client, None).version, Version::H3);
    let own = clients.decide(client, Some("b.example"));
    assert_eq!(own.version, Version::H2, "its plain choice");
    assert!(clients.len() > 0);
    let early = clients.early(client, Transport::Tcp);
    let after = |name| clients.decide_after(client, Some(name), &early).version;
    assert_eq!(after("a.example"), Version::H2);
    assert_eq!(after("other.example"), Version::H3);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_held_back_begins_as_at_an_ordinary_server() {
    let text = |server: f64, site: f64| {
        format!(
            "policy = {{ holdback = {server}, min_cwnd = \"300KiB\" }}\n\
             [[site]]\nnames = [\"a.example\"]\nroot = \"/srv\"\npolicy = {{ holdback = {site} }}"
        )
    };
    // name, hold-back of the server and of a site, whether it begins so, held back elsewhere, and at the site
    let cases = [
        ("nobody is held back", 0.0, 0.0, false, [false, false]),
        ("by the server", 1.0, 0.0, true, [true, false]),
        ("by a site", 0.0, 1.0, true, [false, true]),
    ];
    let client = address("192.0.2.1");
    for (name, server, site, ordinary, held) in cases {
        let config: Config = toml::from_str(&text(server, site)).unwrap();
        let rules = Rules::new(Policies::new(&config).unwrap(), model(), AVAILABLE, false);
        let clients = clients_by(&in_force(rules), false);
        for _ in 0..9 {
            clients.observe(client, &sample());
        }
        for transport in Transport::ALL {
            let choice = clients.transport(client, transport);
            assert_eq!(choice.known.is_none(), ordinary, "{name}: {choice:?}");
            assert_eq!(choice.min_cwnd.is_none(), ordinary, "{name}: {choice:?}");
        }
        let assignments = [None, Some("a.example")].map(|host| {
            let decided = clients.decide(client, host).assignment;
            assert_eq!(
                clients.subject(client, host).0.assignment,
                decided,
                "{name}"
            );
            decided.is_held_back()
        });
        assert_eq!(assignments, held, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shadow_policy_decides_and_never_acts() {
    let text = |shadow: &str| {
        format!(
            "policy = {{ holdback = 0 }}\nshadow = {{ {shadow} }}\n\
             [[site]]\nnames = [\"a.example\"]\nroot = \"/srv\"\npolicy = {{ exploration = 0 }}"
        )
    };
    let decided = |shadow: &str, host: Option<&str>| {
        let config: Config = toml::from_str(&text(shadow)).unwrap();
        let rules = Rules::new(Policies::new(&config).unwrap(), model(), AVAILABLE, false);
        let clients = clients_by(&in_force(rules), false);
        let decision = clients.decide(address("192.0.2.1"), host);
        assert_eq!(decision.version, Version::H3, "{shadow}");
        let apart = decision.shadow_apart();
        (decision.shadow.is_some(), apart.map(|arm| arm.version))
    };
    assert_eq!(decided("", None), (false, None));
    assert_eq!(
        decided("min_gain = 0.5", None),
        (true, None),
        "the same so far"
    );
    assert_eq!(decided("unknown = \"h2\"", None), (true, Some(Version::H2)));
    assert_eq!(
        decided("unknown = \"h2\"", Some("a.example")),
        (false, None)
    );
    let wrong: Config = toml::from_str(&text("exploration = 0.5")).unwrap();
    let error = Policies::new(&wrong).unwrap_err().to_string();
    assert!(
        error.contains("[shadow]") && error.contains("exploration"),
        "{error}"
    );
}

#[test]
fn an_address_and_its_prefixes_share_a_stripe() {
    let mut used = HashSet::new();
    for last in 0..=255 {
        for text in [
            format!("198.51.{last}.7"),
            format!("2001:db8:{last:x}:1::7"),
        ] {
            let client = address(&text);
            let stripe = Clients::stripe_of_key(&Key::address(client));
            used.insert(stripe);
            let lengths: &[u8] = if client.is_ipv4() { &[24] } else { &[56, 48] };
            for length in lengths {
                let prefix = Key::Prefix(Prefix::around(client, *length).unwrap());
                assert_eq!(Clients::stripe_of_key(&prefix), stripe, "{prefix}");
            }
        }
    }
    assert!(used.len() > STRIPES / 2, "they spread: {}", used.len());
    assert!(used.iter().all(|stripe| *stripe < STRIPES));
}

#[tokio::test(start_paused = true)]
async fn changes_are_handed_over_once_and_in_portions() {
    let clients = clients(&policy(), true);
    clients.observe(address("192.0.2.1"), &sample());
    let changes = clients.changes(100);
    assert_eq!(put(&changes), ["192.0.2.1"]);
    assert!(clients.changes(100).is_empty());
    for net in 0..50 {
        clients.observe(IpAddr::from([203, 0, net, 1]), &sample());
    }
    let (mut portions, mut keys) = (0, HashSet::new());
    loop {
        let changes = clients.changes(10);
        if changes.is_empty() {
            break;
        }
        assert!(changes.records.len() <= 10);
        portions += 1;
        keys.extend(put(&changes));
    }
    assert_eq!((keys.len(), portions), (50, 5));
    clients.mark_all_changed();
    assert_eq!(put(&clients.changes(1000)).len(), 51);
}

#[tokio::test(start_paused = true)]
async fn without_a_store_nothing_is_noted() {
    let clients = clients(&policy(), false);
    clients.observe(address("192.0.2.1"), &sample());
    clients.forget(Scope::Address(address("192.0.2.1")));
    clients.forget(Scope::All);
    assert!(clients.changes(100).is_empty());
}

#[tokio::test(start_paused = true)]
async fn forgetting_reaches_its_scope_and_the_store() {
    let scopes: [(&str, Scope, usize, &[&str]); 3] = [
        (
            "an address",
            Scope::Address(address("192.0.2.1")),
            3,
            &["192.0.2.1"],
        ),
        (
            "a prefix with its addresses",
            Scope::Prefix("192.0.2.0/24".parse().unwrap()),
            1,
            &["192.0.2.0/24"],
        ),
        ("all", Scope::All, 0, &[]),
    ];
    for (name, scope, left, forgotten) in scopes {
        let clients = clients(&policy(), true);
        for text in ["192.0.2.1", "192.0.2.2", "198.51.100.1"] {
            clients.observe(address(text), &sample());
        }
        assert_eq!(clients.len(), 4, "three addresses, and the prefix of two");
        clients.changes(100);
        assert_eq!(clients.forget(scope), 4 - left, "{name}");
        assert_eq!(clients.len(), left, "{name}");
        let changes = clients.changes(100);
        let keys: Vec<_> = changes.forgotten.iter().map(Key::to_string).collect();
        assert_eq!(keys, forgotten, "{name}");
        let cleared = if left == 0 { STRIPES } else { 0 };
        assert_eq!(changes.cleared.len(), cleared, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_moves_the_epoch_of_its_stripe_and_new_rules_that_of_all() {
    let in_force = in_force(rules(&policy()));
    let clients = clients_by(&in_force, false);
    let one = address("192.0.2.1");
    let elsewhere = (0..=255)
        .map(|net| IpAddr::from([203, 0, net, 1]))
        .find(|other| stripe_of(*other, STRIPES) != stripe_of(one, STRIPES))
        .unwrap();
    let epochs = || [one, elsewhere].map(|client| clients.epoch(client));
    let [first, second] = epochs();
    clients.changed(one);
    assert_eq!(epochs(), [first + 1, second]);
    let pinned = PolicyConfig {
        version: VersionPolicy::H2,
        ..policy()
    };
    replace(&in_force, rules(&pinned));
    clients.reloaded();
    assert_eq!(epochs(), [first + 2, second + 1]);
    assert_eq!(clients.decide(one, None).version, Version::H2);
}

#[tokio::test(start_paused = true)]
async fn the_clients_seen_last_are_listed_first() {
    let clients = clients(&policy(), false);
    for text in ["192.0.2.1", "198.51.100.1", "203.0.113.1", "192.0.2.1"] {
        clients.observe(address(text), &Observation::Udp(UdpEvent::Arrived));
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    let recent = |limit| {
        let recent = clients.recent(limit).into_iter();
        recent
            .map(|known| known.address.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(recent(2), ["192.0.2.1", "203.0.113.1"]);
    assert_eq!(recent(10).len(), 3, "addresses, not prefixes");
}

#[tokio::test(start_paused = true)]
async fn records_of_the_store_are_known_again() {
    let known = clients(&policy(), true);
    let client = address("192.0.2.1");
    for _ in 0..20 {
        known.observe(client, &sample());
    }
    let restored = clients(&policy(), true);
    for (key, record) in known.changes(100).records {
        assert!(restored.insert(key, &record.unwrap()));
    }
    assert_eq!(
        restored.explain(client).to_string(),
        known.explain(client).to_string()
    );
    assert!(!restored.insert(Key::address(client), b"of another format"));
    assert_eq!(restored.len(), 1);
}
