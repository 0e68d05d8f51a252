//! The client, which sees responses as they came.

use std::io;
use std::net::SocketAddr;

use hikyaku_testkit::client::tls_over;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::case::Step;
use crate::wire::{Head, Wire};

/// The place of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    pub(crate) tls: bool,
}

/// A response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) content: Vec<u8>,
    /// Statuses of the responses before it.
    pub(crate) interim: Vec<u16>,
    /// Whether it broke off.
    pub(crate) is_broken: bool,
}

impl Response {
    pub(crate) fn status(&self) -> u16 {
        self.head.status()
    }
}

/// A client with one connection at a time.
pub(crate) struct Client {
    place: Place,
    wire: Option<Wire>,
}

impl Client {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, wire: None }
    }

    /// Makes the request of a step.
    pub(crate) async fn send(&mut self, step: &Step, path: &str) -> io::Result<Response> {
        if let Some(wire) = self.wire.take()
            && let Ok(response) = self.exchange(wire, step, path).await
        {
            return Ok(response);
        }
        // An idle connection may have ended meanwhile.
        let wire = self.connect().await?;
        self.exchange(wire, step, path).await
    }

    async fn connect(&self) -> io::Result<Wire> {
        let tcp = TcpStream::connect(self.place.address).await?;
        tcp.set_nodelay(true)?;
        Ok(match self.place.tls {
            true => Wire::new(tls_over(tcp, &["http/1.1"]).await?),
            false => Wire::new(tcp),
        })
    }

    async fn exchange(&mut self, mut wire: Wire, step: &Step, path: &str) -> io::Result<Response> {
        let text = request(step, path);
        wire.stream.write_all(text.as_bytes()).await?;
        wire.stream.flush().await?;
        let mut response = Response::default();
        loop {
            let head = wire.head().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if head.status() >= 200 {
                response.head = head;
                break;
            }
            response.interim.push(head.status());
        }
        match wire.response_content(&response.head, step.method).await {
            Ok(content) => response.content = content,
            Err(_) => response.is_broken = true,
        }
        let closes = response
            .head
            .get("connection")
            .is_some_and(|v| v == "close");
        if !closes && !response.is_broken {
            self.wire = Some(wire);
        }
        Ok(response)
    }
}

fn request(step: &Step, path: &str) -> String {
    let mut text = format!("{} {path}{} HTTP/1.1\r\n", step.method, step.suffix);
    if !step.fields.iter().any(|line| line.starts_with("Host:")) {
        text += "Host: localhost\r\n";
    }
    for line in &step.fields {
        text += &format!("{line}\r\n");
    }
    if let Some(content) = step.content {
        return text + &format!("Content-Length: {}\r\n\r\n{content}", content.len());
    }
    text + "\r\n"
}
