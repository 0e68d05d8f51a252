//! The part of the agents' API (`docs/egress-api.md`) that the lab uses.

use std::io::{self, Read, Write};
use std::net::Ipv6Addr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::error::{Attempt, RunError};

/// An agent that answers on a Unix socket.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    socket: PathBuf,
}

/// A summary of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Status {
    /// Whether paths and lookups are complete.
    pub(crate) ready: bool,
    /// Problems that an operator should know.
    pub(crate) problems: Vec<String>,
}

/// The paths that reach a client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Lookup {
    /// The path that plain packets take; `None` if it is unknown.
    pub(crate) best: Option<String>,
    /// Paths that are not down.
    pub(crate) paths: Vec<Reach>,
}

/// A path that reaches a client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Reach {
    /// The path's name.
    pub(crate) name: String,
    /// Permitted use of the path.
    pub(crate) state: EgressState,
}

/// Permitted use of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EgressState {
    /// Every use.
    Up,
    /// The present users of the path alone.
    Draining,
    /// No use.
    Down,
}

impl Agent {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// `GET /v1/status`.
    pub(crate) fn status(&self) -> Result<Status, RunError> {
        self.get("/v1/status")
    }

    /// Requests `GET /v1/lookup` for a client.
    pub(crate) fn lookup(&self, client: Ipv6Addr) -> Result<Lookup, RunError> {
        self.get(&format!("/v1/lookup?client={client}"))
    }

    /// Returns the answer to a GET.
    ///
    /// # Errors
    /// If the agent does not answer, or not as documented.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RunError> {
        let body = self.request("GET", path, "")?;
        serde_json::from_str(&body).map_err(|error| RunError::Report {
            program: "`hikyaku-egress`",
            why: format!("{error} in the answer to {path}: {body}"),
        })
    }

    /// Sends a request with a JSON body, or none if `body` is empty. Returns the answer's body.
    ///
    /// # Errors
    /// If the agent does not answer, or refuses; the error has its message.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Result<String, RunError> {
        let answer = self
            .exchange(method, path, body)
            .attempt(|| format!("asking the agent at {}", self.socket.display()))?;
        let refused = |why: &str| RunError::Report {
            program: "`hikyaku-egress`",
            why: format!("{why} to {method} {path}"),
        };
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .ok_or_else(|| refused("half an answer"))?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        match status.starts_with('2') {
            true => Ok(body.to_owned()),
            false => Err(refused(&format!("status {status}, {}", body.trim()))),
        }
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> io::Result<String> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // An HTTP/1.0 answer comes whole and ends with its connection.
        let mut request = format!("{method} {path} HTTP/1.0\r\nHost: egress\r\n");
        if !body.is_empty() {
            request += "Content-Type: application/json\r\n";
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        stream.write_all(format!("{request}\r\n{body}").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Asks an agent with this answer. Returns the result and the request.
    fn ask(answer: &'static str) -> (Result<Lookup, RunError>, String) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("api.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            let len = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&asked[..len]).into_owned()
        });
        let found = Agent::new(socket).lookup(Ipv6Addr::LOCALHOST);
        (found, server.join().unwrap())
    }

    #[test]
    fn a_lookup_returns_paths_and_the_best() {
        let (found, asked) = ask(
            "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"client\":\"::1/128\",\"best\":\"a\",\"paths\":[{\"name\":\"a\",\"state\":\"draining\"}]}",
        );
        assert!(asked.starts_with("GET /v1/lookup?client=::1 HTTP/1.0\r\n"));
        let want = Reach {
            name: "a".to_owned(),
            state: EgressState::Draining,
        };
        let found = found.unwrap();
        assert_eq!(found.best.as_deref(), Some("a"));
        assert_eq!(found.paths, [want]);
    }

    #[test]
    fn a_refusal_of_the_agent_is_reported() {
        let (found, _) = ask("HTTP/1.0 404 Not Found\r\n\r\n{\"error\":\"no such path\"}\n");
        let error = found.unwrap_err().to_string();
        assert!(
            error.contains("404") && error.contains("no such path"),
            "{error}"
        );
        let (found, _) = ask("HTTP/1.0 200");
        assert!(found.unwrap_err().to_string().contains("half an answer"));
    }
}
