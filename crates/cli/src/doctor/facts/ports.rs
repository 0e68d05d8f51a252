//! The addresses to listen on, and who has them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::SocketAddr;

use hikyaku_edge::config::ListenAddress;
use hikyaku_edge::{Config, try_tcp, try_udp};

use super::System;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// "TCP" or "UDP".
    pub(crate) transport: &'static str,
    pub(crate) address: ListenAddress,
    pub(crate) bound: Bound,
}

/// Whether an address can be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Free,
    /// Processes that have its port, as far as the doctor may see them.
    Taken(Vec<Owner>),
    /// It needs a capability.
    Denied,
    /// This machine has no such address.
    Absent,
    /// Another error.
    Failed(String),
}

/// A process that has a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) id: u32,
    pub(crate) name: String,
}

impl Owner {
    /// Whether it is a server of this kind.
    pub(crate) fn is_server(&self) -> bool {
        self.name == "hikyaku"
    }
}

/// The addresses of a configuration.
pub(super) fn of(config: &Config, system: &System) -> Vec<Port> {
    let both = config.listen.iter().flat_map(|a| [("TCP", a), ("UDP", a)]);
    let tcp = config.http.listen.iter().chain(&config.admin.listen.0);
    let all = both.chain(tcp.map(|address| ("TCP", address)));
    let port = |(transport, address): (&'static str, &ListenAddress)| Port {
        transport,
        bound: bound(transport, address, system),
        address: address.clone(),
    };
    all.map(port).collect()
}

/// The id of a server that runs on these addresses.
pub(super) fn server(ports: &[Port]) -> Option<u32> {
    let taken = ports.iter().filter_map(|port| match &port.bound {
        Bound::Taken(owners) => Some(owners),
        _ => None,
    });
    let mut owners = taken.flatten();
    owners.find(|owner| owner.is_server()).map(|owner| owner.id)
}

fn bound(transport: &str, address: &ListenAddress, system: &System) -> Bound {
    let tried = match transport {
        "TCP" => try_tcp(address),
        _ => try_udp(address),
    };
    match tried.map_err(|error| (error.kind(), error)) {
        Ok(()) => Bound::Free,
        Err((io::ErrorKind::AddrInUse, _)) => {
            let addresses = address.resolve().unwrap_or_default();
            let port = addresses.first().map_or(0, SocketAddr::port);
            Bound::Taken(owners(system, transport, port))
        }
        Err((io::ErrorKind::PermissionDenied, _)) => Bound::Denied,
        Err((io::ErrorKind::AddrNotAvailable, _)) => Bound::Absent,
        Err((_, error)) => Bound::Failed(error.to_string()),
    }
}

/// The processes with sockets of a port.
fn owners(system: &System, transport: &str, port: u16) -> Vec<Owner> {
    let files = match transport {
        "TCP" => ["proc/net/tcp", "proc/net/tcp6"],
        _ => ["proc/net/udp", "proc/net/udp6"],
    };
    let tables = files.iter().filter_map(|file| system.text(file));
    let links: HashSet<_> = tables
        .flat_map(|table| sockets(&table, transport == "TCP", port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let has = |id: &u32| {
        let files = fs::read_dir(system.path(&format!("proc/{id}/fd")));
        let files = files.into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| target.to_str().is_some_and(|t| links.contains(t)))
    };
    let owner = |id| {
        let name = system.name(id)?;
        Some(Owner { id, name })
    };
    let ids = system.processes().into_iter().filter(has);
    ids.filter_map(owner).collect()
}

/// The inodes of the sockets of a local port in a table of `/proc/net`: of TCP, those that listen.
fn sockets(table: &str, only_listening: bool, port: u16) -> Vec<String> {
    let inode = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (_, local) = words.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(local, 16) == Ok(port);
        let listens = !only_listening || *words.get(3)? == "0A";
        let inode = words.get(9)?;
        (is_it && listens).then(|| (*inode).to_owned())
    };
    table.lines().skip(1).filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::doctor::facts::system::tests::system;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:01BB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 11 1 0 100 0 0 10 0
   1: 0100007F:01BB 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  0  0 12 1 0 100 0 0 10 0
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 13 1 0 100 0 0 10 0
";

    #[test]
    fn owners_are_found_by_their_sockets() {
        let (dir, system) = system(&[
            ("proc/net/tcp", TCP),
            ("proc/40/comm", "nginx\n"),
            ("proc/41/comm", "other\n"),
            ("proc/40/fd/x", ""),
            ("proc/41/fd/x", ""),
        ]);
        let link = |id, socket: &str| {
            let fd = format!("proc/{id}/fd/5");
            symlink(Path::new(socket), dir.path().join(fd)).unwrap();
        };
        link(40, "socket:[11]");
        link(41, "socket:[12]");
        let nginx = Owner {
            id: 40,
            name: "nginx".to_owned(),
        };
        assert_eq!(owners(&system, "TCP", 443), [nginx]);
        assert_eq!(owners(&system, "TCP", 80), [], "of a process that hides");
        assert_eq!(owners(&system, "UDP", 443), []);
    }

    #[test]
    fn addresses_are_tried() {
        let here = System::new(Path::new("/"));
        let address = |text: &str| text.parse::<ListenAddress>().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let taken = address(&tcp.local_addr().unwrap().to_string());
        let Bound::Taken(owners) = bound("TCP", &taken, &here) else {
            panic!("the port is taken");
        };
        assert!(owners.iter().any(|owner| owner.id == std::process::id()));
        let taken = address(&udp.local_addr().unwrap().to_string());
        assert!(matches!(bound("UDP", &taken, &here), Bound::Taken(_)));
        assert_eq!(bound("TCP", &address("127.0.0.1:0"), &here), Bound::Free);
        assert_eq!(bound("UDP", &address("192.0.2.1:0"), &here), Bound::Absent);
    }
}
