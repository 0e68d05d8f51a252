//! The two paths out of the content AS.

use std::net::Ipv6Addr;

/// The paths of the content server, in their order there. Transit A's route is BGP's best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The path by ASBR 1, transit A and link a.
    A,
    /// The path by ASBR 2, transit B and link b.
    B,
}

impl Side {
    /// Both paths, in their order.
    pub(crate) const ALL: [Self; 2] = [Self::A, Self::B];

    /// The path's name at the agents; also the transit's node.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::A => "transit-a",
            Self::B => "transit-b",
        }
    }

    /// The link's name in the topology.
    pub(crate) const fn link(self) -> &'static str {
        match self {
            Self::A => "link-a",
            Self::B => "link-b",
        }
    }

    /// The border router's node.
    pub(crate) const fn border(self) -> &'static str {
        match self {
            Self::A => "asbr1",
            Self::B => "asbr2",
        }
    }

    /// The server's EPE address of the path.
    pub(crate) const fn epe_address(self) -> Ipv6Addr {
        let last = match self {
            Self::A => 0xa1,
            Self::B => 0xa2,
        };
        Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, last)
    }

    /// The path's SID.
    pub(crate) const fn sid(self) -> Ipv6Addr {
        let border = match self {
            Self::A => 0xb1,
            Self::B => 0xb2,
        };
        Ipv6Addr::new(0x2001, 0xdb8, border, 1, 0, 0, 0, 0)
    }
}
