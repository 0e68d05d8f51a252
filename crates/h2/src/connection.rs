//! A server's side of an HTTP/2 connection.

mod config;
mod content;
mod control;
mod flow;
mod priorities;
mod receive;
mod requests;
mod send;
mod shutdown;
mod transmit;

use std::collections::VecDeque;
use std::time::Instant;

use hikyaku_http_common::content::Content;
use hikyaku_http_common::floods::{Budget, Cancellations};
use hikyaku_http_common::priority::Priority;

use crate::error::{Code, Error};
use crate::frame::{self, MAX_31_BITS, kind};
use crate::hpack::{Decoder, Encoder};
use crate::message::{Parsed, RequestHead};
use crate::scheduler::Scheduler;
use crate::section::{Fields, Section};
use crate::settings::{self, INITIAL_WINDOW, Settings};
use crate::stream::{Closed, RecentlyClosed, Streams};

pub use crate::frame::PREFACE;
pub use config::Config;
use flow::LocalWindows;
use priorities::IdlePriorities;
use receive::{Found, Reading};
use requests::Block;
pub use shutdown::Shutdown;
use shutdown::Stop;
pub use transmit::Sent;

/// A server's side of an HTTP/2 connection (RFC 9113).
///
/// It does no I/O and knows no clock. The caller hands received bytes to [`Connection::recv`], which
/// returns events, and sends the bytes of [`Connection::poll_transmit`].
#[derive(Debug)]
pub struct Connection {
    config: Config,
    /// The time of the last call that had one.
    now: Instant,
    reading: Reading,
    /// The start of a frame whose end has not arrived.
    partial: Vec<u8>,
    /// A field block whose end has not arrived.
    block: Option<Block>,
    decoder: Decoder,
    encoder: Encoder,
    section: Section,
    parsed: Parsed,
    streams: Streams,
    closed: RecentlyClosed,
    /// The largest identifier of a stream that the client has opened.
    last_stream: u32,
    scheduler: Scheduler,
    idle_priorities: IdlePriorities,
    /// The client's settings, once they have arrived.
    peer: Option<Settings>,
    windows: LocalWindows,
    /// Bytes of content that may be sent on all streams together.
    send_window: i64,
    /// Frames that leave before any content.
    frames: Vec<u8>,
    /// Bytes of frames that answer the client and have not left.
    replies: usize,
    /// Streams whose content so far is in the output.
    sent: VecDeque<Sent>,
    budget: Budget,
    /// The time up to which elapsed time has raised the budget.
    refilled: Instant,
    cancellations: Cancellations,
    stop: Stop,
    has_failed: bool,
}

/// News from the client.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request.
    Request {
        /// Its stream.
        stream: u32,
        /// Its header section.
        head: RequestHead<'a>,
        /// Whether it ends here, without content.
        end: bool,
    },
    /// A request whose header section is larger than [`Config::max_section_size`]. It can be answered
    /// with the status 431 (RFC 6585 §5).
    TooLarge {
        /// Its stream.
        stream: u32,
        /// Whether it ends here, without content.
        end: bool,
    },
    /// Content of a request.
    Data {
        /// The request's stream.
        stream: u32,
        /// The next bytes; none if the request ends with nothing more.
        data: &'a [u8],
        /// Whether the request ends here.
        end: bool,
    },
    /// Trailers, which end a request.
    Trailers {
        /// The request's stream.
        stream: u32,
        /// The fields.
        trailers: Fields<'a>,
    },
    /// A stream is over before both of its messages are complete. Nothing can be sent on it any more.
    Reset {
        /// The stream.
        stream: u32,
        /// The code of the reset.
        code: Code,
        /// The client's fault; `None` if the client itself reset the stream.
        fault: Option<&'static str>,
    },
    /// The client has answered [`Connection::ping`].
    Pong {
        /// The bytes of the PING frame.
        payload: [u8; 8],
    },
    /// The client takes no more pushes (RFC 9113 §6.8). Its requests are answered as before.
    GoAway {
        /// The code of the frame.
        code: Code,
    },
}

impl Connection {
    /// Makes a server's side of a connection that begins `now`.
    pub fn server(config: Config, now: Instant) -> Self {
        let mut frames = Vec::with_capacity(64);
        settings::write(&config.settings(), &mut frames);
        let connection_window = config.connection_window.clamp(INITIAL_WINDOW, MAX_31_BITS);
        let more = connection_window - INITIAL_WINDOW;
        if more > 0 {
            let payload = more.to_be_bytes();
            frame::write(kind::WINDOW_UPDATE, 0, 0, &payload, &mut frames);
        }
        Self {
            now,
            reading: Reading::Preface(0),
            partial: Vec::new(),
            block: None,
            decoder: Decoder::new(config.max_section_size.into()),
            encoder: Encoder::new(config.encoder_table_size),
            section: Section::default(),
            parsed: Parsed::default(),
            streams: Streams::default(),
            closed: RecentlyClosed::default(),
            last_stream: 0,
            scheduler: Scheduler::default(),
            idle_priorities: IdlePriorities::new(config.max_streams),
            peer: None,
            windows: LocalWindows::new(&config, connection_window, now),
            send_window: INITIAL_WINDOW.into(),
            frames,
            replies: 0,
            sent: VecDeque::new(),
            budget: Budget::new(USELESS),
            refilled: now,
            cancellations: Cancellations::new(config.max_cancelled),
            stop: Stop::default(),
            has_failed: false,
            config,
        }
    }

    /// The number of requests that have not ended.
    pub fn open_requests(&self) -> usize {
        self.streams.len()
    }

    /// The client's settings; the defaults before they arrive.
    pub fn peer_settings(&self) -> Settings {
        self.peer.unwrap_or_default()
    }

    /// Sends a PING frame (RFC 9113 §6.7), which the client answers.
    pub fn ping(&mut self, payload: [u8; 8]) {
        frame::write(kind::PING, 0, 0, &payload, &mut self.frames);
    }

    /// Gives memory back that an idle connection does not need.
    pub fn release_memory(&mut self) {
        if self.streams.is_empty() {
            self.streams.clear();
            self.scheduler.clear();
            self.section.release();
            self.sent.shrink_to_fit();
            self.closed.release();
        }
        self.frames.shrink_to_fit();
        self.partial.shrink_to_fit();
    }

    /// Ends the connection because of the peer's fault.
    fn fail(&mut self, error: Error) {
        self.has_failed = true;
        self.streams.clear();
        self.scheduler.clear();
        self.sent.clear();
        self.partial = Vec::new();
        self.block = None;
        self.write_goaway(self.last_stream, error.code, error.reason);
    }

    /// Removes a stream.
    fn close(&mut self, slot: usize, how: Closed) {
        let stream = &self.streams[slot];
        if stream.sending.is_ready {
            self.scheduler.remove(stream.id, stream.priority);
        }
        self.closed.push(stream.id, how);
        self.streams.remove(slot);
    }

    /// Removes a stream that both sides have ended.
    fn close_if_over(&mut self, slot: usize) {
        if self.streams[slot].is_over() {
            self.cancellations.on_complete();
            self.close(slot, Closed::Ended);
        }
    }

    /// Makes the event of a frame's news.
    fn event<'c, 'i: 'c>(&'c self, found: Found<'i>) -> Event<'c> {
        match found {
            Found::Request {
                stream,
                priority,
                end,
            } => Event::Request {
                stream,
                head: self.head(priority),
                end,
            },
            Found::TooLarge { stream, end } => Event::TooLarge { stream, end },
            Found::Data { stream, data, end } => Event::Data { stream, data, end },
            Found::Trailers { stream } => Event::Trailers {
                stream,
                trailers: Fields::new(&self.section, 0),
            },
            Found::Reset {
                stream,
                code,
                fault,
            } => Event::Reset {
                stream,
                code,
                fault,
            },
            Found::Pong { payload } => Event::Pong { payload },
            Found::GoAway { code } => Event::GoAway { code },
        }
    }

    fn head(&self, priority: Priority) -> RequestHead<'_> {
        RequestHead::new(&self.section, &self.parsed, priority)
    }
}

/// Bytes without use that a client may send, beside those that requests, content and time allow.
const USELESS: u64 = 128 * 1024;

/// The content of a message before its header section has been read.
const ANY_CONTENT: Content = Content::Open;
