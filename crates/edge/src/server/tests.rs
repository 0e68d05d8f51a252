use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Server;
use crate::config::Config;

/// A configuration of which each part has the generation somewhere.
fn config(root: &Path, generation: u64) -> Config {
    let set = [
        "log.access=off".to_owned(),
        "admin.listen=".to_owned(),
        format!("admin.token={generation}"),
        format!("policy.ma_min={generation}s"),
        format!("policy.max_pacing_rate={generation}Mbps"),
        format!("limits.streams={generation}"),
    ];
    let mut config = Config::load(None, &set).unwrap();
    config.root = Some(root.to_owned());
    config.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    config
}

/// Where the generation is read, in the order of names.
type Read = fn(&Server) -> u64;

const PARTS: [(&str, Read); 4] = [
    ("admin", |server| {
        let settings = server.admin.settings.load_full();
        settings.token.as_deref().unwrap().parse().unwrap()
    }),
    ("clients", |server| {
        let rate = server.shared.clients.max_pacing_rate(None).unwrap();
        rate.bits_per_sec() / 1_000_000
    }),
    ("service", |server| {
        server.site.service().limits.streams.into()
    }),
    ("terms", |server| server.shared.terms().ma_min),
];

/// Whoever has seen a part of a new configuration never sees a part of the former one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_is_seen_whole() {
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(config(root.path(), 100)).unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut seen = 0;
            while !ends.load(Ordering::Relaxed) {
                for (first, read_first) in PARTS {
                    for (second, read_second) in PARTS {
                        let (before, after) = (read_first(&server), read_second(&server));
                        assert!(
                            before <= after,
                            "{first} is of {before}, and {second} still of {after}"
                        );
                        seen = after;
                    }
                }
            }
            seen
        });
        for generation in 101..=160 {
            server.reload(config(root.path(), generation)).unwrap();
            if watch.is_finished() {
                break;
            }
        }
        ends.store(true, Ordering::Relaxed);
        watch.join().expect("no mix is seen");
    });
    for (name, read) in PARTS {
        assert_eq!(read(&server), 160, "{name}");
    }
    server.stop().await;
}
