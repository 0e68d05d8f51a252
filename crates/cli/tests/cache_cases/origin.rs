//! The origin, which answers each case by its programme and notes the requests.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::case::{Answer, Case, End};
use crate::wire::{Head, Wire};

/// An origin on loopback; it ends with its runtime.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    programmes: Arc<Mutex<HashMap<String, Arc<Programme>>>>,
}

/// The answers to one case, and the requests so far.
pub(crate) struct Programme {
    /// Begins all URLs of the case.
    pub(crate) path: String,
    answers: Vec<Answer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    step: usize,
    seen: Vec<Seen>,
}

/// A request that came to the origin.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) step: usize,
    pub(crate) head: Head,
}

impl Programme {
    /// Begins a step: its answer is in force from now on.
    pub(crate) fn begin(&self, step: usize) {
        self.state.lock().unwrap().step = step;
    }

    /// The requests that came during a step.
    pub(crate) fn seen(&self, step: usize) -> Vec<Seen> {
        let state = self.state.lock().unwrap();
        let of_step = state.seen.iter().filter(|seen| seen.step == step);
        of_step.cloned().collect()
    }

    fn note(&self, head: &Head) -> (usize, usize) {
        let mut state = self.state.lock().unwrap();
        let step = state.step;
        state.seen.push(Seen {
            step,
            head: head.clone(),
        });
        (step, state.seen.len())
    }
}

impl Origin {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let this = Self {
            address: listener.local_addr().unwrap(),
            programmes: Arc::default(),
        };
        let origin = this.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let origin = origin.clone();
                // Connections that break off are part of the cases.
                tokio::spawn(async move { origin.serve(stream).await });
            }
        });
        this
    }

    /// Takes a case up, under a path of its own.
    pub(crate) fn register(&self, case: &Case, run: &str) -> Arc<Programme> {
        let programme = Arc::new(Programme {
            path: format!("/{run}.{}", case.id),
            answers: case.steps.iter().map(|step| step.answer.clone()).collect(),
            state: Mutex::default(),
        });
        let mut programmes = self.programmes.lock().unwrap();
        programmes.insert(programme.path.clone(), Arc::clone(&programme));
        programme
    }

    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut wire = Wire::new(stream);
        while let Some(head) = wire.head().await? {
            wire.request_content(&head).await?;
            let mut words = head.first_line.split(' ');
            let method = words.next().unwrap_or_default();
            let target = words.next().unwrap_or_default();
            let end = target[1..]
                .find(['/', '?'])
                .map_or(target.len(), |at| at + 1);
            let programme = self.programmes.lock().unwrap().get(&target[..end]).cloned();
            let Some(programme) = programme else {
                let none = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
                wire.stream.write_all(none).await?;
                continue;
            };
            let (step, number) = programme.note(&head);
            let answer = &programme.answers[step];
            tokio::time::sleep(answer.late).await;
            if answer.end == End::HangsUp {
                break;
            }
            let content = format!("{} {step} {number}\n", programme.path);
            let text = text_of(answer, &programme, &head, method, content);
            wire.stream.write_all(text.as_bytes()).await?;
            wire.stream.flush().await?;
            if answer.end != End::Whole {
                break;
            }
        }
        wire.stream.shutdown().await
    }
}

/// A whole answer as text.
fn text_of(
    answer: &Answer,
    programme: &Programme,
    request: &Head,
    method: &str,
    content: String,
) -> String {
    let (status, lines) = match &answer.not_modified {
        Some(lines) if request.is_conditional() => (304, lines),
        _ => (answer.status, &answer.fields),
    };
    let mut text = String::new();
    if let Some(hints) = answer.hints {
        text += &format!("HTTP/1.1 103 Early Hints\r\n{hints}\r\n\r\n");
    }
    text += &format!("HTTP/1.1 {status} Status\r\n");
    let lines = filled(lines, &programme.path);
    for line in lines.lines() {
        text += &format!("{line}\r\n");
    }
    let has = |name: &str| lines.lines().any(|line| line.starts_with(name));
    if !has("Date:") {
        text += &format!("Date: {}\r\n", date(0));
    }
    let content = answer.content.map_or(content, str::to_owned);
    if matches!(status, 204 | 304) {
        return text + "\r\n";
    }
    let length = match answer.end {
        End::Cut => content.len() + 10,
        _ => content.len(),
    };
    if answer.end == End::CutChunks {
        text += "Transfer-Encoding: chunked\r\n\r\n";
        return text + &format!("{:x}\r\n{content}\r\n5\r\nab", content.len());
    }
    text += &format!("Content-Length: {length}\r\n\r\n");
    if method != "HEAD" {
        text += &content;
    }
    text
}

/// Fills dates and the path of the case into lines.
pub(crate) fn filled(lines: &str, path: &str) -> String {
    let mut text = String::new();
    let mut rest = lines;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap();
        text += before;
        text += &match name.strip_prefix("now") {
            Some("") => date(0),
            Some(seconds) => date(seconds.parse().unwrap()),
            None => path.to_owned(),
        };
        rest = after;
    }
    text + rest
}

/// The date some seconds from now (RFC 9110 §5.6.7).
fn date(seconds: i64) -> String {
    let now = SystemTime::now();
    let time = match u64::try_from(seconds) {
        Ok(later) => now + Duration::from_secs(later),
        Err(_) => now - Duration::from_secs(seconds.unsigned_abs()),
    };
    httpdate::fmt_http_date(time)
}
