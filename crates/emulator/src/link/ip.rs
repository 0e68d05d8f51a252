//! Reading and changing IP headers for the pump.

use std::net::IpAddr;

use hikyaku_netsim::PacketInfo;

/// Protocol numbers (IANA).
const HOP_BY_HOP: u8 = 0;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_ROUTE: u8 = 43;
const IPV6_FRAGMENT: u8 = 44;
const IPV6_OPTIONS: u8 = 60;

/// The ECN field (RFC 3168 §5): not ECN-capable, and congestion experienced.
const NOT_ECT: u8 = 0b00;
const CE: u8 = 0b11;

/// Describes a packet that is `len` bytes long and begins with the headers in `packet`. Anything
/// but IP is an ordinary packet.
pub(super) fn describe(packet: &[u8], len: u32) -> PacketInfo {
    let ecn = ecn(packet);
    PacketInfo {
        len,
        udp: transport(packet).is_some_and(|transport| transport.protocol == UDP),
        ect: ecn.is_some_and(|ecn| ecn != NOT_ECT && ecn != CE),
    }
}

/// Returns source and destination; `None` for anything but IP.
pub(super) fn addresses(packet: &[u8]) -> Option<[IpAddr; 2]> {
    header_len(packet)?;
    Some(match packet[0] >> 4 {
        4 => [12, 16].map(|at| IpAddr::from(bytes::<4>(packet, at))),
        _ => [8, 24].map(|at| IpAddr::from(bytes::<16>(packet, at))),
    })
}

fn bytes<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| packet[at + i])
}

/// Returns the protocol, and the ports of TCP and UDP if the packet has them. A fragment behind the
/// first one has payload in their place.
pub(super) fn flow(packet: &[u8]) -> (Option<u8>, Option<[u16; 2]>) {
    let Some(Transport {
        protocol,
        start,
        offset,
    }) = transport(packet)
    else {
        return (None, None);
    };
    if offset != 0 {
        return (Some(protocol), None);
    }
    let ports = packet.get(start..start + 4).and_then(|ports| {
        let ports = [[ports[0], ports[1]], [ports[2], ports[3]]].map(u16::from_be_bytes);
        (protocol == TCP || protocol == UDP).then_some(ports)
    });
    (Some(protocol), ports)
}

/// Returns the length of the IP header that has the ECN field and its checksum.
pub(super) fn header_len(packet: &[u8]) -> Option<usize> {
    let len = match packet.first()? >> 4 {
        4 => usize::from(packet[0] & 0x0f) * 4,
        6 => 40,
        _ => return None,
    };
    (20..=packet.len()).contains(&len).then_some(len)
}

/// Marks an IP header with congestion experienced.
pub(super) fn mark_ce(header: &mut [u8]) {
    match header[0] >> 4 {
        4 => {
            header[1] |= CE;
            update_checksum(header);
        }
        // The traffic class begins in the middle of the first byte.
        6 => header[1] |= CE << 4,
        _ => {}
    }
}

/// Writes the checksum of a whole IPv4 header.
pub(super) fn update_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = !fold(sum(header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Replaces one addend of a ones' complement sum (RFC 1624).
pub(super) fn replace_in_sum(field: &mut [u8], old: usize, new: usize) {
    let before = u32::from(u16::from_be_bytes([field[0], field[1]]));
    let after = fold(before + u32::from(!(old as u16)) + new as u32);
    field.copy_from_slice(&after.to_be_bytes());
}

/// Returns the sum of 16-bit words (RFC 1071).
pub(super) fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|word| match *word {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    words.sum()
}

pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn ecn(packet: &[u8]) -> Option<u8> {
    let second = *packet.get(1)?;
    match packet[0] >> 4 {
        4 => Some(second & 0b11),
        6 => Some((second >> 4) & 0b11),
        _ => None,
    }
}

/// The position of the content behind the IP header and IPv6 extension headers.
struct Transport {
    protocol: u8,
    /// Offset of its first byte.
    start: usize,
    /// Offset of a fragment within the whole packet, in units of 8 B.
    offset: u16,
}

/// Passes over the IP header (RFC 791 §3.1) and extension headers (RFC 8200 §4).
fn transport(packet: &[u8]) -> Option<Transport> {
    let mut start = header_len(packet)?;
    if packet[0] >> 4 == 4 {
        // The flags are above the offset.
        let offset = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
        return Some(Transport {
            protocol: packet[9],
            start,
            offset,
        });
    }
    let mut protocol = packet[6];
    let mut offset = 0;
    while let HOP_BY_HOP | IPV6_ROUTE | IPV6_FRAGMENT | IPV6_OPTIONS = protocol
        && offset == 0
    {
        let extension = packet.get(start..start + 8)?;
        let mut more = extension[1];
        if protocol == IPV6_FRAGMENT {
            // Its second byte is reserved, since its length is fixed. The flags are below the
            // offset.
            more = 0;
            offset = u16::from_be_bytes([extension[2], extension[3]]) >> 3;
        }
        protocol = extension[0];
        start += 8 + usize::from(more) * 8;
    }
    Some(Transport {
        protocol,
        start,
        offset,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(protocol: u8, tos: u8) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 28, 0, 1, 0, 0, 64, protocol, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        update_checksum(&mut packet);
        packet.extend([0x04, 0xd2, 0x01, 0xbb, 0, 8, 0, 0]);
        packet
    }

    fn v6(class: u8, next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![
            0x60 | class >> 4,
            class << 4,
            0,
            0,
            0,
            rest.len() as u8,
            next,
            64,
        ];
        packet.extend([0xfd; 32]);
        packet.extend(rest);
        packet
    }

    #[test]
    fn packets_are_described() {
        let ports = [0x04, 0xd2, 0x01, 0xbb];
        let routed = [&[UDP, 2][..], &[0; 22], &ports].concat();
        let fragment = [&[UDP, 9, 0, 0, 0, 0, 0, 1][..], &ports].concat();
        let later = [&[UDP, 0, 0, 8, 0, 0, 0, 1][..], &ports].concat();
        let v4_fragment = |high: u8, low: u8| {
            let mut packet = v4(UDP, 0);
            packet[6..8].copy_from_slice(&[high, low]);
            packet
        };
        let tunnel = [&[41, 0, 0, 0, 0, 0, 0, 0][..], &v4(UDP, 0)].concat();
        let some = Some([1234, 443]);
        let cases = [
            // name, packet, UDP, ECT, ports
            ("UDP", v4(UDP, 0b00), true, false, some),
            ("TCP, ECT(0)", v4(TCP, 0b10), false, true, some),
            ("ECT(1)", v4(TCP, 0b1011_1001), false, true, some),
            ("CE", v4(TCP, 0b11), false, false, some),
            ("ICMP", v4(1, 0), false, false, None),
            ("IPv6", v6(0, UDP, &ports), true, false, some),
            (
                "IPv6, ECT(0)",
                v6(0b1010_0010, TCP, &ports),
                false,
                true,
                some,
            ),
            (
                "behind a routing header",
                v6(0, IPV6_ROUTE, &routed),
                true,
                false,
                some,
            ),
            (
                "a fragment",
                v6(0, IPV6_FRAGMENT, &fragment),
                true,
                false,
                some,
            ),
            (
                "a later fragment",
                v6(0, IPV6_FRAGMENT, &later),
                true,
                false,
                None,
            ),
            (
                "IPv4, not to be fragmented",
                v4_fragment(0x40, 0),
                true,
                false,
                some,
            ),
            (
                "IPv4, the first fragment",
                v4_fragment(0x20, 0),
                true,
                false,
                some,
            ),
            (
                "IPv4, a later fragment",
                v4_fragment(0x20, 1),
                true,
                false,
                None,
            ),
            (
                "inside a tunnel",
                v6(0, IPV6_ROUTE, &tunnel),
                false,
                false,
                None,
            ),
            ("cut off", v6(0, IPV6_ROUTE, &[]), false, false, None),
            ("nothing", Vec::new(), false, false, None),
            ("not IP", vec![0x10; 40], false, false, None),
        ];
        for (name, packet, udp, ect, ports) in cases {
            let want = PacketInfo { len: 7, udp, ect };
            assert_eq!(describe(&packet, 7), want, "{name}");
            assert_eq!(flow(&packet).1, ports, "{name}");
        }
    }

    #[test]
    fn packets_have_two_ends() {
        let v4_ends = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        assert_eq!(addresses(&v4(UDP, 0)), Some(v4_ends));
        let mut packet = v6(0, UDP, &[]);
        (packet[23], packet[39]) = (1, 2);
        let end = |last: u8| format!("fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fd{last:02x}");
        let v6_ends = [1, 2].map(|last| end(last).parse().unwrap());
        assert_eq!(addresses(&packet), Some(v6_ends));
        assert_eq!(addresses(&packet[..39]), None);
        assert_eq!(addresses(&[0x10; 40]), None);
    }

    #[test]
    fn marking_changes_the_field_alone() {
        let mut packet = v4(TCP, 0b1011_1010);
        let len = header_len(&packet).unwrap();
        mark_ce(&mut packet[..len]);
        assert_eq!(packet, v4(TCP, 0b1011_1011));
        assert_eq!(fold(sum(&packet[..20])), 0xffff);

        let mut packet = v6(0b1011_1001, TCP, &[]);
        mark_ce(&mut packet);
        assert_eq!(packet, v6(0b1011_1011, TCP, &[]));
    }
}
