//! Names of shards, as clients resolve them.

use std::collections::HashMap;
use std::net::IpAddr;

use super::config::ShardsConfig;

/// Warns where several shards are one address, so that they bring no connections. A browser reuses a
/// connection for every name that resolves to its address and that the certificate covers (RFC 9113
/// §9.1.1).
pub(crate) async fn warn_of_coalescing(config: ShardsConfig) {
    let mut of_address: HashMap<(IpAddr, Option<u16>), String> = HashMap::new();
    for host in &config.hosts {
        let name = host.to_string();
        let addresses: Vec<IpAddr> = match host.ip() {
            Some(address) => vec![address],
            None => match tokio::net::lookup_host((host.name(), 443)).await {
                Ok(found) => found.map(|address| address.ip()).collect(),
                Err(error) => {
                    tracing::warn!("resolving the shard {name}: {error}; clients must be able to");
                    continue;
                }
            },
        };
        for address in addresses {
            let other = of_address.insert((address, host.port), name.clone());
            if let Some(other) = other.filter(|other| *other != name) {
                tracing::warn!(
                    "the shards {other} and {name} are both at {address}: browsers will use one \
                     connection for them; give each an address or a port of its own"
                );
            }
        }
    }
}
