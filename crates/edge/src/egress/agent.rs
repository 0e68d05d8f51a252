//! The agent's local API (`docs/egress-api.md`): HTTP/1.1 on a Unix socket.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::UnixStream;

use super::net::Net;
use super::sse::{EventError, EventParser, RawEvent};
use super::wire::{AgentEvent, Lookup, LookupList, LookupRequest};

/// For an answer other than the stream of events.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// A stream on which nothing came for so long is dead: a comment comes every 15 s.
const SILENCE: Duration = Duration::from_secs(45);
/// Longest answer, in bytes: lookups of a thousand clients on 16 paths.
const MAX_ANSWER: usize = 16 << 20;
/// Bytes of a refusal's text that are passed on.
const MAX_REASON: usize = 512;
/// Most clients of one lookup.
pub(super) const MAX_CLIENTS: usize = 1000;

/// Why the agent did not answer as it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error("connecting: {source}{}", hint(source))]
    Connect { source: io::Error },
    #[error("no answer within {}s", .0.as_secs())]
    Late(Duration),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("it refused {request}: {status}: {why}")]
    Refused {
        request: String,
        status: StatusCode,
        why: String,
    },
    #[error("reading its answer to {request}: {why}")]
    Answer { request: String, why: String },
    #[error("reading its events: {0}")]
    Stream(#[from] EventError),
    #[error("reading its event `{name}`: {source}")]
    Event {
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("the stream of events ended")]
    Ended,
}

/// Advice on how to mend the error.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            " (is `hikyaku-egress server` running, and is this its `api.socket`?)"
        }
        io::ErrorKind::PermissionDenied => {
            " (the agent's `api.group` and `api.mode` say who may use it)"
        }
        _ => "",
    }
}

type Sender = SendRequest<Full<Bytes>>;

async fn connect(socket: &Path) -> Result<Sender, AgentError> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| AgentError::Connect { source })?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Ends with the sender. The request's own error reports a failure.
    tokio::spawn(connection);
    Ok(sender)
}

async fn send(
    sender: &mut Sender,
    method: &Method,
    path: &str,
    body: Bytes,
) -> Result<Response<Incoming>, AgentError> {
    let mut request = Request::new(Full::new(body));
    request.method_mut().clone_from(method);
    *request.uri_mut() = path.parse().map_err(|_| AgentError::Answer {
        request: path.to_owned(),
        why: "the path is no URI".to_owned(),
    })?;
    let headers = request.headers_mut();
    headers.insert(header::HOST, header::HeaderValue::from_static("egress"));
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    Ok(sender.send_request(request).await?)
}

/// The whole body of an answer, and its status.
async fn receive(
    request: &str,
    response: Response<Incoming>,
) -> Result<(StatusCode, Bytes), AgentError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER);
    match body.collect().await {
        Ok(body) => Ok((status, body.to_bytes())),
        Err(error) => Err(AgentError::Answer {
            request: request.to_owned(),
            why: match error.downcast_ref::<LengthLimitError>() {
                Some(_) => format!("it has more than {MAX_ANSWER} bytes"),
                None => error.to_string(),
            },
        }),
    }
}

/// The error for a status that is no success, with the reason from the body.
fn refused(request: String, status: StatusCode, body: &[u8]) -> AgentError {
    let reason = &body[..body.len().min(MAX_REASON)];
    AgentError::Refused {
        request,
        status,
        why: String::from_utf8_lossy(reason).trim().to_owned(),
    }
}

/// Asks the agent, over one connection that is kept.
#[derive(Debug)]
pub(super) struct Requests {
    socket: PathBuf,
    sender: Option<Sender>,
}

impl Requests {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            sender: None,
        }
    }

    /// Which paths reach each of up to [`MAX_CLIENTS`] clients; answers come in their order.
    ///
    /// # Errors
    /// When there is no whole answer in time.
    pub(super) async fn lookup(&mut self, clients: &[Net]) -> Result<Vec<Lookup>, AgentError> {
        let path = "/v1/lookup";
        let answer = self
            .ask(&Method::POST, path, &LookupRequest { clients })
            .await?;
        let malformed = |why: String| AgentError::Answer {
            request: format!("POST {path}"),
            why,
        };
        let list: LookupList =
            serde_json::from_slice(&answer).map_err(|error| malformed(error.to_string()))?;
        let same = list.lookups.iter().map(|lookup| lookup.client);
        if !same.eq(clients.iter().copied()) {
            return Err(malformed("it is not for the clients asked for".to_owned()));
        }
        Ok(list.lookups)
    }

    /// Sends a request with a JSON body, and gives the answer's body.
    ///
    /// # Errors
    /// When there is no successful answer in time.
    pub(super) async fn ask(
        &mut self,
        method: &Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Bytes, AgentError> {
        let body = serde_json::to_vec(body).map_err(|error| AgentError::Answer {
            request: format!("{method} {path}"),
            why: error.to_string(),
        })?;
        let asking = self.exchange(method, path, body.into());
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, asking).await;
        answer.unwrap_or(Err(AgentError::Late(ANSWER_TIMEOUT)))
    }

    async fn exchange(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, AgentError> {
        let kept = self.sender.take();
        let kept = match kept.filter(|sender| !sender.is_closed()) {
            Some(mut sender) => match send(&mut sender, method, path, body.clone()).await {
                // The agent has closed it in the meantime; these requests can be sent twice.
                Err(AgentError::Http(_)) => None,
                response => Some((sender, response?)),
            },
            None => None,
        };
        let (sender, response) = match kept {
            Some(kept) => kept,
            None => {
                let mut sender = connect(&self.socket).await?;
                let response = send(&mut sender, method, path, body).await?;
                (sender, response)
            }
        };
        let request = format!("{method} {path}");
        let (status, answer) = receive(&request, response).await?;
        self.sender = Some(sender);
        if status.is_success() {
            Ok(answer)
        } else {
            Err(refused(request, status, &answer))
        }
    }
}

/// The agent's events.
pub(super) struct EventStream {
    body: Incoming,
    parser: EventParser,
    arrived: VecDeque<RawEvent>,
    /// Keeps the connection.
    _sender: Sender,
}

impl EventStream {
    /// Opens the stream; its first event is a snapshot.
    ///
    /// # Errors
    /// When there is no agent, or it does not answer in time.
    pub(super) async fn open(socket: &Path) -> Result<Self, AgentError> {
        let opening = async {
            let mut sender = connect(socket).await?;
            let path = "/v1/events";
            let response = send(&mut sender, &Method::GET, path, Bytes::new()).await?;
            if !response.status().is_success() {
                let request = format!("GET {path}");
                let (status, body) = receive(&request, response).await?;
                return Err(refused(request, status, &body));
            }
            Ok(Self {
                body: response.into_body(),
                parser: EventParser::default(),
                arrived: VecDeque::new(),
                _sender: sender,
            })
        };
        let opened = tokio::time::timeout(ANSWER_TIMEOUT, opening).await;
        opened.unwrap_or(Err(AgentError::Late(ANSWER_TIMEOUT)))
    }

    /// The next event.
    ///
    /// # Errors
    /// When the stream ended, is silent for too long, or breaks the agreed format.
    pub(super) async fn next(&mut self) -> Result<AgentEvent, AgentError> {
        while self.arrived.is_empty() {
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            let frame = frame.map_err(|_| AgentError::Late(SILENCE))?;
            if let Ok(bytes) = frame.ok_or(AgentError::Ended)??.into_data() {
                let mut events = Vec::new();
                self.parser.take(&bytes, &mut events)?;
                self.arrived.extend(events);
            }
        }
        let RawEvent { name, data } = self.arrived.pop_front().ok_or(AgentError::Ended)?;
        AgentEvent::parse(&name, &data).map_err(|source| AgentError::Event { name, source })
    }
}
