use std::net::IpAddr;
use std::time::Duration;

use hikyaku_core::client::key::Prefix;
use hikyaku_core::client::shared::{Contributions, Remote};
use hikyaku_core::fleet::Pop;
use hikyaku_core::policy::PolicyConfig;

use super::Clients;
use crate::fakes::{clients, policy, sample};

fn pop() -> Pop {
    Pop::named("fra1")
}

/// An edge that has seen a client in each of these networks.
fn edge(networks: std::ops::Range<u8>) -> Clients {
    let clients = clients(&policy(), false);
    clients.share(pop(), 10_000);
    for network in networks {
        clients.observe(IpAddr::from([203, 0, network, 1]), &sample());
    }
    clients
}

fn prefix(network: u8) -> Prefix {
    Prefix::around(IpAddr::from([203, 0, network, 1]), 24).unwrap()
}

/// The total of a contribution, as another edge reads it.
fn read(bytes: &[u8], at: &Clients) -> Remote {
    let now = at.clock.now();
    let (contributions, unread) = Contributions::read([("other", bytes)], now);
    assert_eq!(unread, 0);
    contributions.remote(&"me", pop(), now, &PolicyConfig::default())
}

#[tokio::test(start_paused = true)]
async fn contributions_are_handed_over_once_and_in_portions() {
    let clients = edge(0..50);
    let portions = std::iter::from_fn(|| Some(clients.drain_shared(10).len()));
    let portions: Vec<usize> = portions.take_while(|len| *len > 0).collect();
    assert_eq!(portions, [10; 5]);
    clients.observe(IpAddr::from([203, 0, 7, 1]), &sample());
    let drained = clients.drain_shared(10);
    assert_eq!(
        drained.iter().map(|(of, _)| *of).collect::<Vec<_>>(),
        [prefix(7)]
    );
    clients.mark_all_shared();
    assert_eq!(clients.drain_shared(100).len(), 50);
}

#[tokio::test(start_paused = true)]
async fn an_edge_that_is_alone_shares_nothing() {
    let clients = clients(&policy(), false);
    clients.observe(IpAddr::from([203, 0, 1, 1]), &sample());
    clients.mark_all_shared();
    assert!(clients.drain_shared(10).is_empty());
    assert_eq!(clients.remote_age(prefix(1)), None);
}

#[tokio::test(start_paused = true)]
async fn what_others_know_counts_and_outdates_decisions_once() {
    let other = edge(1..2);
    let (_, bytes) = other.drain_shared(1).remove(0);
    let clients = edge(0..0);
    let newcomer = IpAddr::from([203, 0, 1, 9]);
    assert_eq!(clients.explain(newcomer).path.min_rtt, None);
    let epoch = clients.epoch(newcomer);
    clients.set_remote(prefix(1), &read(&bytes, &clients));
    assert_eq!(clients.epoch(newcomer), epoch + 1);
    assert!(clients.explain(newcomer).path.min_rtt.is_some());
    assert_eq!(clients.explain(newcomer).from_edges[0].edges, 1);
    assert_eq!(clients.remote_age(prefix(1)), Some(Duration::ZERO));
    assert!(clients.drain_shared(10).is_empty(), "no echo");

    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(clients.remote_age(prefix(1)), Some(Duration::from_secs(30)));
    clients.set_remote(prefix(1), &read(&bytes, &clients));
    assert_eq!(clients.epoch(newcomer), epoch + 1);
    assert_eq!(clients.remote_age(prefix(1)), Some(Duration::ZERO));
}
