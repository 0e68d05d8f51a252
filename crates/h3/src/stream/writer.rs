//! The sending side of a request stream.

use std::marker::PhantomData;

use bytes::{BufMut, BytesMut};
use hikyaku_http_common::content::Content;
use hikyaku_http_common::message::length_of;
use http::{HeaderMap, Method, StatusCode, response};

use crate::connection::Connection;
use crate::frame::{Header, kind};
use crate::message::{self, Encoded, Prepared, RequestHead};
use crate::qpack::FieldRef;

/// Writes a message on a request stream: header section, content, trailer section.
///
/// Each call appends bytes for sending to `out`. For content that is the frame's header alone; the
/// content's bytes follow it, without a copy. Appended bytes must be sent in their order, or the
/// stream be reset.
#[derive(Debug)]
pub struct Writer<H> {
    stream: u64,
    phase: Phase,
    content: Content,
    /// The request's method, which decides whether a response may have content.
    method: Option<Method>,
    head: PhantomData<fn() -> H>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Content,
    Trailers,
}

/// Why a part cannot be sent. No byte was appended, and the stream is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The section is larger than the peer takes (RFC 9114 §4.2.2).
    #[error("a section of {size} bytes, where the peer takes {limit}")]
    TooLarge {
        /// Size of the section, in bytes.
        size: u64,
        /// `SETTINGS_MAX_FIELD_SECTION_SIZE` of the peer.
        limit: u64,
    },
    /// The message would be malformed: content is forbidden, or has another length than
    /// Content-Length.
    #[error("content that is not as the header section says")]
    Content,
    /// The order is header section, content and trailer section, each but content once.
    #[error("a part of the message out of its order")]
    Order,
    /// 101 is no status of HTTP/3 (RFC 9114 §4.5).
    #[error("a response that switches protocols")]
    SwitchesProtocols,
}

impl<H> Writer<H> {
    pub(crate) fn new(stream: u64, method: Option<Method>) -> Self {
        Self {
            stream,
            phase: Phase::Head,
            content: Content::Open,
            method,
            head: PhantomData,
        }
    }

    /// The stream's identifier (RFC 9000 §2.1).
    pub fn stream(&self) -> u64 {
        self.stream
    }

    /// Appends the header of a DATA frame for `length` bytes of content, which the caller sends
    /// after it. Appends nothing for no bytes.
    ///
    /// # Errors
    /// [`Unsent::Order`] before the header section or after the trailers. [`Unsent::Content`] if
    /// the content is longer than the header section allows.
    pub fn data(&mut self, length: usize, out: &mut BytesMut) -> Result<(), Unsent> {
        if self.phase != Phase::Content {
            return Err(Unsent::Order);
        }
        let length = length as u64;
        self.content.on_data(length).map_err(|_| Unsent::Content)?;
        if length > 0 {
            let kind = kind::DATA;
            Header { kind, length }.encode(out);
        }
        Ok(())
    }

    /// Appends a trailer section.
    ///
    /// # Errors
    /// [`Unsent::Order`] before the header section, after other trailers or on a tunnel.
    /// [`Unsent::Content`] if content is missing. [`Unsent::TooLarge`].
    pub fn trailers(
        &mut self,
        trailers: &HeaderMap,
        connection: &mut Connection,
        out: &mut BytesMut,
    ) -> Result<(), Unsent> {
        if self.phase != Phase::Content || self.content == Content::Tunnel {
            return Err(Unsent::Order);
        }
        self.finish()?;
        self.section(&message::trailers(trailers), connection, out)?;
        self.phase = Phase::Trailers;
        Ok(())
    }

    /// Checks that the message is complete, so that the stream may end.
    ///
    /// # Errors
    /// [`Unsent::Order`] before the header section. [`Unsent::Content`] if less was sent than
    /// Content-Length announces.
    pub fn finish(&self) -> Result<(), Unsent> {
        if self.phase == Phase::Head {
            return Err(Unsent::Order);
        }
        self.content.on_end().map_err(|_| Unsent::Content)
    }

    /// Whether content may be sent: after the header section, unless that answers HEAD or has a
    /// status without content (RFC 9110 §6.4.1).
    pub fn takes_content(&self) -> bool {
        self.phase == Phase::Content && self.content != Content::None
    }

    fn section(
        &self,
        section: &Encoded<'_>,
        connection: &mut Connection,
        out: &mut BytesMut,
    ) -> Result<(), Unsent> {
        check_size(connection, || section.size())?;
        headers_frame(out, |out| {
            connection.encode(self.stream, section.fields(), out);
        });
        Ok(())
    }
}

impl Writer<response::Parts> {
    /// Sets the request's method, by which a response has content or none. Without it, the response
    /// may have content.
    pub fn answers(&mut self, method: &Method) {
        self.method = Some(method.clone());
    }

    /// Appends a header section: any number of interim ones (1xx), then the final one.
    ///
    /// Fields that HTTP/3 must not have, such as Connection, are left out (RFC 9114 §4.2).
    ///
    /// # Errors
    /// [`Unsent::Order`] after the final one, [`Unsent::SwitchesProtocols`] for 101,
    /// [`Unsent::TooLarge`].
    pub fn head(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        connection: &mut Connection,
        out: &mut BytesMut,
    ) -> Result<(), Unsent> {
        self.check_head(status)?;
        self.section(&message::response(&status, headers), connection, out)?;
        self.head_is_sent(status, length_of(headers));
        Ok(())
    }

    /// Appends a prepared header section, with the fields in `more` after its own. Their names are
    /// in lower case.
    ///
    /// # Errors
    /// As [`Writer::head`].
    pub fn prepared(
        &mut self,
        prepared: &Prepared,
        more: &[(&str, &[u8])],
        connection: &mut Connection,
        out: &mut BytesMut,
    ) -> Result<(), Unsent> {
        self.check_head(prepared.status)?;
        check_size(connection, || {
            let more = more
                .iter()
                .map(|(name, value)| name.len() + value.len() + 32);
            prepared.lines.size() + more.sum::<usize>() as u64
        })?;
        let more = more.iter().map(|(name, value)| FieldRef {
            name: name.as_bytes(),
            value,
            sensitive: false,
        });
        headers_frame(out, |out| {
            connection.encode_prepared(self.stream, &prepared.lines, more, out);
        });
        self.head_is_sent(prepared.status, prepared.content_length);
        Ok(())
    }

    fn check_head(&self, status: StatusCode) -> Result<(), Unsent> {
        if self.phase != Phase::Head {
            return Err(Unsent::Order);
        }
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Unsent::SwitchesProtocols);
        }
        Ok(())
    }

    fn head_is_sent(&mut self, status: StatusCode, length: Option<u64>) {
        if !status.is_informational() {
            let method = self.method.as_ref().unwrap_or(&Method::GET);
            self.content = Content::of_response(status, method, length);
            self.phase = Phase::Content;
        }
    }
}

impl Writer<RequestHead> {
    /// Appends the header section.
    ///
    /// Fields that HTTP/3 must not have, such as Connection, are left out (RFC 9114 §4.2).
    ///
    /// # Errors
    /// [`Unsent::Order`] if it was sent before, [`Unsent::TooLarge`].
    pub fn head(
        &mut self,
        head: &RequestHead,
        connection: &mut Connection,
        out: &mut BytesMut,
    ) -> Result<(), Unsent> {
        if self.phase != Phase::Head {
            return Err(Unsent::Order);
        }
        self.section(&message::request(head), connection, out)?;
        self.content = if head.parts.method == Method::CONNECT {
            Content::Tunnel
        } else {
            Content::of_length(length_of(&head.parts.headers))
        };
        self.phase = Phase::Content;
        Ok(())
    }
}

/// Checks the size of a section against the limit that the peer has set.
fn check_size(connection: &Connection, size: impl FnOnce() -> u64) -> Result<(), Unsent> {
    if let Some(limit) = connection.peer_settings().max_field_section_size {
        let size = size();
        if size > limit {
            return Err(Unsent::TooLarge { size, limit });
        }
    }
    Ok(())
}

/// Appends a HEADERS frame whose content `encode` appends. The length is known only afterwards. Two
/// bytes are reserved for it, and two more inserted if it needs them.
fn headers_frame(out: &mut BytesMut, encode: impl FnOnce(&mut BytesMut)) {
    const TWO_BYTES: u16 = 0x4000;
    const FOUR_BYTES: u32 = 0x8000_0000;
    out.put_u8(kind::HEADERS as u8);
    let at = out.len();
    out.put_u16(TWO_BYTES);
    let start = out.len();
    encode(out);
    let length = out.len() - start;
    if length < usize::from(TWO_BYTES) {
        let length = TWO_BYTES | length as u16;
        out[at..start].copy_from_slice(&length.to_be_bytes());
    } else {
        out.put_u16(0);
        out.copy_within(start..start + length, start + 2);
        // Sections of a gigabyte are beyond every limit.
        let length = FOUR_BYTES | length as u32;
        out[at..start + 2].copy_from_slice(&length.to_be_bytes());
    }
}
