//! The two ends of a download: a client that requests, a server that responds.

use bytes::Bytes;
use hikyaku_units::Timestamp;
use quinn_proto::{Connection, Dir, Event, ReadError, StreamEvent, StreamId, WriteError};

/// Bytes of a request and of a response's head, as HTTP/3 with QPACK takes them.
const HEAD: u64 = 100;
/// A piece of content for one write to quinn.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// One end of a connection.
pub(super) trait App {
    /// Handles an event of the connection.
    fn on_event(&mut self, now: Timestamp, connection: &mut Connection, event: Event);
}

/// A client that requests and reads one response after another.
#[derive(Default)]
pub(super) struct Client {
    /// Body bytes of each response; empty for one without end.
    pub(super) sizes: Vec<u64>,
    /// Number of complete responses.
    pub(super) responses: usize,
    pub(super) connected: Option<Timestamp>,
    pub(super) first_byte: Option<Timestamp>,
    pub(super) complete: Option<Timestamp>,
    /// Body bytes of all responses so far.
    pub(super) received: u64,
    /// Body bytes of the present or last response.
    pub(super) received_of_last: u64,
    /// Bytes of its head that have not come yet.
    head: u64,
    pub(super) error: Option<String>,
}

impl Client {
    pub(super) fn new(sizes: Vec<u64>) -> Self {
        Self {
            sizes,
            ..Self::default()
        }
    }

    fn ask(&mut self, connection: &mut Connection) {
        self.received_of_last = 0;
        self.head = HEAD;
        let Some(id) = connection.streams().open(Dir::Bi) else {
            self.error = Some("the server allows no stream".to_owned());
            return;
        };
        let mut stream = connection.send_stream(id);
        let size = self.sizes.get(self.responses).copied();
        let mut request = [0; HEAD as usize];
        request[..8].copy_from_slice(&size.unwrap_or(u64::MAX).to_be_bytes());
        // A new stream takes a request, since its flow control window is larger.
        let written = stream.write(&request).map_err(|error| error.to_string());
        let finished = stream.finish().map_err(|error| error.to_string());
        self.error = written.map(drop).and(finished).err();
    }

    fn take(&mut self, now: Timestamp, connection: &mut Connection, id: StreamId) {
        match read(connection, id, |chunk| {
            self.first_byte.get_or_insert(now);
            let head = self.head.min(chunk.len() as u64);
            self.head -= head;
            self.received += chunk.len() as u64 - head;
            self.received_of_last += chunk.len() as u64 - head;
        }) {
            Ok(false) => {}
            Ok(true) => {
                self.responses += 1;
                if self.responses < self.sizes.len() {
                    self.ask(connection);
                } else {
                    self.complete = Some(now);
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
    request: Vec<u8>,
    /// Stream of the last request.
    last: Option<StreamId>,
    /// Bytes of the response that quinn has not taken yet.
    left: u64,
    /// Time of the last request's arrival.
    pub(super) requested: Option<Timestamp>,
    /// Time of the acknowledgement of the whole last response.
    pub(super) acknowledged: Option<Timestamp>,
    pub(super) error: Option<String>,
}

impl Server {
    fn take(&mut self, now: Timestamp, connection: &mut Connection, id: StreamId) {
        let request = &mut self.request;
        match read(connection, id, |chunk| request.extend_from_slice(chunk)) {
            Ok(false) => {}
            Ok(true) => {
                let size = self.request.first_chunk().copied().map(u64::from_be_bytes);
                self.request.clear();
                self.left = size.unwrap_or(0).saturating_add(HEAD);
                self.last = Some(id);
                self.requested = Some(now);
                self.acknowledged = None;
                self.answer(connection, id);
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn answer(&mut self, connection: &mut Connection, id: StreamId) {
        let mut stream = connection.send_stream(id);
        while self.left > 0 {
            let len = self.left.min(ZEROS.len() as u64) as usize;
            match stream.write_chunks(&mut [Bytes::from_static(&ZEROS[..len])]) {
                Ok(written) => self.left -= written.bytes as u64,
                Err(WriteError::Blocked) => return,
                Err(error) => {
                    self.error = Some(error.to_string());
                    return;
                }
            }
        }
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
            Event::Stream(StreamEvent::Finished { id }) if self.last == Some(id) => {
                self.acknowledged = Some(now);
            }
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
