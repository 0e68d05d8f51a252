//! HTTPS records of the sites' names (RFC 9460).

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::rdata::svcb::SvcParamValue;
use hickory_proto::rr::{Name, RData, RecordType};
use hikyaku_edge::Config;

use super::{Files, System};

/// Names that are asked for at most, so that a server of many sites asks no flood.
const MAX_NAMES: usize = 16;
/// The time for one attempt, of two.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer over UDP.
const MAX_ANSWER: usize = 4096;

/// The protocols that HTTPS records name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dns {
    /// The server that was asked.
    pub(crate) resolver: Option<SocketAddr>,
    /// Of each name the protocols (RFC 9460 §7.1), or why there is no answer.
    pub(crate) names: Vec<(String, Result<Vec<String>, String>)>,
}

impl Dns {
    /// Asks for each name; for none without a DNS server.
    pub(super) fn ask(resolver: Option<SocketAddr>, names: Vec<String>) -> Self {
        let Some(server) = resolver else {
            return Self::default();
        };
        let names = thread::scope(|scope| {
            let asked: Vec<_> = names
                .into_iter()
                .map(|name| {
                    let question = name.clone();
                    (name, scope.spawn(move || protocols(server, &question)))
                })
                .collect();
            let failed = || Err("the thread that asks failed".to_owned());
            let answers = asked.into_iter().map(|(name, answer)| {
                let answer = answer.join().unwrap_or_else(|_| failed());
                (name, answer)
            });
            answers.collect()
        });
        Self { resolver, names }
    }
}

/// The DNS server of the system (resolv.conf(5)).
pub(super) fn resolver(system: &System) -> Option<SocketAddr> {
    let text = system.text("etc/resolv.conf")?;
    let mut servers = text
        .lines()
        .filter_map(|l| l.trim().strip_prefix("nameserver"));
    let address = servers.find_map(|address| address.trim().parse::<IpAddr>().ok())?;
    Some(SocketAddr::new(address, 53))
}

/// The names by which clients ask: those of sites and certificates.
pub(super) fn names(config: &Config, certificates: &[Files]) -> Vec<String> {
    let sites = config.sites.iter().flat_map(|site| &site.names);
    let certificates = certificates
        .iter()
        .filter_map(|files| files.leaf.as_ref().ok());
    let certificates = certificates.flat_map(|leaf| &leaf.names);
    let own = config.tls.names.iter().chain(&config.tls.acme);
    let all = sites.chain(own).chain(certificates);
    // A wildcard and an address have no HTTPS record, and nobody asks DNS for localhost.
    let is_asked = |name: &&String| {
        name.contains('.') && !name.starts_with("*.") && name.parse::<IpAddr>().is_err()
    };
    let names: BTreeSet<_> = all
        .filter(is_asked)
        .map(|name| name.to_ascii_lowercase())
        .collect();
    names.into_iter().take(MAX_NAMES).collect()
}

/// The protocols that the HTTPS records of a name have.
fn protocols(server: SocketAddr, name: &str) -> Result<Vec<String>, String> {
    let wrong = |error: &dyn std::fmt::Display| error.to_string();
    let mut name = Name::from_ascii(name).map_err(|error| wrong(&error))?;
    name.set_fqdn(true);
    let mut question = Message::query();
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(name, RecordType::HTTPS));
    let bytes = question.to_vec().map_err(|error| wrong(&error))?;
    let mut last = String::new();
    for _ in 0..2 {
        match exchange(server, &bytes, question.metadata.id) {
            Ok(answer) => return read(&answer),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

fn read(answer: &Message) -> Result<Vec<String>, String> {
    match answer.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        code => return Err(format!("the DNS server answers {code}")),
    }
    let records = answer
        .answers
        .iter()
        .filter_map(|record| match &record.data {
            RData::HTTPS(https) => Some(&https.svc_params),
            _ => None,
        });
    let protocols = records.flatten().filter_map(|(_, value)| match value {
        SvcParamValue::Alpn(alpn) => Some(alpn.0.clone()),
        _ => None,
    });
    let protocols: BTreeSet<_> = protocols.flatten().collect();
    Ok(protocols.into_iter().collect())
}

/// Asks over UDP, and over TCP if the answer does not fit (RFC 1035 §4.2).
fn exchange(server: SocketAddr, question: &[u8], id: u16) -> io::Result<Message> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(question)?;
    let mut bytes = [0; MAX_ANSWER];
    let length = socket.recv(&mut bytes)?;
    let answer = parse(&bytes[..length], id)?;
    match answer.metadata.truncation {
        true => parse(&exchange_over_tcp(server, question)?, id),
        false => Ok(answer),
    }
}

fn exchange_over_tcp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn parse(bytes: &[u8], id: u16) -> io::Result<Message> {
    let answer = Message::from_vec(bytes).map_err(io::Error::other)?;
    match answer.metadata.id == id {
        true => Ok(answer),
        false => Err(io::Error::other("an answer to another question came")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use hickory_proto::rr::Record;
    use hickory_proto::rr::rdata::HTTPS;
    use hickory_proto::rr::rdata::svcb::{Alpn, SVCB, SvcParamKey};

    use super::*;
    use crate::doctor::facts::system::tests::system;

    #[test]
    fn the_first_usable_server_is_asked() {
        let cases = [
            ("", None),
            ("# nameserver 192.0.2.1\n", None),
            (
                "search a\nnameserver 192.0.2.1\nnameserver 192.0.2.2",
                Some("192.0.2.1:53"),
            ),
            (
                "nameserver fe80::1%eth0\nnameserver 2001:db8::1\n",
                Some("[2001:db8::1]:53"),
            ),
        ];
        for (text, want) in cases {
            let (_dir, system) = system(&[("etc/resolv.conf", text)]);
            let got = resolver(&system).map(|address| address.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }

    #[test]
    fn names_of_clients_are_asked_for_once() {
        let site = |names: &[&str]| hikyaku_edge::config::SiteSection {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            ..Default::default()
        };
        let config = Config {
            sites: vec![
                site(&["www.example.org", "*.example.org", "192.0.2.7"]),
                site(&["WWW.example.org", "localhost", "example.org"]),
            ],
            ..Config::default()
        };
        assert_eq!(names(&config, &[]), ["example.org", "www.example.org"]);
    }

    fn record(protocols: &[&str]) -> Record {
        let alpn = Alpn(protocols.iter().map(|&name| name.to_owned()).collect());
        let params = vec![(SvcParamKey::Alpn, SvcParamValue::Alpn(alpn))];
        let data = HTTPS(SVCB::new(1, Name::root(), params));
        Record::from_rdata(Name::root(), 60, RData::HTTPS(data))
    }

    /// Binds a port that is free on both.
    fn bind() -> (TcpListener, UdpSocket) {
        loop {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                return (tcp, udp);
            }
        }
    }

    #[test]
    fn an_answer_that_does_not_fit_is_fetched_over_tcp() {
        let (tcp, udp) = bind();
        let address = udp.local_addr().unwrap();
        let serving = thread::spawn(move || {
            let mut bytes = [0; 512];
            let (length, client) = udp.recv_from(&mut bytes).unwrap();
            let mut cut = Message::from_vec(&bytes[..length]).unwrap().into_response();
            cut.metadata.truncation = true;
            udp.send_to(&cut.to_vec().unwrap(), client).unwrap();
            let (mut stream, _) = tcp.accept().unwrap();
            let mut again = vec![0; 2 + length];
            stream.read_exact(&mut again).unwrap();
            assert_eq!(again[2..], bytes[..length]);
            let mut whole = Message::from_vec(&again[2..]).unwrap().into_response();
            whole.add_answer(record(&["h3"]));
            let whole = whole.to_vec().unwrap();
            let length = (whole.len() as u16).to_be_bytes();
            stream.write_all(&[&length[..], &whole].concat()).unwrap();
        });
        let found = protocols(address, "www.example.test");
        assert_eq!(found, Ok(vec!["h3".to_owned()]));
        serving.join().unwrap();
    }

    #[test]
    fn protocols_of_all_records_are_read() {
        let mut answer = Message::query().into_response();
        assert_eq!(read(&answer), Ok(Vec::new()));
        answer.add_answer(record(&["h3", "h2"]));
        answer.add_answer(record(&["h2"]));
        assert_eq!(read(&answer), Ok(vec!["h2".to_owned(), "h3".to_owned()]));
        answer.metadata.response_code = ResponseCode::ServFail;
        assert!(
            read(&answer)
                .unwrap_err()
                .contains("the DNS server answers")
        );
    }
}
