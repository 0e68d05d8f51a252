//! The two ends of a download: a client that requests, a server that responds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bytes::Bytes;
use hikyaku_units::Timestamp;
use quinn_proto::{Connection, Dir, Event, ReadError, StreamEvent, StreamId, WriteError};

/// Bytes of a request and of a response's head, as HTTP/3 with QPACK takes them.
const HEAD: u64 = 100;
/// A piece of content for one write to quinn.
static ZEROS: LazyLock<Bytes> = LazyLock::new(|| vec![0; 64 << 10].into());

/// One end of a connection.
pub(super) trait App {
    /// Handles an event of the connection.
    fn on_event(&mut self, now: Timestamp, connection: &mut Connection, event: Event);
}

/// A client that requests and reads responses.
#[derive(Default)]
pub(super) struct Client {
    /// Body bytes of each response; empty for one without end.
    sizes: Vec<u64>,
    /// Whether all others are requested together once the first is complete, as those of a page.
    page: bool,
    /// Number of requests so far.
    requests: usize,
    /// Number of complete responses.
    responses: usize,
    /// Bytes of each open response's head that have not come yet.
    heads: BTreeMap<StreamId, u64>,
    /// Stream of the last request.
    last: Option<StreamId>,
    pub(super) connected: Option<Timestamp>,
    pub(super) first_byte: Option<Timestamp>,
    pub(super) complete: Option<Timestamp>,
    /// Body bytes of all responses so far.
    pub(super) received: u64,
    /// Body bytes of the response that was requested last.
    pub(super) received_of_last: u64,
    pub(super) error: Option<String>,
}

impl Client {
    pub(super) fn new(sizes: Vec<u64>, page: bool) -> Self {
        Self {
            sizes,
            page,
            ..Self::default()
        }
    }

    /// Requests the next response, or all further ones of a page.
    fn ask(&mut self, connection: &mut Connection) {
        let all = self.page && self.requests > 0;
        let requests = if all {
            self.sizes.len()
        } else {
            self.requests + 1
        };
        while self.requests < requests && self.error.is_none() {
            self.ask_one(connection);
        }
    }

    fn ask_one(&mut self, connection: &mut Connection) {
        self.received_of_last = 0;
        let Some(id) = connection.streams().open(Dir::Bi) else {
            self.error = Some("the server allows no stream".to_owned());
            return;
        };
        self.heads.insert(id, HEAD);
        self.last = Some(id);
        let mut stream = connection.send_stream(id);
        let size = self.sizes.get(self.requests).copied();
        self.requests += 1;
        let mut request = [0; HEAD as usize];
        request[..8].copy_from_slice(&size.unwrap_or(u64::MAX).to_be_bytes());
        // A new stream takes a request, since its flow control window is larger.
        let written = stream.write(&request).map_err(|error| error.to_string());
        let finished = stream.finish().map_err(|error| error.to_string());
        self.error = written.map(drop).and(finished).err();
    }

    fn take(&mut self, now: Timestamp, connection: &mut Connection, id: StreamId) {
        let Some(head) = self.heads.get_mut(&id) else {
            return;
        };
        let of_last = self.last == Some(id);
        match read(connection, id, |chunk| {
            self.first_byte.get_or_insert(now);
            let of_head = chunk.len().min(*head as usize);
            *head -= of_head as u64;
            let body = (chunk.len() - of_head) as u64;
            self.received += body;
            if of_last {
                self.received_of_last += body;
            }
        }) {
            Ok(false) => {}
            Ok(true) => {
                self.heads.remove(&id);
                self.responses += 1;
                if self.responses == self.sizes.len() {
                    self.complete = Some(now);
                } else if self.requests < self.sizes.len() {
                    self.ask(connection);
                }
            }
            Err(error) => self.error = Some(error),
        }
    }
}

impl App for Client {
    fn on_event(&mut self, now: Timestamp, connection: &mut Connection, event: Event) {
        match event {
            Event::Connected => {
                self.connected = Some(now);
                self.ask(connection);
            }
            Event::Stream(StreamEvent::Readable { id }) => self.take(now, connection, id),
            Event::ConnectionLost { reason } if self.complete.is_none() => {
                self.error = Some(reason.to_string());
            }
            _ => {}
        }
    }
}

/// A server that responds to requests.
#[derive(Default)]
pub(super) struct Server {
    /// Requests that have not come whole.
    requests: BTreeMap<StreamId, Vec<u8>>,
    /// Bytes of each response that quinn has not taken yet.
    left: BTreeMap<StreamId, u64>,
    /// Responses that are not acknowledged as a whole.
    open: BTreeSet<StreamId>,
    /// Time of the last request's arrival.
    pub(super) requested: Option<Timestamp>,
    /// Time of the acknowledgement of all responses.
    pub(super) acknowledged: Option<Timestamp>,
    pub(super) error: Option<String>,
}

impl Server {
    fn take(&mut self, now: Timestamp, connection: &mut Connection, id: StreamId) {
        let request = self.requests.entry(id).or_default();
        match read(connection, id, |chunk| request.extend_from_slice(chunk)) {
            Ok(false) => {}
            Ok(true) => {
                let size = request.first_chunk().copied().map(u64::from_be_bytes);
                self.requests.remove(&id);
                self.left.insert(id, size.unwrap_or(0).saturating_add(HEAD));
                self.open.insert(id);
                self.requested = Some(now);
                self.acknowledged = None;
                self.answer(connection, id);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Notes that a whole response is acknowledged.
    fn finished(&mut self, now: Timestamp, id: StreamId) {
        self.open.remove(&id);
        if self.open.is_empty() {
            self.acknowledged = Some(now);
        }
    }

    fn answer(&mut self, connection: &mut Connection, id: StreamId) {
        let Some(left) = self.left.get_mut(&id) else {
            return;
        };
        let mut stream = connection.send_stream(id);
        while *left > 0 {
            let len = (*left).min(ZEROS.len() as u64) as usize;
            match stream.write_chunks(&mut [ZEROS.slice(..len)]) {
                Ok(written) => *left -= written.bytes as u64,
                Err(WriteError::Blocked) => return,
                Err(error) => {
                    self.error = Some(error.to_string());
                    return;
                }
            }
        }
        self.left.remove(&id);
        if let Err(error) = stream.finish() {
            self.error = Some(error.to_string());
        }
    }
}

impl App for Server {
    fn on_event(&mut self, now: Timestamp, connection: &mut Connection, event: Event) {
        match event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                while let Some(id) = connection.streams().accept(Dir::Bi) {
                    self.take(now, connection, id);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.take(now, connection, id),
            Event::Stream(StreamEvent::Writable { id }) => self.answer(connection, id),
            Event::Stream(StreamEvent::Finished { id }) => self.finished(now, id),
            Event::ConnectionLost { reason } => {
                self.error.get_or_insert(reason.to_string());
            }
            _ => {}
        }
    }
}

/// Reads the available data of a stream, and returns the flow control credit as quinn's own clients
/// do. Returns whether the stream has ended.
fn read(
    connection: &mut Connection,
    id: StreamId,
    mut take: impl FnMut(&[u8]),
) -> Result<bool, String> {
    let mut stream = connection.recv_stream(id);
    let mut chunks = match stream.read(true) {
        Ok(chunks) => chunks,
        // Earlier data has ended it, so nothing remains to read.
        Err(quinn_proto::ReadableError::ClosedStream) => return Ok(false),
        Err(error) => return Err(error.to_string()),
    };
    let ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => take(&chunk.bytes),
            Ok(None) => break Ok(true),
            Err(ReadError::Blocked) => break Ok(false),
            Err(error) => break Err(error.to_string()),
        }
    };
    // The caller polls for transmissions after each event in any case.
    let _ = chunks.finalize();
    ended
}
