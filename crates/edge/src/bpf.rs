//! Loading programs into the kernel (eBPF), and what they share.

use std::io;
use std::net::{IpAddr, Ipv6Addr};

use libbpf_rs::{ErrorKind, MapCore, MapHandle, Object, PrintLevel};
use rustix::thread::{CapabilitySet, capabilities};

/// Why a program can't be loaded into the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum LoadError {
    #[error("this kernel does not describe its types (no {BTF}, CONFIG_DEBUG_INFO_BTF)")]
    NoTypes,
    #[error("the kernel does not allow it: CAP_BPF and CAP_PERFMON are needed")]
    NotAllowed(#[source] libbpf_rs::Error),
    #[error("the kernel does not take them")]
    Refused(#[source] libbpf_rs::Error),
}

impl LoadError {
    pub(crate) fn new(error: libbpf_rs::Error) -> Self {
        // A program that it does not take, the kernel refuses in the same way.
        match error.kind() {
            ErrorKind::PermissionDenied if !is_allowed() => Self::NotAllowed(error),
            _ => Self::Refused(error),
        }
    }
}

/// Whether this thread has what loading takes (capabilities(7)).
fn is_allowed() -> bool {
    let (these, or_all) = (
        CapabilitySet::BPF | CapabilitySet::PERFMON,
        CapabilitySet::SYS_ADMIN,
    );
    capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(these) || sets.effective.contains(or_all))
}

/// Addresses that begin alike, as the programs' maps have them: IPv4 ones as `::ffff:0:0/96`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    network: Ipv6Addr,
    bits: u32,
}

impl Prefix {
    /// Every address of both families.
    pub const ALL: Self = Self {
        network: Ipv6Addr::UNSPECIFIED,
        bits: 0,
    };

    /// One address.
    pub fn of(address: IpAddr) -> Self {
        Self::around(address, 128)
    }

    /// The addresses that have the first `len` bits of `address` in common; of IPv4 at most 32.
    pub fn around(address: IpAddr, len: u8) -> Self {
        let (network, bits) = match address.to_canonical() {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), 96 + u32::from(len.min(32))),
            IpAddr::V6(address) => (address, u32::from(len.min(128))),
        };
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        Self {
            network: Ipv6Addr::from_bits(network.to_bits() & mask),
            bits,
        }
    }

    pub(crate) fn encode(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&self.bits.to_ne_bytes());
        bytes[4..].copy_from_slice(&self.network.octets());
        bytes
    }
}

/// Where the kernel describes its types.
pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";

/// A map of a loaded object.
///
/// # Errors
/// When there is none of that name.
pub(crate) fn map(object: &Object, name: &str) -> libbpf_rs::Result<MapHandle> {
    let found = object.maps().find(|map| map.name() == name);
    let found = found.ok_or_else(|| {
        let error = io::Error::new(io::ErrorKind::NotFound, format!("no map `{name}`"));
        libbpf_rs::Error::from(error)
    })?;
    MapHandle::try_from(&found)
}

/// Has what libbpf says logged for those who look for the cause of a [`LoadError`].
pub(crate) fn log_debug() {
    libbpf_rs::set_print(Some((PrintLevel::Info, log)));
}

#[allow(clippy::needless_pass_by_value, reason = "libbpf-rs gives it so")]
fn log(_: PrintLevel, line: String) {
    tracing::debug!("{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_prefixes_are_mapped() {
        let one = Prefix::of(IpAddr::from([192, 0, 2, 7])).encode();
        assert_eq!(one[..4], 128_u32.to_ne_bytes());
        assert_eq!(one[14..], [0xff, 0xff, 192, 0, 2, 7]);
        let mapped = Prefix::of("::ffff:192.0.2.7".parse().unwrap());
        assert_eq!(mapped.encode(), one);
        assert_eq!(Prefix::ALL.encode(), [0; 20]);
        let net = Prefix::around(IpAddr::from([192, 0, 2, 7]), 24);
        assert_eq!(net.encode()[..4], 120_u32.to_ne_bytes());
        assert_eq!(net.encode()[14..], [0xff, 0xff, 192, 0, 2, 0]);
        let all = Prefix::around("2001:db8::".parse().unwrap(), 0);
        assert_eq!(all, Prefix::ALL);
    }
}
