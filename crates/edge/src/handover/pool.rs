//! The sockets that this process was given, until each has its use.

use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use socket2::Socket;

/// The use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// HTTP/1.1 and 2.
    Tcp,
    /// HTTP/3.
    Udp,
    /// HTTP in the clear.
    Cleartext,
    Admin,
    /// Whatever of TCP the configuration has at this address.
    Stream,
}

impl Role {
    fn serves_as(self, wanted: Self) -> bool {
        self == wanted || self == Self::Stream && wanted != Self::Udp
    }
}

/// A socket that was given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(super) role: Role,
    /// Sockets of one listener have the same.
    pub(super) group: usize,
    /// The address that is asked for in the configuration.
    pub(super) asked: SocketAddr,
    pub(crate) socket: Socket,
    /// Clients have asked for MPTCP, and get TCP.
    pub(crate) refused: bool,
    /// Another socket receives the datagrams that come to its address.
    pub(crate) only_sends: bool,
    /// The way to the process whose connections this socket had.
    pub(crate) link: Option<UnixDatagram>,
    /// It has the options of whoever has made it, and needs ours.
    pub(crate) is_foreign: bool,
}

/// Sockets that were given and have no use yet.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Given>>);

impl Pool {
    pub(super) fn new(given: Vec<Given>) -> Self {
        Self(Mutex::new(given))
    }

    /// The sockets of the first listener that has this use of an address that the configuration names; none
    /// if they have to be made.
    pub(crate) fn take(&self, role: Role, asked: SocketAddr) -> Vec<Given> {
        let mut given = self.0.lock();
        let fits = |one: &Given| one.role.serves_as(role) && one.asked == asked;
        let Some(group) = given.iter().find(|one| fits(one)).map(|one| one.group) else {
            return Vec::new();
        };
        let fits = |one: &mut Given| fits(one) && one.group == group;
        given.extract_if(.., fits).collect()
    }

    /// Closes the sockets that have no use, and gives the addresses of those that somebody meant to have
    /// one.
    pub(crate) fn close(&self) -> Vec<SocketAddr> {
        let rest = std::mem::take(&mut *self.0.lock());
        let foreign = rest.iter().filter(|one| one.is_foreign);
        foreign.map(|one| one.asked).collect()
    }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    fn given(role: Role, group: usize, asked: &str) -> Given {
        Given {
            role,
            group,
            asked: asked.parse().unwrap(),
            socket: Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap(),
            refused: false,
            only_sends: false,
            link: None,
            is_foreign: role == Role::Stream,
        }
    }

    #[test]
    fn each_listener_takes_its_sockets_once() {
        let (any, other) = ("127.0.0.1:0", "127.0.0.1:443");
        let pool = Pool::new(vec![
            given(Role::Tcp, 0, any),
            given(Role::Udp, 0, any),
            given(Role::Udp, 0, any),
            given(Role::Tcp, 1, any),
            given(Role::Udp, 1, any),
            given(Role::Stream, 2, other),
        ]);
        let take = |role, asked: &str| pool.take(role, asked.parse().unwrap()).len();
        let cases = [
            // use, address, sockets of the first call, of the second, and of the third
            (Role::Admin, any, [0, 0, 0]),
            (Role::Udp, other, [0, 0, 0]),
            (Role::Tcp, any, [1, 1, 0]),
            (Role::Udp, any, [2, 1, 0]),
            (Role::Cleartext, other, [1, 0, 0]),
        ];
        for (role, asked, want) in cases {
            let got = [(); 3].map(|()| take(role, asked));
            assert_eq!(got, want, "{role:?} {asked}");
        }
    }

    #[test]
    fn sockets_of_others_that_nobody_wants_are_reported() {
        let pool = Pool::new(vec![
            given(Role::Stream, 0, "127.0.0.1:80"),
            given(Role::Tcp, 1, "127.0.0.1:443"),
        ]);
        assert_eq!(pool.close(), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(pool.close(), []);
    }
}
