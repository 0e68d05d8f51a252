//! The peer's control stream (RFC 9114 §6.2.1, §7.2).

use bytes::Bytes;

use super::{Connection, Event, Role};
use crate::error::{Code, Error};
use crate::frame::{self, Content, Header, HeaderDecoder, kind, only_integer};
use crate::priority::Priority;
use crate::settings::Settings;
use crate::varint;

/// The state of reading the peer's control stream.
#[derive(Debug, Default)]
pub(super) struct Control {
    header: HeaderDecoder,
    payload: Payload,
    pub(super) settings: Option<Settings>,
    max_push_id: Option<u64>,
}

#[derive(Debug, Default)]
enum Payload {
    /// Between frames: a header comes next.
    #[default]
    Header,
    Gathered {
        kind: u64,
        content: Content,
    },
    Skipped {
        left: u64,
    },
}

/// Largest content of PRIORITY_UPDATE, in bytes.
const MAX_PRIORITY_UPDATE: u64 = 1024;

impl Connection {
    /// Takes the next bytes of the peer's control stream.
    pub(super) fn on_control(&mut self, mut input: Bytes) -> Result<(), Error> {
        loop {
            match &mut self.control.payload {
                Payload::Header => {
                    let Some(header) = self.control.header.decode(&mut input) else {
                        return Ok(());
                    };
                    self.control.payload = self.on_control_header(header)?;
                }
                Payload::Skipped { left: 0 } => self.control.payload = Payload::Header,
                Payload::Skipped { left } => {
                    let Some(skipped) = frame::take(&mut input, left) else {
                        return Ok(());
                    };
                    self.budget.spend(skipped.len() as u64)?;
                }
                Payload::Gathered { kind, content } => {
                    let Some(content) = content.gather(&mut input) else {
                        return Ok(());
                    };
                    let kind = *kind;
                    self.control.payload = Payload::Header;
                    self.on_control_frame(kind, content)?;
                }
            }
        }
    }

    fn on_control_header(&mut self, header: Header) -> Result<Payload, Error> {
        let Header { kind, length } = header;
        if self.control.settings.is_none() && kind != kind::SETTINGS {
            let code = Code::MissingSettings;
            return Err(Error::connection(code, "a control stream without SETTINGS"));
        }
        let max = match kind {
            kind::SETTINGS if self.control.settings.is_some() => {
                return Err(unexpected("a second SETTINGS"));
            }
            kind::SETTINGS => Settings::MAX_LENGTH,
            kind::GOAWAY | kind::CANCEL_PUSH => integer(length)?,
            kind::MAX_PUSH_ID if self.role == Role::Server => integer(length)?,
            kind::PRIORITY_UPDATE_REQUEST | kind::PRIORITY_UPDATE_PUSH
                if self.role == Role::Server =>
            {
                MAX_PRIORITY_UPDATE
            }
            _ if header.is_known() || header.is_reserved() => {
                return Err(unexpected("a frame that may not be on a control stream"));
            }
            _ => {
                self.budget.spend_frame(0)?;
                return Ok(Payload::Skipped { left: length });
            }
        };
        self.budget.spend_frame(length)?;
        let content = Content::new(length, max)?;
        Ok(Payload::Gathered { kind, content })
    }

    fn on_control_frame(&mut self, kind: u64, content: Bytes) -> Result<(), Error> {
        match kind {
            kind::SETTINGS => self.on_settings(content),
            kind::GOAWAY => {
                let id = only_integer(content)?;
                self.goaway.on_received(id, self.role == Role::Client)?;
                self.events.push_back(Event::GoAway { id });
                Ok(())
            }
            kind::CANCEL_PUSH => {
                only_integer(content)?;
                // Neither was a push promised, nor was one allowed (RFC 9114 §7.2.3).
                let code = Code::IdError;
                Err(Error::connection(code, "CANCEL_PUSH of no push"))
            }
            kind::MAX_PUSH_ID => self.on_max_push_id(only_integer(content)?),
            _ => self.on_priority_update(kind, content),
        }
    }

    fn on_settings(&mut self, content: Bytes) -> Result<(), Error> {
        let settings = Settings::decode(content)?;
        self.encoder.set_peer_settings(
            settings.qpack_max_table_capacity,
            settings.qpack_blocked_streams,
        );
        self.control.settings = Some(settings);
        self.events.push_back(Event::Settings(settings));
        Ok(())
    }

    /// "A MAX_PUSH_ID frame cannot reduce the maximum Push ID" (RFC 9114 §7.2.7).
    fn on_max_push_id(&mut self, id: u64) -> Result<(), Error> {
        if self
            .control
            .max_push_id
            .is_some_and(|previous| id < previous)
        {
            let code = Code::IdError;
            return Err(Error::connection(code, "MAX_PUSH_ID becomes smaller"));
        }
        self.control.max_push_id = Some(id);
        Ok(())
    }

    /// Reads a PRIORITY_UPDATE (RFC 9218 §7.2).
    fn on_priority_update(&mut self, kind: u64, mut content: Bytes) -> Result<(), Error> {
        let Some(stream) = varint::decode(&mut content) else {
            let code = Code::FrameError;
            return Err(Error::connection(code, "PRIORITY_UPDATE is truncated"));
        };
        if kind == kind::PRIORITY_UPDATE_PUSH {
            let code = Code::IdError;
            return Err(Error::connection(code, "PRIORITY_UPDATE of no push"));
        }
        let priority = Priority::parse(&content);
        let came_in = self.priorities.update(stream, priority)?;
        if self.open.contains(&stream) {
            self.events.push_back(Event::Priority { stream, priority });
        } else if came_in {
            // The request is over.
            self.priorities.remove(stream);
        }
        Ok(())
    }
}

/// The largest content of a frame that is one integer. A larger one "contains additional bytes
/// after the identified fields" (RFC 9114 §7.1).
fn integer(length: u64) -> Result<u64, Error> {
    let max = varint::MAX_LEN as u64;
    if length > max {
        let code = Code::FrameError;
        return Err(Error::connection(
            code,
            "a frame holds other than its fields",
        ));
    }
    Ok(max)
}

fn unexpected(reason: &'static str) -> Error {
    Error::connection(Code::FrameUnexpected, reason)
}
