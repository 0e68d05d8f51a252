//! What the streams of a connection share.

mod config;
mod control;
mod goaway;
mod priorities;
mod unidirectional;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{Method, response};

use crate::budget::{Budget, Cancellations};
use crate::error::{Code, Error};
use crate::frame::{Header, kind};
use crate::message::{Context, RequestHead};
use crate::priority::Priority;
use crate::qpack::{self, Decoded, FieldRef};
use crate::settings::Settings;
use crate::stream::{Reader, Writer};
use crate::varint;

pub use config::Config;
use control::Control;
use goaway::GoAway;
pub use goaway::Shutdown;
use priorities::Priorities;
use unidirectional::Kind;
pub use unidirectional::{Incoming, Outgoing};

/// The part of an HTTP/3 connection that its streams share (RFC 9114 §3.3, §6.2): control
/// streams, field compression, the order to stop, and bounds on what a peer may cause.
///
/// It does no I/O and knows no clock: what arrives is given to it, what is to be sent is
/// taken from it. Messages are read and written by [`Reader`]s and [`Writer`]s, one of each
/// for a request stream, which come here for field sections alone.
///
/// After an error of the connection it is of no use but to be closed.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    config: Config,
    decoder: qpack::Decoder,
    encoder: qpack::Encoder,
    /// Sections that waited, until their readers take them.
    unblocked: BTreeMap<u64, Decoded>,
    control: Control,
    /// The peer's unidirectional streams, by their identifiers.
    incoming: BTreeMap<u64, Kind>,
    /// What our control stream is to carry.
    control_output: BytesMut,
    /// Bytes of decoder instructions at most that nobody took.
    decoder_output: usize,
    /// Which of our streams have their type.
    begun: [bool; 3],
    goaway: GoAway,
    /// Requests that have not ended.
    open: HashSet<u64>,
    priorities: Priorities,
    budget: Budget,
    cancellations: Cancellations,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

/// Something that the peer said, or that it brought about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer's settings are known. Once, and not necessarily before the first request.
    Settings(Settings),
    /// A reader that answered `Blocked` is to be polled again.
    Unblocked {
        /// The reader's stream.
        stream: u64,
    },
    /// A client wants the response of an open request sooner or later than it said before
    /// (RFC 9218 §7).
    Priority {
        /// The request's stream.
        stream: u64,
        /// What it wants now.
        priority: Priority,
    },
    /// The peer stops (RFC 9114 §5.2). At a client: the requests on streams from `id` on were
    /// not processed and may be sent again elsewhere, and no more can be opened. At a server
    /// it concerns pushes only: open requests are answered as ever.
    GoAway {
        /// Stream identifier at a client, Push ID at a server.
        id: u64,
    },
}

/// Bytes for one of the endpoint's own unidirectional streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The stream, which is opened when there is a first output for it.
    pub stream: Outgoing,
    /// What it carries next; its type is among the first.
    pub bytes: Bytes,
}

/// How a request ended, for [`Connection::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The response was sent, or received, whole.
    Complete,
    /// The peer's fault or wish: it reset the stream, stopped the response, or sent a malformed
    /// message.
    Cancelled,
    /// This endpoint's own fault or wish.
    Failed,
}

/// No more requests can be sent on the connection: the server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server takes no more requests on this connection")]
pub struct GoingAway;

impl Connection {
    /// A server's side of a new connection.
    pub fn server(config: Config) -> Self {
        Self::new(Role::Server, config)
    }

    /// A client's side of a new connection. It takes no pushes.
    pub fn client(config: Config) -> Self {
        Self::new(Role::Client, config)
    }

    fn new(role: Role, config: Config) -> Self {
        let mut control_output = BytesMut::new();
        config
            .settings(role == Role::Server)
            .encode(&mut control_output);
        Self {
            role,
            decoder: qpack::Decoder::new(config.decoder()),
            encoder: qpack::Encoder::new(config.encoder()),
            unblocked: BTreeMap::new(),
            control: Control::default(),
            incoming: BTreeMap::new(),
            control_output,
            decoder_output: 0,
            begun: [false; 3],
            goaway: GoAway::default(),
            open: HashSet::new(),
            priorities: Priorities::new(config.max_requests),
            budget: Budget::new(unidirectional::USELESS),
            cancellations: Cancellations::new(config.max_cancelled),
            events: VecDeque::new(),
            config,
        }
    }

    /// The client opened the bidirectional `stream`: returns what reads its request and writes
    /// its response. `None` where it was opened after this server said that it stops: both
    /// sides of the stream are then to be ended by `H3_REQUEST_REJECTED` (RFC 9114 §5.2).
    ///
    /// # Errors
    /// At a client: `H3_STREAM_CREATION_ERROR` (RFC 9114 §6.1).
    pub fn accept(
        &mut self,
        stream: u64,
    ) -> Result<Option<(Reader<RequestHead>, Writer<response::Parts>)>, Error> {
        if self.role == Role::Client || !stream.is_multiple_of(4) {
            let code = Code::StreamCreationError;
            return Err(Error::connection(
                code,
                "a bidirectional stream of a server",
            ));
        }
        self.priorities.on_opened(stream);
        if !self.goaway.on_opened(stream) {
            self.priorities.remove(stream);
            return Ok(None);
        }
        self.begin(stream);
        let context = Context {
            connect_protocol: self.config.connect_protocol,
            ..Context::default()
        };
        let reader = Reader::new(stream, context, self.config.max_field_section_size);
        Ok(Some((reader, Writer::new(stream, None))))
    }

    /// A client's request of `method` on the bidirectional `stream` that it opened: returns what
    /// writes the request and reads its response.
    ///
    /// # Errors
    /// [`GoingAway`] where the server would not process it (RFC 9114 §5.2).
    pub fn open(
        &mut self,
        stream: u64,
        method: &Method,
    ) -> Result<(Writer<RequestHead>, Reader<response::Parts>), GoingAway> {
        if self.goaway.received().is_some() {
            return Err(GoingAway);
        }
        self.begin(stream);
        let context = Context {
            method: Some(method.clone()),
            ..Context::default()
        };
        let reader = Reader::new(stream, context, self.config.max_field_section_size);
        Ok((Writer::new(stream, None), reader))
    }

    fn begin(&mut self, stream: u64) {
        self.open.insert(stream);
        self.budget.earn(unidirectional::USELESS_PER_REQUEST);
    }

    /// Nothing more of the peer's message on `stream` is read, though it was not whole: its
    /// stream was reset, or the peer asked to stop (RFC 9204 §2.2.2.2).
    ///
    /// # Errors
    /// `H3_EXCESSIVE_LOAD` where the peer resets streams without reading what is said to it.
    pub fn abandon(&mut self, stream: u64) -> Result<(), Error> {
        self.unblocked.remove(&stream);
        self.instruct_encoder()?;
        self.decoder.cancel(stream);
        Ok(())
    }

    /// The request on `stream` is over, at `now`.
    ///
    /// # Errors
    /// `H3_EXCESSIVE_LOAD` where the client cancels too many ([`Config::max_cancelled`]).
    pub fn end(&mut self, stream: u64, end: End, now: Instant) -> Result<(), Error> {
        if !self.open.remove(&stream) {
            return Ok(());
        }
        self.unblocked.remove(&stream);
        self.priorities.remove(stream);
        match end {
            End::Complete => self.cancellations.on_complete(),
            End::Cancelled if self.role == Role::Server => self.cancellations.on_cancelled(now)?,
            End::Cancelled | End::Failed => {}
        }
        Ok(())
    }

    /// Requests that have not ended.
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// The peer's settings; the defaults before they arrived (RFC 9114 §7.2.4.2).
    pub fn peer_settings(&self) -> Settings {
        self.control.settings.unwrap_or_default()
    }

    /// Says that this endpoint stops (RFC 9114 §5.2).
    pub fn shutdown(&mut self, step: Shutdown) {
        let id = match self.role {
            Role::Server => self.goaway.server(step),
            Role::Client => self.goaway.client(),
        };
        if let Some(id) = id {
            let mut content = BytesMut::new();
            varint::encode(id, &mut content);
            let header = Header {
                kind: kind::GOAWAY,
                length: content.len() as u64,
            };
            header.encode(&mut self.control_output);
            self.control_output.extend_from_slice(&content);
        }
    }

    /// The next thing that the caller should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Decodes a section for a reader.
    pub(crate) fn decode(&mut self, stream: u64, block: Bytes) -> Result<Decoded, Error> {
        self.instruct_encoder()?;
        Ok(self.decoder.decode(stream, block)?)
    }

    /// Encodes a section for a writer.
    pub(crate) fn encode<'a>(
        &mut self,
        stream: u64,
        fields: impl IntoIterator<Item = FieldRef<'a>>,
        out: &mut BytesMut,
    ) {
        self.encoder.encode(stream, fields, out);
    }

    /// The section that a blocked reader waits for.
    pub(crate) fn take_unblocked(&mut self, stream: u64) -> Option<Decoded> {
        self.unblocked.remove(&stream)
    }

    /// What PRIORITY_UPDATE said of a request.
    pub(crate) fn updated_priority(&self, stream: u64) -> Option<Priority> {
        self.priorities.of(stream)
    }
}
