//! Unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2).

use bytes::{Buf, Bytes, BytesMut};

use super::{Connection, Event, Output, Role};
use crate::error::{Code, Error};
use crate::qpack;
use crate::varint;

/// A unidirectional stream that this endpoint opens, at most one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outgoing {
    /// The control stream (RFC 9114 §6.2.1). There is output for it from the beginning.
    Control,
    /// Instructions of the QPACK encoder (RFC 9204 §4.2).
    QpackEncoder,
    /// Instructions of the QPACK decoder (RFC 9204 §4.2).
    QpackDecoder,
}

/// The treatment of a unidirectional stream of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Read on.
    Read,
    /// Ask the peer to stop, with this code, since the stream's type is unknown (RFC 9114 §6.2). No
    /// more of the stream is to be handed in; nothing is remembered of it.
    Stop(Code),
}

/// A unidirectional stream of the peer.
#[derive(Debug)]
pub(super) enum Kind {
    /// The type has not arrived.
    Unknown(varint::Decoder),
    Critical(Critical),
    /// The type has no meaning here.
    Ignored,
}

/// A stream that every connection needs, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Critical {
    Control = 0x00,
    QpackEncoder = 0x02,
    QpackDecoder = 0x03,
}

/// Bytes that the peer's unidirectional streams may carry on a connection without requests.
pub(super) const USELESS: u64 = 128 * 1024;

/// More bytes for each request, up to [`USELESS`] at a time.
pub(super) const USELESS_PER_REQUEST: u64 = 16 * 1024;

/// Bytes of decoder instructions that may wait to be sent.
const MAX_DECODER_OUTPUT: usize = 64 * 1024;

/// The largest decoder instruction, in bytes (RFC 9204 §4.4).
const MAX_INSTRUCTION: usize = 10;

const PUSH: u64 = 0x01;

impl Connection {
    /// Takes the next bytes of the peer's unidirectional `stream`; `fin` marks the last ones. A
    /// stream is known from its first bytes on.
    ///
    /// # Errors
    /// The error that ends the connection: `H3_STREAM_CREATION_ERROR`, `H3_CLOSED_CRITICAL_STREAM`,
    /// or one of the stream's content.
    pub fn receive(&mut self, stream: u64, mut chunk: Bytes, fin: bool) -> Result<Incoming, Error> {
        let mut kind = self
            .incoming
            .remove(&stream)
            .unwrap_or(Kind::Unknown(varint::Decoder::default()));
        if let Kind::Unknown(decoder) = &mut kind
            && let Some(number) = decoder.decode(&mut chunk)
        {
            kind = self.on_type(number)?;
        }
        let incoming = self.on_bytes(&kind, chunk, fin)?;
        if !fin && incoming == Incoming::Read {
            self.incoming.insert(stream, kind);
        }
        Ok(incoming)
    }

    /// Notes that the peer reset its unidirectional `stream`.
    ///
    /// # Errors
    /// `H3_CLOSED_CRITICAL_STREAM` if it was the control stream or one of QPACK.
    pub fn reset(&mut self, stream: u64) -> Result<(), Error> {
        match self.incoming.remove(&stream) {
            Some(Kind::Critical(_)) => Err(closed()),
            _ => Ok(()),
        }
    }

    /// Returns the error with which to close when the peer asks to stop one of this endpoint's own
    /// unidirectional streams.
    ///
    /// "The receiver MUST NOT request that the sender close the control stream" (RFC 9114 §6.2.1),
    /// nor those of QPACK (RFC 9204 §4.2).
    pub fn stopped(&mut self, _stream: Outgoing) -> Error {
        closed()
    }

    fn on_type(&mut self, number: u64) -> Result<Kind, Error> {
        let critical = match number {
            0x00 => Critical::Control,
            0x02 => Critical::QpackEncoder,
            0x03 => Critical::QpackDecoder,
            // RFC 9114 §6.2.2: only servers push, and only to clients that allowed it (§4.6).
            PUSH if self.role == Role::Server => {
                let code = Code::StreamCreationError;
                return Err(Error::connection(code, "a push of a client"));
            }
            PUSH => {
                let code = Code::IdError;
                return Err(Error::connection(code, "a push, which was not allowed"));
            }
            _ => {
                self.budget.spend_frame(0)?;
                return Ok(Kind::Ignored);
            }
        };
        let is_same = |kind: &Kind| matches!(kind, Kind::Critical(other) if *other == critical);
        // A critical stream leaves the map only with the connection.
        if self.incoming.values().any(is_same) {
            let code = Code::StreamCreationError;
            return Err(Error::connection(code, "a second stream of a kind"));
        }
        Ok(Kind::Critical(critical))
    }

    fn on_bytes(&mut self, kind: &Kind, chunk: Bytes, fin: bool) -> Result<Incoming, Error> {
        match kind {
            // A stream that ends without a type has no meaning (RFC 9114 §6.2).
            Kind::Unknown(_) => Ok(Incoming::Read),
            Kind::Ignored => {
                self.budget.spend(chunk.len() as u64)?;
                Ok(Incoming::Stop(Code::StreamCreationError))
            }
            Kind::Critical(critical) => {
                match critical {
                    Critical::Control => self.on_control(chunk)?,
                    Critical::QpackEncoder => self.on_encoder_stream(&chunk)?,
                    Critical::QpackDecoder => {
                        self.budget.spend(chunk.len() as u64)?;
                        self.encoder.on_decoder_stream(&chunk)?;
                    }
                }
                if fin {
                    Err(closed())
                } else {
                    Ok(Incoming::Read)
                }
            }
        }
    }

    fn on_encoder_stream(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.budget.spend(chunk.len() as u64)?;
        self.instruct_encoder()?;
        self.decoder.on_encoder_stream(chunk)?;
        while let Some((stream, decoded)) = self.decoder.poll_unblocked() {
            self.unblocked.insert(stream, decoded?);
            self.events.push_back(Event::Unblocked { stream });
        }
        Ok(())
    }

    /// Checks that the decoder may add an instruction to those that wait to be sent.
    ///
    /// # Errors
    /// `H3_EXCESSIVE_LOAD` if the peer has long read none.
    pub(super) fn instruct_encoder(&mut self) -> Result<(), Error> {
        self.decoder_output += MAX_INSTRUCTION;
        if self.decoder_output > MAX_DECODER_OUTPUT {
            let code = Code::ExcessiveLoad;
            return Err(Error::connection(code, "the decoder's stream is not read"));
        }
        Ok(())
    }

    /// Takes bytes for one of this endpoint's own streams. Take them only when they can be sent:
    /// bytes that the peer does not read must stay here, where they are bounded.
    pub fn poll_output(&mut self) -> Option<Output> {
        let control = qpack::take(&mut self.control_output);
        if let Some(output) = self.output(Outgoing::Control, 0x00, control) {
            return Some(output);
        }
        let encoder = self.encoder.take_output();
        if let Some(output) = self.output(Outgoing::QpackEncoder, 0x02, encoder) {
            return Some(output);
        }
        self.decoder_output = 0;
        let decoder = self.decoder.take_output();
        self.output(Outgoing::QpackDecoder, 0x03, decoder)
    }

    /// Whether [`Connection::poll_output`] has bytes. Users of the connection ask after each use,
    /// and wake the sender.
    pub fn has_output(&self) -> bool {
        !self.control_output.is_empty() || self.encoder.has_output() || self.decoder.has_output()
    }

    fn output(&mut self, stream: Outgoing, number: u64, bytes: Bytes) -> Option<Output> {
        if bytes.is_empty() {
            return None;
        }
        let begun = &mut self.begun[stream as usize];
        let bytes = if std::mem::replace(begun, true) {
            bytes
        } else {
            let mut first = BytesMut::with_capacity(1 + bytes.remaining());
            varint::encode(number, &mut first);
            first.extend_from_slice(&bytes);
            first.freeze()
        };
        Some(Output { stream, bytes })
    }
}

fn closed() -> Error {
    Error::connection(Code::ClosedCriticalStream, "a critical stream was closed")
}
