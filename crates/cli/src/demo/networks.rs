//! The networks of the demo.

use std::fmt::Write;

/// The server's node.
pub(super) const SERVER: &str = "server";

/// A network of clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemoNetwork {
    /// Its name, and that of its node.
    pub(super) name: &'static str,
    rate: &'static str,
    one_way_delay: &'static str,
    /// Of packets to the client.
    loss: &'static str,
    /// The treatment of UDP.
    udp: Option<&'static str>,
}

/// All of them: where HTTP/2 is faster, where HTTP/3 is, and where HTTP/3 fails.
pub(super) const NETWORKS: [DemoNetwork; 8] = [
    of("fibre", "200Mbps", "4ms", "0%"),
    of("cable", "50Mbps", "10ms", "0.1%"),
    of("dsl", "16Mbps", "18ms", "0%"),
    of("wifi-crowded", "20Mbps", "8ms", "2%"),
    of("mobile-city", "30Mbps", "30ms", "0.5%"),
    of("mobile-train", "10Mbps", "60ms", "2%"),
    of("overseas", "50Mbps", "110ms", "0.3%"),
    DemoNetwork {
        udp: Some("drop"),
        ..of("office-no-udp", "50Mbps", "12ms", "0%")
    },
];

const fn of(
    name: &'static str,
    rate: &'static str,
    one_way_delay: &'static str,
    loss: &'static str,
) -> DemoNetwork {
    DemoNetwork {
        name,
        rate,
        one_way_delay,
        loss,
        udp: None,
    }
}

impl DemoNetwork {
    /// Its properties, for people.
    pub(super) fn about(&self) -> String {
        let udp = self.udp.map_or("", |_| ", a firewall drops UDP");
        format!(
            "{}, {} each way, {} loss{udp}",
            spaced(self.rate).replace("Mbps", "Mbit/s"),
            spaced(self.one_way_delay),
            spaced(self.loss)
        )
    }
}

/// `4ms` as `4 ms`.
fn spaced(text: &str) -> String {
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(unit.unwrap_or(text.len()));
    format!("{number} {unit}")
}

/// The first three bytes of a network's addresses. The server is `.1`, the clients follow from `.11` on.
pub(super) fn subnet(index: usize) -> String {
    format!("10.109.{}", index + 1)
}

/// Addresses of the clients of a network.
pub(super) fn clients(index: usize, count: u8) -> impl Iterator<Item = String> {
    let subnet = subnet(index);
    (0..count).map(move |client| format!("{subnet}.{}", 11 + client))
}

/// All networks, each with its link to the server.
pub(super) fn topology(count: u8) -> String {
    let mut text = "description = \"clients on unlike networks, and a server\"\n".to_owned();
    let _ = writeln!(text, "[[nodes]]\nname = \"{SERVER}\"");
    for network in NETWORKS {
        let _ = writeln!(text, "[[nodes]]\nname = \"{}\"", network.name);
    }
    for (index, network) in NETWORKS.iter().enumerate() {
        let DemoNetwork {
            name,
            rate,
            one_way_delay,
            loss,
            udp,
        } = network;
        let subnet = subnet(index);
        let addresses: Vec<String> = clients(index, count)
            .map(|at| format!("\"{at}/24\""))
            .collect();
        let addresses = addresses.join(", ");
        let udp = udp.map_or_else(String::new, |udp| format!(", udp = \"{udp}\""));
        let both = format!(
            "rate = \"{rate}\", one_way_delay = \"{one_way_delay}\", queue = \"60ms\"{udp}"
        );
        let _ = writeln!(
            text,
            "[[links]]\nname = \"{name}\"\n\
             a = {{ node = \"{name}\", interface = \"eth0\", addresses = [{addresses}] }}\n\
             b = {{ node = \"{SERVER}\", interface = \"net{index}\", addresses = [\"{subnet}.1/24\"] }}\n\
             up = {{ {both} }}\ndown = {{ {both}, loss = \"{loss}\" }}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use hikyaku_emulator::topology::TopologySpec;

    use super::*;

    #[test]
    fn the_topology_is_right_for_any_number_of_clients() {
        for count in [1, 10, 40] {
            let spec = TopologySpec::parse("demo", &topology(count)).unwrap();
            assert_eq!(spec.links.len(), NETWORKS.len());
            assert_eq!(spec.links[0].a.addresses.len(), usize::from(count));
        }
        assert_eq!(NETWORKS[0].about(), "200 Mbit/s, 4 ms each way, 0 % loss");
        assert!(NETWORKS[7].about().contains("drops UDP"));
    }
}
