use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::ip::{fold, sum};
use super::*;

/// The properties of a frame that tests need, read independently of the code under test.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    gso_type: u8,
    ip_id: Option<u16>,
    sequence: Option<u32>,
    tcp_flags: Option<u8>,
    payload: Vec<u8>,
}

const SOURCE_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const TARGET_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const TARGET_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

const ALL_FLAGS: u8 = TCP_FIN | TCP_PSH | TCP_CWR | 0x10;

fn pseudo_header(v6: bool, protocol: u8, len: usize) -> Vec<u8> {
    let mut pseudo = Vec::new();
    if v6 {
        pseudo.extend(SOURCE_V6.octets());
        pseudo.extend(TARGET_V6.octets());
        pseudo.extend((len as u32).to_be_bytes());
        pseudo.extend([0, 0, 0, protocol]);
    } else {
        pseudo.extend(SOURCE_V4.octets());
        pseudo.extend(TARGET_V4.octets());
        pseudo.extend([0, protocol]);
        pseudo.extend((len as u16).to_be_bytes());
    }
    pseudo
}

/// Makes a super-packet as the kernel delivers it, with `options` bytes of TCP options.
fn frame(v6: bool, tcp: bool, options: usize, gso_size: u16, payload: &[u8]) -> Vec<u8> {
    let (protocol, transport_len) = if tcp { (6, 20 + options) } else { (17, 8) };
    let content_len = transport_len + payload.len();
    let ip = if v6 {
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend((content_len as u16).to_be_bytes());
        ip.extend([protocol, 64]);
        ip.extend(SOURCE_V6.octets());
        ip.extend(TARGET_V6.octets());
        ip
    } else {
        let mut ip = vec![0x45, 0];
        ip.extend((20 + content_len as u16).to_be_bytes());
        ip.extend([0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0]);
        ip.extend(SOURCE_V4.octets());
        ip.extend(TARGET_V4.octets());
        let checksum = !fold(sum(&ip));
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        ip
    };
    let transport_start = ip.len();
    let mut transport = vec![0; transport_len];
    let checksum_offset = if tcp {
        transport[4..8].copy_from_slice(&0xffff_ff00_u32.to_be_bytes());
        transport[12] = ((transport_len / 4) as u8) << 4;
        transport[13] = ALL_FLAGS;
        16
    } else {
        transport[4..6].copy_from_slice(&(content_len as u16).to_be_bytes());
        6
    };
    let partial = fold(sum(&pseudo_header(v6, protocol, content_len)));
    transport[checksum_offset..checksum_offset + 2].copy_from_slice(&partial.to_be_bytes());

    let gso_type = match (tcp, v6) {
        (true, false) => GSO_TCPV4 | GSO_ECN,
        (true, true) => GSO_TCPV6 | GSO_ECN,
        (false, _) => GSO_UDP_L4,
    };
    let mut frame = vec![1, gso_type];
    for field in [
        transport_start + transport_len,
        gso_size.into(),
        transport_start,
        checksum_offset,
    ] {
        frame.extend((field as u16).to_ne_bytes());
    }
    frame.extend(ip);
    frame.extend(transport);
    frame.extend(payload);
    frame
}

/// Reads a frame back and checks all its lengths and sums.
fn check(frame: &[u8]) -> Seen {
    let field = |at: usize| usize::from(u16::from_ne_bytes([frame[at], frame[at + 1]]));
    let (headers_len, start, checksum_offset) = (field(2), field(6), field(8));
    let packet = &frame[VNET_HEADER..];
    let v6 = packet[0] >> 4 == 6;
    let be = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    if v6 {
        assert_eq!(usize::from(be(4)), packet.len() - 40);
    } else {
        assert_eq!(usize::from(be(2)), packet.len());
        assert_eq!(fold(sum(&packet[..20])), 0xffff, "header checksum");
    }
    let protocol = if v6 { packet[6] } else { packet[9] };
    let transport_len = packet.len() - start;
    let partial = be(start + checksum_offset);
    let whole = fold(sum(&pseudo_header(v6, protocol, transport_len)));
    // Ones' complement has two zeros.
    assert_eq!(partial % 0xffff, whole % 0xffff, "partial checksum");
    let tcp = protocol == 6;
    if !tcp {
        assert_eq!(usize::from(be(start + 4)), transport_len);
    }
    Seen {
        gso_type: frame[GSO_TYPE],
        ip_id: (!v6).then(|| be(4)),
        sequence: tcp.then(|| (u32::from(be(start + 4)) << 16) | u32::from(be(start + 6))),
        tcp_flags: tcp.then(|| packet[start + 13]),
        payload: packet[headers_len..].to_vec(),
    }
}

fn run_of(packet: &SuperPacket, run: Range<usize>) -> Vec<u8> {
    let mut out = Vec::new();
    let payload = packet.run(run, false, &mut out).to_vec();
    out.extend(payload);
    out
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[test]
fn tcp_runs_have_the_headers_of_their_place() {
    let payload = bytes(3_500);
    let packet = SuperPacket::parse(&frame(false, true, 12, 1_000, &payload)).unwrap();
    assert_eq!(packet.segments(), 4);
    assert_eq!((packet.segment_len(0), packet.segment_len(3)), (1_052, 552));
    const ACK: u8 = 0x10;
    let cases = [
        // name, run, gso type, id, sequence, flags, payload
        (
            "first",
            0..1,
            GSO_NONE,
            0xfffe,
            0xffff_ff00,
            TCP_CWR | ACK,
            0..1_000,
        ),
        ("middle", 1..2, GSO_NONE, 0xffff, 0x2e8, ACK, 1_000..2_000),
        (
            "last",
            3..4,
            GSO_NONE,
            1,
            0xab8,
            TCP_FIN | TCP_PSH | ACK,
            3_000..3_500,
        ),
        (
            "first two",
            0..2,
            GSO_TCPV4 | GSO_ECN,
            0xfffe,
            0xffff_ff00,
            TCP_CWR | ACK,
            0..2_000,
        ),
        (
            "last three",
            1..4,
            GSO_TCPV4,
            0xffff,
            0x2e8,
            TCP_FIN | TCP_PSH | ACK,
            1_000..3_500,
        ),
    ];
    for (name, run, gso_type, id, sequence, flags, part) in cases {
        let want = Seen {
            gso_type,
            ip_id: Some(id),
            sequence: Some(sequence),
            tcp_flags: Some(flags),
            payload: payload[part].to_vec(),
        };
        assert_eq!(check(&run_of(&packet, run)), want, "{name}");
    }
}

#[test]
fn the_whole_run_is_the_frame_as_it_came() {
    let frame = frame(true, true, 12, 1_000, &bytes(3_500));
    let packet = SuperPacket::parse(&frame).unwrap();
    assert_eq!(run_of(&packet, 0..4), frame);
}

#[test]
fn a_marked_run_differs_in_its_ip_header_alone() {
    let mark = |packet: &SuperPacket, run: Range<usize>| {
        let mut out = Vec::new();
        let payload = packet.run(run, true, &mut out).to_vec();
        out.extend(payload);
        out
    };
    let field = VNET_HEADER + 1;
    for v6 in [false, true] {
        let frame = frame(v6, true, 12, 1_000, &bytes(3_500));
        let packet = SuperPacket::parse(&frame).unwrap();
        for run in [0..4, 1..3, 3..4] {
            let (plain, marked) = (run_of(&packet, run.clone()), mark(&packet, run));
            assert_eq!(check(&plain), check(&marked));
            let changed = (0..plain.len()).filter(|&i| plain[i] != marked[i]);
            let checksum = VNET_HEADER + 10..VNET_HEADER + 12;
            let beside: Vec<usize> = changed
                .filter(|i| *i != field && (v6 || !checksum.contains(i)))
                .collect();
            assert!(beside.is_empty(), "{beside:?}");
            let ecn = (marked[field] >> if v6 { 4 } else { 0 }) & 0b11;
            assert_eq!(ecn, 0b11);
        }
    }
}

#[test]
fn a_plain_packet_is_one_segment() {
    let mut frame = vec![0; VNET_HEADER];
    frame.extend([0x45, 0, 0, 20]);
    frame.extend([0; 16]);
    let packet = SuperPacket::parse(&frame).unwrap();
    assert_eq!((packet.segments(), packet.segment_len(0)), (1, 20));
    assert_eq!(run_of(&packet, 0..1), frame);
}

proptest! {
    #[test]
    fn segments_carry_the_whole_payload_in_order(
        v6: bool, tcp: bool, options in 0_usize..=10,
        gso_size in 1_u16..=1_460, len in 1_usize..20_000,
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let payload = bytes(len.min(usize::from(gso_size) * 64));
        let packet = SuperPacket::parse(&frame(v6, tcp, options * 4, gso_size, &payload)).unwrap();
        let segments = packet.segments();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(segments)).collect();
        cuts.extend([0, segments]);
        cuts.sort_unstable();
        cuts.dedup();
        let mut joined = Vec::new();
        for run in cuts.windows(2) {
            let frame = run_of(&packet, run[0]..run[1]);
            let seen = check(&frame);
            prop_assert_eq!(seen.gso_type == GSO_NONE, run[1] - run[0] == 1 && segments > 1);
            let lens: usize = (run[0]..run[1]).map(|i| packet.segment_len(i)).sum();
            let headers = packet.segment_len(0) - payload.len().min(gso_size.into());
            prop_assert_eq!(lens, seen.payload.len() + headers * (run[1] - run[0]));
            joined.extend(seen.payload);
        }
        prop_assert_eq!(joined, payload);
    }

    #[test]
    fn any_frame_is_refused_or_can_be_split(mut frame: Vec<u8>, tame: bool) {
        if tame && frame.len() > 20 {
            // Plausible enough to get past the first checks.
            frame[1] = [GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4][usize::from(frame[0]) % 3];
            frame[2..10].copy_from_slice(&[0, 0, 9, 0, 20, 0, 6, 0]);
            frame[10] = 0x45;
        }
        let Ok(packet) = SuperPacket::parse(&frame) else { return Ok(()) };
        for index in 0..packet.segments() {
            prop_assert!(packet.segment_len(index) <= frame.len());
            run_of(&packet, index..index + 1);
            packet.run(0..index + 1, true, &mut Vec::new());
        }
    }
}
