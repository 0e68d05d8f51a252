//! A client's and a server's engine against each other, under any schedule.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hikyaku_h3::connection::{Config, Connection, End, Event, Outgoing};
use hikyaku_h3::message::{Head, RequestHead};
use hikyaku_h3::stream::{Read, Reader, Writer};
use http::{HeaderMap, Method, Request, StatusCode, response};
use proptest::prelude::*;

/// Bytes on their way to one side, by stream, and whether the stream ends with them.
type Way = BTreeMap<u64, (BytesMut, bool)>;

/// A message without its first line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Message {
    first: String,
    headers: HeaderMap,
    content: Vec<u8>,
    trailers: HeaderMap,
}

/// A reader and the parts that it has read.
struct Reading<H> {
    reader: Reader<H>,
    message: Message,
    blocked: bool,
}

impl<H: Head> Reading<H> {
    fn new(reader: Reader<H>) -> Self {
        Self {
            reader,
            message: Message::default(),
            blocked: false,
        }
    }

    /// Reads on. Returns whether the message is complete.
    fn advance(
        &mut self,
        connection: &mut Connection,
        head: impl Fn(H) -> (String, HeaderMap),
    ) -> bool {
        loop {
            let read = self
                .reader
                .poll(|| &mut *connection)
                .expect("a valid message");
            self.blocked = matches!(read, Read::Blocked);
            match read {
                Read::Head(parts) => (self.message.first, self.message.headers) = head(parts),
                Read::Data(data) => self.message.content.extend_from_slice(&data),
                Read::Trailers(trailers) => self.message.trailers = trailers,
                Read::End => return true,
                Read::NeedsInput | Read::Blocked => return false,
                Read::TooLarge => panic!("a section within its limit is too large"),
            }
        }
    }
}

struct Pair {
    client: Connection,
    server: Connection,
    to_server: Way,
    to_client: Way,
    requests: BTreeMap<u64, (Reading<RequestHead>, Writer<response::Parts>)>,
    responses: BTreeMap<u64, Reading<response::Parts>>,
    received: BTreeMap<u64, Message>,
    answered: BTreeMap<u64, Message>,
    ever_blocked: bool,
}

fn request_line(head: RequestHead) -> (String, HeaderMap) {
    let first = format!("{} {}", head.parts.method, head.parts.uri);
    (first, head.parts.headers)
}

fn status_line(parts: response::Parts) -> (String, HeaderMap) {
    (parts.status.to_string(), parts.headers)
}

impl Pair {
    fn new(config: &Config) -> Self {
        Self {
            client: Connection::client(config.clone()),
            server: Connection::server(config.clone()),
            to_server: Way::new(),
            to_client: Way::new(),
            requests: BTreeMap::new(),
            responses: BTreeMap::new(),
            received: BTreeMap::new(),
            answered: BTreeMap::new(),
            ever_blocked: false,
        }
    }

    fn request(&mut self, stream: u64, message: &Message) {
        let (method, uri) = message.first.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let (mut writer, reader) = self.client.open(stream, &method).unwrap();
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = method;
        parts.uri = uri.parse().unwrap();
        parts.headers = message.headers.clone();
        let (out, fin) = self.to_server.entry(stream).or_default();
        writer
            .head(&RequestHead::from(parts), &mut self.client, out)
            .unwrap();
        rest(&mut writer, message, &mut self.client, out);
        *fin = true;
        self.responses.insert(stream, Reading::new(reader));
    }

    fn flush(&mut self) {
        let id = |stream| match stream {
            Outgoing::Control => 2,
            Outgoing::QpackEncoder => 6,
            Outgoing::QpackDecoder => 10,
        };
        while let Some(output) = self.client.poll_output() {
            let (out, _) = self.to_server.entry(id(output.stream)).or_default();
            out.extend_from_slice(&output.bytes);
        }
        while self.server.has_output() {
            let output = self.server.poll_output().unwrap();
            let (out, _) = self.to_client.entry(id(output.stream) + 1).or_default();
            out.extend_from_slice(&output.bytes);
        }
    }

    /// Whether a stream has bytes for its reader.
    fn is_ready(&self, at_server: bool, stream: u64) -> bool {
        let blocked = if at_server {
            self.requests
                .get(&stream)
                .is_some_and(|(reading, _)| reading.blocked)
        } else {
            self.responses
                .get(&stream)
                .is_some_and(|reading| reading.blocked)
        };
        !blocked
    }

    /// Delivers up to `size` bytes of one of the ready streams.
    fn deliver(&mut self, choice: usize, size: usize) -> bool {
        let all = self.to_server.keys().map(|stream| (true, *stream));
        let all = all.chain(self.to_client.keys().map(|stream| (false, *stream)));
        let ready: Vec<_> = all
            .filter(|(at, stream)| self.is_ready(*at, *stream))
            .collect();
        if ready.is_empty() {
            return false;
        }
        let (at_server, stream) = ready[choice % ready.len()];
        let way = if at_server {
            &mut self.to_server
        } else {
            &mut self.to_client
        };
        let (bytes, fin) = way.get_mut(&stream).unwrap();
        let chunk = bytes.split_to(size.min(bytes.len())).freeze();
        let fin = *fin && bytes.is_empty();
        if bytes.is_empty() {
            way.remove(&stream);
        }
        match (stream % 4, at_server) {
            (2, _) => drop(self.server.receive(stream, chunk, fin).unwrap()),
            (3, _) => drop(self.client.receive(stream, chunk, fin).unwrap()),
            (_, true) => self.at_server(stream, Some((chunk, fin))),
            (_, false) => self.at_client(stream, Some((chunk, fin))),
        }
        while let Some(event) = self.server.poll_event() {
            if let Event::Unblocked { stream } = event {
                self.at_server(stream, None);
            }
        }
        while let Some(event) = self.client.poll_event() {
            if let Event::Unblocked { stream } = event {
                self.at_client(stream, None);
            }
        }
        self.flush();
        true
    }

    fn at_server(&mut self, stream: u64, input: Option<(Bytes, bool)>) {
        let (reading, writer) = self.requests.entry(stream).or_insert_with(|| {
            let (reader, writer) = self.server.accept(stream).unwrap().unwrap();
            (Reading::new(reader), writer)
        });
        if let Some((chunk, fin)) = input {
            reading.reader.receive(chunk, fin);
        }
        if reading.advance(&mut self.server, request_line) {
            // The response repeats the request's message.
            let message = reading.message.clone();
            let (out, fin) = self.to_client.entry(stream).or_default();
            let headers = &message.headers;
            writer
                .head(StatusCode::EARLY_HINTS, headers, &mut self.server, out)
                .unwrap();
            writer
                .head(StatusCode::OK, headers, &mut self.server, out)
                .unwrap();
            rest(writer, &message, &mut self.server, out);
            *fin = true;
            self.server
                .end(stream, End::Complete, Instant::now())
                .unwrap();
            self.received.insert(stream, message);
        }
        self.ever_blocked |= reading.blocked;
    }

    fn at_client(&mut self, stream: u64, input: Option<(Bytes, bool)>) {
        let reading = self.responses.get_mut(&stream).unwrap();
        if let Some((chunk, fin)) = input {
            reading.reader.receive(chunk, fin);
        }
        if reading.advance(&mut self.client, status_line) {
            self.client
                .end(stream, End::Complete, Instant::now())
                .unwrap();
            self.answered.insert(stream, reading.message.clone());
        }
        self.ever_blocked |= reading.blocked;
    }
}

/// Writes the rest of a message, after the header section.
fn rest<H>(
    writer: &mut Writer<H>,
    message: &Message,
    connection: &mut Connection,
    out: &mut BytesMut,
) {
    for piece in message.content.chunks(100) {
        writer.data(piece.len(), out).unwrap();
        out.extend_from_slice(piece);
    }
    if !message.trailers.is_empty() {
        writer.trailers(&message.trailers, connection, out).unwrap();
    }
    writer.finish().unwrap();
}

/// Fields that recur, and others.
fn headers() -> impl Strategy<Value = HeaderMap> {
    let name = prop::sample::select(vec![
        "accept",
        "cache-control",
        "server",
        "x-a",
        "x-b",
        "etag",
    ]);
    let value = prop_oneof!["[a-c]{1,3}", "[ -~]{0,40}"];
    prop::collection::vec((name, value), 0..6).prop_map(|fields| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value.trim().parse().unwrap());
        }
        headers
    })
}

fn message() -> impl Strategy<Value = Message> {
    let first = prop::sample::select(vec![
        "GET https://a.test/",
        "POST https://a.test/x?y",
        "DELETE http://b.test:8080/z",
    ]);
    (
        first,
        headers(),
        prop::collection::vec(any::<u8>(), 0..300),
        headers(),
    )
        .prop_map(|(first, headers, content, trailers)| Message {
            first: first.to_owned(),
            headers,
            content,
            trailers,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn messages_arrive_as_they_were_sent(
        messages in prop::collection::vec(message(), 1..8),
        schedule in prop::collection::vec((any::<usize>(), 1usize..80), 1..60),
        capacity in prop::sample::select(vec![0u64, 64, 220, 4_096]),
        blocked in prop::sample::select(vec![0u64, 1, 16]),
    ) {
        let mut pair = Pair::new(&Config {
            max_table_capacity: capacity,
            encoder_table_capacity: capacity,
            max_blocked_streams: blocked,
            ..Config::default()
        });
        pair.flush();
        let mut steps = schedule.iter().cycle();
        for (stream, message) in (0..).step_by(4).zip(&messages) {
            for &(choice, size) in steps.by_ref().take(12) {
                pair.deliver(choice, size);
            }
            pair.request(stream, message);
            pair.flush();
        }
        for &(choice, size) in steps {
            if !pair.deliver(choice, size) {
                break;
            }
        }
        prop_assert!(blocked > 0 || !pair.ever_blocked);
        prop_assert_eq!(pair.server.open_requests() + pair.client.open_requests(), 0);
        for (stream, message) in (0..).step_by(4).zip(messages) {
            prop_assert_eq!(&pair.received[&stream], &message);
            let answer = Message { first: "200 OK".to_owned(), ..message };
            prop_assert_eq!(&pair.answered[&stream], &answer);
        }
    }
}

/// RFC 9204 §2.1.3: content may use up the credit that the encoder's stream needs.
#[test]
fn no_section_waits_for_the_encoders_stream() {
    let mut pair = Pair::new(&Config::default());
    pair.flush();
    let mut headers = HeaderMap::new();
    headers.insert(
        "x-a",
        "something that is worth a place in the table"
            .parse()
            .unwrap(),
    );
    let message = Message {
        first: "GET https://a.test/".to_owned(),
        headers,
        ..Message::default()
    };
    while pair.deliver(0, 1_000) {}
    let mut held = Vec::new();
    for stream in (0..20).step_by(4) {
        pair.request(stream, &message);
        pair.flush();
        held.extend(pair.to_server.remove(&6));
        while pair.deliver(0, 1_000) {}
    }
    assert_eq!((pair.answered.len(), pair.ever_blocked), (5, false));
    assert!(!held.is_empty(), "the dynamic table is filled");
    let size = |pair: &mut Pair, stream| {
        pair.request(stream, &message);
        pair.flush();
        pair.to_server[&stream].0.len()
    };
    let before = size(&mut pair, 20);
    for (bytes, fin) in held {
        pair.to_server.insert(6, (bytes, fin));
        while pair.deliver(0, 7) {}
    }
    let after = size(&mut pair, 24);
    assert!(
        after < before,
        "{after} of {before} bytes: acknowledged entries are used"
    );
}
