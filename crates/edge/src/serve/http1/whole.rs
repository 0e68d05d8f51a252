//! Whole files in memory, sent in one write.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::Answerer;
use super::super::head::date;
use super::super::tls_io::TlsIo;
use super::super::whole::is_undated;
use crate::ledger::{Ledger, Ticket};
use hikyaku_content::WholeFile;

/// A response on its way into TLS.
pub(super) struct Whole {
    bytes: Chain<Bytes, Bytes>,
    ticket: Option<Ticket>,
}

impl Whole {
    /// The response to a request that `file` answers.
    pub(super) fn new(answerer: &Answerer, file: &WholeFile, request: &Request<()>) -> Self {
        let mut ticket = answerer.conn.ledger.open(request);
        let alt_svc = answerer.answers_by(file, request, &mut ticket);
        let content = match *request.method() {
            Method::HEAD => Bytes::new(),
            _ => file.content().clone(),
        };
        let date = is_undated(file).then(date);
        let head = head(file.prepared_h1(prepare), date, alt_svc.as_ref());
        Self {
            bytes: head.chain(content),
            ticket: Some(ticket),
        }
    }

    /// Encrypts the response, and writes as much of it as has to be written for that.
    pub(super) fn poll_send<T: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        tls: &mut TlsIo<T>,
        ledger: &Ledger,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.bytes.has_remaining() {
            if !tls.has_room() {
                ready!(tls.poll_write_sealed(cx))?;
            }
            let content = self.bytes.last_ref().remaining();
            tls.seal(&mut self.bytes)?;
            ledger.note_content(content - self.bytes.last_ref().remaining());
        }
        if let Some(ticket) = self.ticket.take() {
            ticket.complete();
        }
        Poll::Ready(Ok(()))
    }
}

/// The head of a response, with the fields that vary.
fn head(prepared: &Bytes, date: Option<HeaderValue>, alt_svc: Option<&HeaderValue>) -> Bytes {
    let mut head = Vec::with_capacity(prepared.len() + VARYING);
    head.extend_from_slice(prepared);
    if let Some(date) = date {
        field(&mut head, &header::DATE, &date);
    }
    if let Some(value) = alt_svc {
        field(&mut head, &header::ALT_SVC, value);
    }
    head.extend_from_slice(b"\r\n");
    head.into()
}

/// Encodes the head of a file's responses, but for the fields that vary and the empty line.
fn prepare(headers: &HeaderMap) -> Bytes {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for (name, value) in headers {
        field(&mut head, name, value);
    }
    head.into()
}

fn field(head: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    head.extend_from_slice(name.as_str().as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value.as_bytes());
    head.extend_from_slice(b"\r\n");
}

/// Room for the fields that vary.
const VARYING: usize = 96;
