//! The specification's sentences, and round trips.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

/// The header that an accurate reader finds in `bytes`, and the number of bytes that it has read.
fn read_all(bytes: &[u8]) -> (Result<Header, Fault>, usize) {
    let mut end = 0;
    loop {
        match read(&bytes[..end]) {
            Ok(Progress::Needs(count)) => {
                assert!(count > 0, "{end} of {bytes:?}");
                assert!(end + count <= bytes.len(), "more than there is: {bytes:?}");
                end += count;
            }
            Ok(Progress::Whole(header)) => return (Ok(header), end),
            Err(fault) => return (Err(fault), end),
        }
    }
}

fn client(source: &str, destination: &str) -> Result<Header, Fault> {
    Ok(Header::Client {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    })
}

fn malformed(got: Result<Header, Fault>) -> bool {
    matches!(got, Err(Fault::Malformed(_)))
}

/// A header of version 2 with these bytes behind its signature, and a length that fits them.
fn v2(version_and_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    let head = [&[version_and_command, family][..], &length].concat();
    [&v2::SIGNATURE[..], &head, rest].concat()
}

/// Addresses and ports of IPv4.
const ENDS: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 1, 0xc3, 0x50, 1, 0xbb];

#[test]
fn the_sentences_on_version_1() {
    let v4 = client("192.0.2.1:50000", "198.51.100.1:443");
    let v6 = client("[2001:db8::1]:50000", "[2001:db8::2]:443");
    let longest = format!("PROXY UNKNOWN {}", "x".repeat(91));
    let lines: [(&str, &str, Result<Header, Fault>); 8] = [
        (
            "TCP over IPv4",
            "PROXY TCP4 192.0.2.1 198.51.100.1 50000 443",
            v4,
        ),
        (
            "TCP over IPv6",
            "PROXY TCP6 2001:db8::1 2001:db8::2 50000 443",
            v6,
        ),
        (
            "the longest line of IPv6",
            "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535",
            client(
                "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
                "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
            ),
        ),
        (
            "the shortest of IPv4",
            "PROXY TCP4 1.1.1.1 1.1.1.2 0 1",
            client("1.1.1.1:0", "1.1.1.2:1"),
        ),
        (
            "the sender need not know the protocol",
            "PROXY UNKNOWN",
            Ok(Header::Own),
        ),
        (
            "what follows UNKNOWN is ignored",
            "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535",
            Ok(Header::Own),
        ),
        (
            "a line of 107 bytes is the longest",
            longest.as_str(),
            Ok(Header::Own),
        ),
        ("even without text", "PROXY UNKNOWN \u{e9}", Ok(Header::Own)),
    ];
    for (name, line, want) in lines {
        let bytes = format!("{line}\r\n").into_bytes();
        let followed = [&bytes[..], b"\x16\x03\x01\r\n"].concat();
        assert_eq!(read_all(&followed), (want, bytes.len()), "{name}");
    }
}

#[test]
fn malformed_lines_are_refused() {
    let lines = [
        ("a line has a protocol", "PROXY \r\n"),
        (
            "of those that are known",
            "PROXY TCP5 1.1.1.1 1.1.1.2 1 2\r\n",
        ),
        ("in capitals", "PROXY tcp4 1.1.1.1 1.1.1.2 1 2\r\n"),
        ("as a word", "PROXY UNKNOWNX\r\n"),
        ("with addresses", "PROXY TCP4 1 2\r\n"),
        ("of its family", "PROXY TCP4 ::1 ::2 1 2\r\n"),
        ("and no other", "PROXY TCP6 1.1.1.1 1.1.1.2 1 2\r\n"),
        (
            "without leading zeros",
            "PROXY TCP4 01.1.1.1 1.1.1.2 1 2\r\n",
        ),
        ("with ports", "PROXY TCP4 1.1.1.1 1.1.1.2\r\n"),
        ("two of them", "PROXY TCP4 1.1.1.1 1.1.1.2 1\r\n"),
        (
            "that are no more than 65535",
            "PROXY TCP4 1.1.1.1 1.1.1.2 1 65536\r\n",
        ),
        (
            "and have no leading zeros",
            "PROXY TCP4 1.1.1.1 1.1.1.2 01 2\r\n",
        ),
        ("nor a sign", "PROXY TCP4 1.1.1.1 1.1.1.2 +1 2\r\n"),
        (
            "exactly one space is between words",
            "PROXY TCP4  1.1.1.1 1.1.1.2 1 2\r\n",
        ),
        ("and none at the end", "PROXY TCP4 1.1.1.1 1.1.1.2 1 2 \r\n"),
        ("nor another word", "PROXY TCP4 1.1.1.1 1.1.1.2 1 2 3\r\n"),
        (
            "no single LF ends a line",
            "PROXY TCP4 1.1.1.1 1.1.1.2 1 2\n\r\n",
        ),
        ("even of UNKNOWN", "PROXY UNKNOWN\n\r\n"),
        ("nor a single CR", "PROXY UNKNOWN\rxy\r\n"),
    ];
    for (name, line) in lines {
        let bytes = [line.as_bytes(), &[b'x'; 120]].concat();
        let (got, _) = read_all(&bytes);
        assert!(malformed(got), "{name}: {got:?}");
    }
    let endless = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 120]].concat();
    let (got, length) = read_all(&endless);
    assert!(malformed(got), "a line ends within 107 bytes: {got:?}");
    assert_eq!(length, v1::LONGEST);
}

#[test]
fn the_sentences_on_version_2() {
    let v4 = client("192.0.2.1:50000", "198.51.100.1:443");
    let mut ends6 = [0; 36];
    ends6[..2].copy_from_slice(&[0x20, 0x01]);
    ends6[31] = 9;
    ends6[32..].copy_from_slice(&ENDS[8..]);
    let v6 = client("[2001::]:50000", "[::9]:443");
    let with = |ends: &[u8], fields: &[u8]| [ends, fields].concat();
    // A checksum, and no more (PP2_TYPE_CRC32C, PP2_TYPE_NOOP).
    let fields = [3, 0, 4, 1, 2, 3, 4, 4, 0, 0];
    let longest = with(&ENDS, &vec![4; v2::LONGEST_REST - ENDS.len()]);
    let cases = [
        ("TCP over IPv4", v2(0x21, 0x11, &ENDS), v4),
        ("TCP over IPv6", v2(0x21, 0x21, &ends6), v6),
        (
            "fields behind the addresses are skipped",
            v2(0x21, 0x11, &with(&ENDS, &fields)),
            v4,
        ),
        ("up to a bound", v2(0x21, 0x11, &longest), v4),
        (
            "LOCAL is the balancer's own connection",
            v2(0x20, 0x00, &[]),
            Ok(Header::Own),
        ),
        (
            "its block is discarded",
            v2(0x20, 0x11, &ENDS),
            Ok(Header::Own),
        ),
        (
            "including the family",
            v2(0x20, 0xff, &[1; 3]),
            Ok(Header::Own),
        ),
        (
            "an unspecified protocol has no address",
            v2(0x21, 0x00, &fields),
            Ok(Header::Own),
        ),
        (
            "a datagram is no connection",
            v2(0x21, 0x12, &ENDS),
            Ok(Header::Own),
        ),
        ("nor one of IPv6", v2(0x21, 0x22, &ends6), Ok(Header::Own)),
        (
            "a socket of Unix has no address",
            v2(0x21, 0x31, &[0; 216]),
            Ok(Header::Own),
        ),
        (
            "nor its datagrams",
            v2(0x21, 0x32, &[0; 216]),
            Ok(Header::Own),
        ),
    ];
    for (name, bytes, want) in cases {
        let followed = with(&bytes, b"\x16\x03\x01");
        assert_eq!(read_all(&followed), (want, bytes.len()), "{name}");
    }
}

#[test]
fn malformed_headers_are_refused() {
    let cases = [
        ("the version is 2", v2(0x11, 0x11, &ENDS)),
        ("and no later one", v2(0x31, 0x11, &ENDS)),
        ("the command is LOCAL or PROXY", v2(0x22, 0x11, &ENDS)),
        ("other families are refused", v2(0x21, 0x41, &ENDS)),
        ("as are other protocols", v2(0x21, 0x13, &ENDS)),
        ("and TCP without IP", v2(0x21, 0x01, &ENDS)),
        ("the addresses are whole", v2(0x21, 0x11, &ENDS[..11])),
        ("those of IPv6, too", v2(0x21, 0x21, &ENDS)),
        ("and those that say nothing", v2(0x21, 0x31, &[0; 215])),
        (
            "a header has a bound",
            v2(0x21, 0x11, &vec![0; v2::LONGEST_REST + 1]),
        ),
    ];
    for (name, bytes) in cases {
        let (got, _) = read_all(&bytes);
        assert!(malformed(got), "{name}: {got:?}");
    }
}

#[test]
fn bytes_of_others_are_no_header() {
    let cases: [(&str, &[u8]); 6] = [
        ("TLS", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03xxxxxxxx"),
        ("HTTP/1.1", b"GET / HTTP/1.1\r\n\r\n"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\n"),
        ("POST", b"POST / HTTP/1.1\r\n"),
        ("an empty line", b"\r\n\r\nGET / HTTP/1.1\r\n"),
        (
            "a signature with a fault",
            b"\r\n\r\n\0\r\nQUIT\r\x21\x11\0\0",
        ),
    ];
    for (name, bytes) in cases {
        assert_eq!(read_all(bytes).0, Err(Fault::Missing), "{name}");
        assert!(!begins(bytes), "{name}");
    }
    assert!(!begins(b"PROXY"), "too little to tell");
    assert!(begins(b"PROXY TCP4 "));
    assert!(begins(&v2(0x21, 0x11, &ENDS)));
}

/// Two ends of one family.
fn two_ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let addresses = prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|both| both.map(IpAddr::from)),
        any::<[[u8; 16]; 2]>().prop_map(|both| both.map(IpAddr::from)),
    ];
    (addresses, any::<[u16; 2]>()).prop_map(|([source, destination], ports)| {
        let end = |address, port| SocketAddr::new(address, port);
        (end(source, ports[0]), end(destination, ports[1]))
    })
}

fn encode_v1(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let protocol = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (source_port, destination_port) = (source.port(), destination.port());
    let (source, destination) = (source.ip(), destination.ip());
    format!("PROXY {protocol} {source} {destination} {source_port} {destination_port}\r\n").into()
}

fn encode_v2(source: SocketAddr, destination: SocketAddr, fields: &[u8]) -> Vec<u8> {
    let octets = |end: SocketAddr| match end.ip() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let ports = [source, destination].map(|end| end.port().to_be_bytes());
    let family = if source.is_ipv4() { 0x11 } else { 0x21 };
    let rest = [
        octets(source),
        octets(destination),
        ports.concat(),
        fields.to_vec(),
    ];
    v2(0x21, family, &rest.concat())
}

proptest! {
    #[test]
    fn headers_are_read_as_they_were_written(
        (source, destination) in two_ends(),
        fields in proptest::collection::vec(any::<u8>(), 0..300),
        behind in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        for header in [
            encode_v1(source, destination),
            encode_v2(source, destination, &fields),
        ] {
            let bytes = [&header[..], &behind].concat();
            let want = Ok(Header::Client { source, destination });
            prop_assert_eq!(read_all(&bytes), (want, header.len()));
            for end in 0..header.len() {
                let got = read(&header[..end]);
                let Ok(Progress::Needs(count)) = got else {
                    return Err(TestCaseError::fail(format!("{end}: {got:?}")));
                };
                prop_assert!(end + count <= header.len(), "{} more at {}", count, end);
            }
        }
    }

    #[test]
    fn whatever_comes_is_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for begin in [&b""[..], b"PROXY ", b"PROXY TCP4 ", &v2::SIGNATURE, b"\r\n\r\n\0\r\nQUIT\n\x21"] {
            let bytes = [begin, &bytes].concat();
            if let Ok(Progress::Needs(count)) = read(&bytes) {
                prop_assert!(count > 0 && bytes.len() + count <= 16 + v2::LONGEST_REST);
            }
        }
    }
}
