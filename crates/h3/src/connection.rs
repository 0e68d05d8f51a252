//! The state that the streams of a connection share.

mod config;
mod control;
mod goaway;
mod priorities;
mod unidirectional;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{Method, response};

use crate::error::{Code, Error};
use crate::frame::{Header, kind};
use crate::message::{Context, RequestHead};
use crate::priority::Priority;
use crate::qpack::{self, Decoded, FieldRef, Fields, PreparedLines};
use crate::settings::Settings;
use crate::stream::{Reader, Writer};
use crate::varint;
use hikyaku_http_common::floods::{Budget, Cancellations};

pub use config::Config;
use control::Control;
use goaway::GoAway;
pub use goaway::Shutdown;
use priorities::Priorities;
use unidirectional::Kind;
pub use unidirectional::{Incoming, Outgoing};

/// The part of an HTTP/3 connection that its streams share (RFC 9114 §3.3, §6.2). It has the
/// control streams, field compression, the order to stop, and bounds on a peer's demands.
///
/// It does no I/O and knows no clock: the caller hands received bytes in and takes bytes for
/// sending out. A [`Reader`] and a [`Writer`] for each request stream read and write messages. They
/// use the connection for field sections alone.
///
/// After an error of the connection, the caller can only close it.
/// After an error of the connection it is of no use but to be closed.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    config: Config,
    decoder: qpack::Decoder,
    encoder: qpack::Encoder,
    /// Decoded sections that waited, until their readers take them.
    unblocked: BTreeMap<u64, Decoded>,
    control: Control,
    /// The peer's unidirectional streams, by their identifiers.
    incoming: BTreeMap<u64, Kind>,
    /// The bytes to send on the control stream.
    control_output: BytesMut,
    /// The largest number of bytes in decoder instructions that nobody took.
    decoder_output: usize,
    /// The own streams whose type has been sent.
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

/// News from the peer, or caused by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer's settings arrived. Once, and not necessarily before the first request.
    Settings(Settings),
    /// A reader that returned `Blocked` is to be polled again.
    Unblocked {
        /// The reader's stream.
        stream: u64,
    },
    /// The client changed the priority of an open request's response (RFC 9218 §7).
    Priority {
        /// The request's stream.
        stream: u64,
        /// The new priority.
        priority: Priority,
    },
    /// The peer stops (RFC 9114 §5.2).
    ///
    /// At a client: requests on streams from `id` on were not processed and may be sent again
    /// elsewhere. No more requests can be opened. At a server it concerns pushes only, and open
    /// requests are answered as before.
    GoAway {
        /// Stream identifier at a client, Push ID at a server.
        id: u64,
    },
}

/// Bytes for one of the endpoint's own unidirectional streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The stream, which is to be opened at its first output.
    pub stream: Outgoing,
    /// The next bytes. The first ones begin with the stream's type.
    pub bytes: Bytes,
}

/// How a request ended, for [`Connection::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The response was sent, or received, as a whole.
    Complete,
    /// The peer reset the stream, stopped the response, or sent a malformed message.
    Cancelled,
    /// This endpoint failed, or gave the request up.
    Failed,
}

/// No more requests can be sent on the connection: the server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server takes no more requests on this connection")]
pub struct GoingAway;

impl Connection {
    /// Makes a server's side of a new connection.
    pub fn server(config: Config) -> Self {
        Self::new(Role::Server, config)
    }

    /// Makes a client's side of a new connection. It takes no pushes.
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

    /// Accepts the bidirectional `stream` that the client opened. Returns the reader of its request
    /// and the writer of its response.
    ///
    /// `None` if the stream was opened after this server announced its stop. Both of its sides are
    /// then to be ended by `H3_REQUEST_REJECTED` (RFC 9114 §5.2).
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

    /// Begins a request of `method` on the bidirectional `stream` that this client opened. Returns
    /// the writer of the request and the reader of its response.
    ///
    /// # Errors
    /// [`GoingAway`] if the server would not process the request (RFC 9114 §5.2).
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

    /// Ends the reading of an incomplete message on `stream`, since the stream was reset or this
    /// endpoint asked the peer to stop (RFC 9204 §2.2.2.2).
    ///
    /// # Errors
    /// `H3_EXCESSIVE_LOAD` if the peer resets streams without reading the instructions that answer.
    pub fn abandon(&mut self, stream: u64) -> Result<(), Error> {
        self.unblocked.remove(&stream);
        self.instruct_encoder()?;
        self.decoder.cancel(stream);
        Ok(())
    }

    /// Ends the request on `stream`, at `now`.
    ///
    /// # Errors
    /// `H3_EXCESSIVE_LOAD` if the client cancels too many ([`Config::max_cancelled`]).
    pub fn end(&mut self, stream: u64, end: End, now: Instant) -> Result<(), Error> {
        if !self.open.remove(&stream) {
            return Ok(());
        }
        self.unblocked.remove(&stream);
        self.priorities.remove(stream);
        if self.open.is_empty() {
            self.decoder.release_memory();
        }
        match end {
            End::Complete => self.cancellations.on_complete(),
            End::Cancelled if self.role == Role::Server => self.cancellations.on_cancelled(now)?,
            End::Cancelled | End::Failed => {}
        }
        Ok(())
    }

    /// The number of requests that have not ended.
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// The peer's settings; the defaults before they arrive (RFC 9114 §7.2.4.2).
    pub fn peer_settings(&self) -> Settings {
        self.control.settings.unwrap_or_default()
    }

    /// Announces that this endpoint stops (RFC 9114 §5.2).
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

    /// Takes the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Decodes a section for a reader.
    pub(crate) fn decode(&mut self, stream: u64, block: Bytes) -> Result<Decoded, Error> {
        self.instruct_encoder()?;
        Ok(self.decoder.decode(stream, block)?)
    }

    /// Takes back the memory of a section that was read.
    pub(crate) fn recycle(&mut self, fields: Fields) {
        self.decoder.recycle(fields);
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

    /// Encodes prepared lines for a writer, with `more` after them.
    pub(crate) fn encode_prepared<'a>(
        &mut self,
        stream: u64,
        prepared: &PreparedLines,
        more: impl IntoIterator<Item = FieldRef<'a>>,
        out: &mut BytesMut,
    ) {
        let encoder = &mut self.encoder;
        encoder.encode_prepared(stream, prepared, more, out);
    }

    /// Takes the section for which a blocked reader waits.
    pub(crate) fn take_unblocked(&mut self, stream: u64) -> Option<Decoded> {
        self.unblocked.remove(&stream)
    }

    /// The priority of a request by PRIORITY_UPDATE.
    pub fn updated_priority(&self, stream: u64) -> Option<Priority> {
        self.priorities.of(stream)
    }
}
