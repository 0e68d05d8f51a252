//! A DNS server with the same HTTPS record for all names.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use hickory_proto::op::Message;
use hickory_proto::rr::rdata::HTTPS;
use hickory_proto::rr::rdata::svcb::{Alpn, SVCB, SvcParamKey, SvcParamValue};
use hickory_proto::rr::{Name, RData, Record, RecordType};

/// A DNS server; it ends when it is dropped.
pub(crate) struct Responder {
    address: std::net::SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    /// Starts one whose record has these protocols; it has no record without any.
    pub(crate) fn start(protocols: &[&str]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let end = Arc::<AtomicBool>::default();
        let protocols: Vec<_> = protocols.iter().map(|&name| name.to_owned()).collect();
        let (names, ended) = (Arc::clone(&asked), Arc::clone(&end));
        let thread = thread::spawn(move || {
            let mut bytes = [0; 1500];
            while let Ok((length, client)) = socket.recv_from(&mut bytes) {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let question = Message::from_vec(&bytes[..length]).unwrap();
                assert_eq!(question.queries[0].query_type(), RecordType::HTTPS);
                names
                    .lock()
                    .unwrap()
                    .push(question.queries[0].name().to_string());
                let answer = answer(question, &protocols).to_vec().unwrap();
                socket.send_to(&answer, client).unwrap();
            }
        });
        Self {
            address,
            asked,
            end,
            thread: Some(thread),
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// The names that it was asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let wake = UdpSocket::bind("127.0.0.1:0").unwrap();
        wake.send_to(b"end", self.address).unwrap();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(question: Message, protocols: &[String]) -> Message {
    let name = question.queries[0].name().clone();
    let mut answer = question.into_response();
    if !protocols.is_empty() {
        let alpn = SvcParamValue::Alpn(Alpn(protocols.to_vec()));
        let record = SVCB::new(1, Name::root(), vec![(SvcParamKey::Alpn, alpn)]);
        answer.add_answer(Record::from_rdata(name, 60, RData::HTTPS(HTTPS(record))));
    }
    answer
}
