//! Stand-in for the agent, which answers as the agent does.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub(super) const MARK_A: u32 = 0x68_0001;
pub(super) const MARK_B: u32 = 0x68_0002;

/// An agent with the paths transit-a, which is the plain way, and transit-b.
pub(super) struct Agent {
    inner: Arc<Inner>,
    serving: JoinSet<()>,
    socket: PathBuf,
    dir: Option<tempfile::TempDir>,
}

struct Inner {
    /// In the place of the snapshot.
    first: Option<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reached: Vec<String>,
    /// By the clients as they are asked for.
    verdicts: HashMap<String, Vec<Value>>,
    watchers: Vec<mpsc::UnboundedSender<String>>,
    streams: usize,
    lookups: Vec<String>,
    hints: Vec<Value>,
    refuses_connections: bool,
}

/// Verdict of a policy for clients of the whole prefix that was asked for.
pub(super) fn verdict(classes: &[&str], mode: &str, paths: &[&str]) -> Value {
    json!({"policy": "p", "clients": [], "classes": classes, "mode": mode, "paths": paths, "backup": []})
}

pub(super) fn path(name: &str, state: &str, mark: u32, addresses: &[&str]) -> Value {
    json!({"name": name, "number": 1, "state": state, "reason": "as the test says",
           "since": "2026-11-22T09:00:00Z", "border": "192.0.2.1", "peer": 1, "mark": mark,
           "addresses": addresses, "backup": false, "table": 10001, "mtu": 1536,
           "routes": {"ipv6": 1, "ipv4": 1}})
}

/// Like [`path`], by a port of its own that admits the shares of clients of `[goodput, stall, rtt]`.
pub(super) fn path_by_port(name: &str, mark: u32, admitted: [f64; 3]) -> Value {
    let [goodput, stall, rtt] = admitted;
    let mut path = path(name, "up", mark, &[]);
    path["port"] = json!({"number": mark - MARK_A + 1, "kind": "transit", "price": 1.0,
        "admitted": {"goodput": goodput, "stall": stall, "rtt": rtt},
        "billed": {"goodput": 1, "stall": 1, "rtt": 1}, "spare": 0.0});
    path
}

impl Agent {
    pub(super) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), None)
    }

    /// One whose streams begin with `first`.
    pub(super) fn start_with(first: String) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), Some(first))
    }

    /// One in the place of another that was stopped.
    pub(super) fn start_at(dir: tempfile::TempDir) -> Self {
        Self::start_in(dir, None)
    }

    fn start_in(dir: tempfile::TempDir, first: Option<String>) -> Self {
        let socket = dir.path().join("api.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let inner = Arc::new(Inner {
            first,
            state: Mutex::new(State {
                reached: vec!["transit-a".to_owned(), "transit-b".to_owned()],
                ..State::default()
            }),
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&inner)));
        Self {
            inner,
            serving,
            socket,
            dir: Some(dir),
        }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends as if it was killed: all its connections break.
    pub(super) async fn stop(mut self) -> tempfile::TempDir {
        self.serving.shutdown().await;
        self.inner.state.lock().watchers.clear();
        std::fs::remove_file(&self.socket).unwrap();
        self.dir.take().unwrap()
    }

    /// Sends an event to all who watch.
    pub(super) fn send(&self, event: &str, data: &Value) {
        let text = format!("event: {event}\ndata: {data}\n\n");
        let mut state = self.inner.state.lock();
        state
            .watchers
            .retain(|watcher| watcher.send(text.clone()).is_ok());
    }

    /// Sets which paths reach clients.
    pub(super) fn reach(&self, paths: &[&str]) {
        self.inner.state.lock().reached = paths.iter().map(|&path| path.to_owned()).collect();
    }

    /// Sets the policies that match clients of a prefix, and sends the event of a change. Nobody but the agent
    /// matches policies: those in the event are for others.
    pub(super) fn judge(&self, client: &str, verdicts: &[Value]) {
        let mut state = self.inner.state.lock();
        state.verdicts.insert(client.to_owned(), verdicts.to_vec());
        drop(state);
        self.send("policies", &json!({"policies": []}));
    }

    pub(super) fn refuse_connections(&self) {
        self.inner.state.lock().refuses_connections = true;
    }

    pub(super) fn streams(&self) -> usize {
        self.inner.state.lock().streams
    }

    pub(super) fn lookups(&self) -> Vec<String> {
        self.inner.state.lock().lookups.clone()
    }

    pub(super) fn hints(&self) -> Vec<Value> {
        self.inner.state.lock().hints.clone()
    }

    pub(super) fn paths(&self) -> [(&'static str, u32); 2] {
        [("transit-a", MARK_A), ("transit-b", MARK_B)]
    }
}

async fn serve(listener: UnixListener, inner: Arc<Inner>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let inner = Arc::clone(&inner);
        let service = service_fn(move |request| {
            let inner = Arc::clone(&inner);
            async move { Ok::<_, Infallible>(inner.answer(request).await) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        connections.spawn(async move { drop(connection.await) });
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

fn answer(status: StatusCode, body: &Value) -> Answer {
    let mut response = Response::new(Full::from(body.to_string()).boxed());
    *response.status_mut() = status;
    response
}

impl Inner {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let read = || serde_json::from_slice::<Value>(&body).unwrap();
        match (&head.method, head.uri.path()) {
            (&Method::GET, "/v1/events") => self.events(),
            (&Method::POST, "/v1/lookup") => self.lookup(&read()),
            (&Method::PUT, "/v1/connections") => {
                let mut state = self.state.lock();
                if state.refuses_connections {
                    return answer(StatusCode::NOT_IMPLEMENTED, &json!({"error": "kernel"}));
                }
                state.hints.push(read());
                answer(StatusCode::NO_CONTENT, &Value::Null)
            }
            _ => answer(StatusCode::NOT_FOUND, &json!({"error": "no such path"})),
        }
    }

    fn events(&self) -> Answer {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let paths = [
            path("transit-a", "up", MARK_A, &["2001:db8:5::a1"]),
            path("transit-b", "up", MARK_B, &["2001:db8:5::b1"]),
        ];
        let snapshot = json!({"ready": true, "paths": paths, "sessions": [], "policies": []});
        let snapshot = format!("event: snapshot\ndata: {snapshot}\n\n");
        let _ = sender.send(self.first.clone().unwrap_or(snapshot));
        let mut state = self.state.lock();
        state.streams += 1;
        state.watchers.push(sender);
        let events = futures_util::stream::poll_fn(move |cx| {
            let next = receiver.poll_recv(cx);
            next.map(|text| text.map(|text| Ok(Frame::data(Bytes::from(text)))))
        });
        Response::new(BodyExt::boxed(StreamBody::new(events)))
    }

    fn lookup(&self, request: &Value) -> Answer {
        let mut state = self.state.lock();
        let clients = request["clients"].as_array().unwrap();
        let reached = state.reached.clone();
        let lookups = clients.iter().map(|client| {
            let client = client.as_str().unwrap();
            state.lookups.push(client.to_owned());
            let verdicts = state.verdicts.get(client).cloned().unwrap_or_default();
            let paths = reached.iter().map(|name| {
                json!({"name": name, "state": "up", "prefix": "::/0", "local_pref": 100, "med": 0,
                       "as_path": [64496, 64999]})
            });
            let paths: Vec<Value> = paths.collect();
            json!({"client": client, "best": "transit-a", "paths": paths, "policies": verdicts})
        });
        let lookups: Vec<Value> = lookups.collect();
        answer(StatusCode::OK, &json!({ "lookups": lookups }))
    }
}
