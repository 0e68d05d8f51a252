//! Messages of `NETLINK_ROUTE` about IPv6 routes and rules (rtnetlink(7)).

use std::net::Ipv6Addr;

use super::{Prefix, What};

const HEADER: usize = 16;
const NEWROUTE: u16 = 24;
const DELROUTE: u16 = 25;
const NEWRULE: u16 = 32;
const DELRULE: u16 = 33;

/// Length of `struct rtmsg` and `struct fib_rule_hdr`, which begin alike.
const BODY: usize = 12;
const IPV6: u8 = 10;

const RTA_DST: u16 = 1;
const RTA_GATEWAY: u16 = 5;
const RTA_TABLE: u16 = 15;
/// In rules the same number: `FRA_TABLE`.
const FRA_TABLE: u16 = RTA_TABLE;

/// Returns the changes in the kernel's messages, each with its table.
pub(super) fn parse(mut bytes: &[u8]) -> Vec<(u32, What)> {
    let mut changes = Vec::new();
    while let Some((length, kind)) = header(bytes) {
        let message = &bytes[HEADER..length];
        changes.extend(change(kind, message));
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    changes
}

/// Returns the length of the first message with its header, and its type.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let length = number(bytes.get(..4)?)? as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    (HEADER..=bytes.len())
        .contains(&length)
        .then_some((length, kind))
}

fn change(kind: u16, message: &[u8]) -> Option<(u32, What)> {
    let (body, attributes) = message.split_at_checked(BODY)?;
    let [IPV6, length, _, _, table, ..] = *body else {
        return None;
    };
    let attribute = |wanted| find(attributes, wanted);
    let address = |wanted| attribute(wanted).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let table = attribute(RTA_TABLE)
        .and_then(number)
        .unwrap_or(table.into());
    let prefix = || -> Prefix { (address(RTA_DST).unwrap_or_default().into(), length) };
    let what = match kind {
        NEWROUTE => What::Route {
            prefix: prefix(),
            gateway: address(RTA_GATEWAY).map(Ipv6Addr::from),
        },
        DELROUTE => What::NoRoute { prefix: prefix() },
        NEWRULE | DELRULE => {
            attribute(FRA_TABLE)?;
            match kind {
                NEWRULE => What::Rule,
                _ => What::NoRule,
            }
        }
        _ => return None,
    };
    Some((table, what))
}

/// Returns the value of the first attribute of a type.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(aligned(length)..)?;
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Rounds up, since messages and attributes begin at multiples of four.
const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn message(kind: u16, family: u8, table: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![family, 48, 0, 0, table, 200, 0, 1, 0, 0, 0, 0];
        body.extend(attributes.concat());
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn routes_and_rules_are_parsed() {
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let destination = attribute(RTA_DST, &address("2001:db8:c::").octets());
        let gateway = attribute(RTA_GATEWAY, &address("2001:db8:5::b1").octets());
        let table = attribute(RTA_TABLE, &10_001_u32.to_ne_bytes());
        let prefix = (address("2001:db8:c::"), 48);
        let bytes = [
            message(NEWROUTE, IPV6, 254, &[destination.clone(), gateway.clone()]),
            message(NEWROUTE, 2, 254, std::slice::from_ref(&gateway)),
            message(
                DELROUTE,
                IPV6,
                252,
                &[attribute(9, &[1]), table.clone(), destination],
            ),
            message(DELRULE, IPV6, 252, &[table]),
            message(NEWRULE, IPV6, 252, &[]),
        ]
        .concat();
        let route = What::Route {
            prefix,
            gateway: Some(address("2001:db8:5::b1")),
        };
        let want = [
            (254, route),
            (10_001, What::NoRoute { prefix }),
            (10_001, What::NoRule),
        ];
        assert_eq!(parse(&bytes), want);
        for end in 0..bytes.len() {
            // Whatever is missing, the parser reads nothing beyond.
            assert!(parse(&bytes[..end]).len() <= want.len());
        }
    }
}
