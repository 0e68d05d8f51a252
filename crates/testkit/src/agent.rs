//! A fake of the egress agent, on a Unix socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// An agent with two egress routes for all clients: `transit-a`, which plain packets take, and
/// `transit-b`.
pub struct Agent {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
}

struct State {
    paths: [Value; 2],
    best: Value,
    policies: Value,
    hints: Vec<Value>,
    connections: Vec<UnixStream>,
    watchers: Vec<UnixStream>,
}

impl State {
    /// Sends an event to all who watch.
    fn notify(&mut self, event: &str) {
        self.watchers
            .retain_mut(|watcher| watcher.write_all(event.as_bytes()).is_ok());
    }
}

/// A path in the agent's API.
fn path(name: &str, state: &str, mark: u32, address: &str) -> Value {
    json!({"name": name, "number": 1, "state": state, "reason": "as the test says",
           "since": "2026-11-22T09:00:00Z", "border": "192.0.2.1", "peer": 1, "mark": mark,
           "addresses": [address], "backup": false, "table": 10001, "mtu": 1436,
           "routes": {"ipv6": 1, "ipv4": 1}})
}

impl Agent {
    /// The marks of the egress routes.
    pub const MARKS: [u32; 2] = [0x68_0001, 0x68_0002];
    /// The EPE addresses of the egress routes.
    pub const ADDRESSES: [&str; 2] = ["2001:db8:5::a1", "2001:db8:5::b1"];

    /// Starts the agent on `socket`.
    pub fn start(socket: PathBuf) -> Self {
        let [a, b] = Self::MARKS;
        let state = Arc::new(Mutex::new(State {
            paths: [
                path("transit-a", "up", a, Self::ADDRESSES[0]),
                path("transit-b", "up", b, Self::ADDRESSES[1]),
            ],
            best: json!({"best": "transit-a"}),
            policies: json!([]),
            hints: Vec::new(),
            connections: Vec::new(),
            watchers: Vec::new(),
        }));
        let listener = UnixListener::bind(&socket).unwrap();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = stream.try_clone().unwrap();
                shared.lock().unwrap().connections.push(kept);
                let shared = Arc::clone(&shared);
                // The thread ends with the connection.
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { socket, state }
    }

    /// Reports that the second egress route is `up`, `draining` or `down`.
    pub fn second_is(&self, how: &str) {
        let mut state = self.state.lock().unwrap();
        state.paths[1]["state"] = how.into();
        let event = format!("event: path\ndata: {}\n\n", state.paths[1]);
        state.notify(&event);
    }

    /// Begins a drain of the second egress route for this reason, or ends it.
    pub fn drain_second(&self, reason: Option<&str>) {
        let mut state = self.state.lock().unwrap();
        let path = state.paths[1].as_object_mut().unwrap();
        match reason {
            Some(reason) => {
                let drain = json!({"reason": reason, "since": "2026-11-28T09:00:00Z"});
                path.insert("drain".to_owned(), drain);
                path["state"] = "draining".into();
            }
            None => {
                path.remove("drain");
                path["state"] = "up".into();
            }
        }
        let event = format!("event: path\ndata: {}\n\n", state.paths[1]);
        state.notify(&event);
    }

    /// Has classes of content leave by the second egress route, and the others as plain packets do.
    pub fn steer(&self, classes: &[&str]) {
        let mut state = self.state.lock().unwrap();
        let verdict = |classes: &[&str], mode: &str, paths: &[&str]| {
            json!({"policy": "p", "clients": [], "classes": classes, "mode": mode, "paths": paths,
                   "backup": []})
        };
        state.policies = json!([
            verdict(classes, "steered", &["transit-b"]),
            verdict(&[], "plain", &[]),
        ]);
        state.notify("event: policies\ndata: {\"policies\": []}\n\n");
    }

    /// The hints on MPTCP connections that came so far.
    #[must_use]
    pub fn hints(&self) -> Vec<Value> {
        self.state.lock().unwrap().hints.clone()
    }

    /// Does not know any more which egress route plain packets take, and gives a reason.
    pub fn plain_is_unknown(&self, why: &str) {
        let mut state = self.state.lock().unwrap();
        state.best = json!({"best_unknown": why});
        state.notify("event: routes\ndata: {\"prefixes\": []}\n\n");
    }

    /// Ends the agent as a kill would.
    pub fn kill(self) {
        std::fs::remove_file(&self.socket).unwrap();
        let mut state = self.state.lock().unwrap();
        state.watchers.clear();
        for connection in &state.connections {
            // A connection that has ended cannot be shut down again.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn serve(stream: UnixStream, state: &Mutex<State>) {
    let mut requests = BufReader::new(stream);
    while let Some((head, body)) = read(&mut requests) {
        let stream = requests.get_mut();
        let answer = match head.split(' ').nth(1) {
            Some("/v1/events") => {
                let mut state = state.lock().unwrap();
                let snapshot = json!({"ready": true, "paths": state.paths, "sessions": [],
                                      "policies": []});
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
                     event: snapshot\ndata: {snapshot}\n\n"
                );
                let mut watcher = stream.try_clone().unwrap();
                if watcher.write_all(answer.as_bytes()).is_ok() {
                    state.watchers.push(watcher);
                }
                continue;
            }
            Some("/v1/lookup") => {
                let state = state.lock().unwrap();
                lookup(&serde_json::from_slice(&body).unwrap(), &state)
            }
            Some("/v1/connections") => {
                let hint = serde_json::from_slice(&body).unwrap();
                state.lock().unwrap().hints.push(hint);
                json!({})
            }
            _ => json!({}),
        };
        let answer = answer.to_string();
        let length = answer.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The answers to a request.
fn lookup(request: &Value, state: &State) -> Value {
    let reach = |name: &str| {
        json!({"name": name, "state": "up", "prefix": "::/0", "local_pref": 100, "med": 0,
               "as_path": [64496, 64999]})
    };
    let paths = [reach("transit-a"), reach("transit-b")];
    let clients = request["clients"].as_array().unwrap().iter();
    let of = |client| {
        let mut answer = json!({"client": client, "paths": paths, "policies": state.policies});
        let fields = state.best.as_object().unwrap().clone();
        answer.as_object_mut().unwrap().extend(fields);
        answer
    };
    json!({"lookups": clients.map(of).collect::<Vec<Value>>()})
}

/// Reads a request's first line and its body.
fn read(requests: &mut BufReader<UnixStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    requests
        .read_line(&mut head)
        .ok()
        .filter(|read| *read > 0)?;
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        requests
            .read_line(&mut line)
            .ok()
            .filter(|read| *read > 0)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    requests.read_exact(&mut body).ok()?;
    Some((head, body))
}
