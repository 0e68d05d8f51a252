//! HTTP/1.1 as it is on the wire: heads and content, without any repair.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// A connection's bytes.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Bytes for T {}

/// The head of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) first_line: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl Head {
    fn parse(text: &str) -> Self {
        let mut lines = text.split("\r\n");
        let first_line = lines.next().unwrap_or_default().to_owned();
        let fields = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Self { first_line, fields }
    }

    pub(crate) fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let lines = self.fields.iter();
        lines.filter_map(move |(field, value)| {
            field.eq_ignore_ascii_case(name).then_some(value.as_str())
        })
    }

    /// The lines of a field, joined by commas (RFC 9110 §5.3).
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let lines: Vec<&str> = self.lines(name).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }

    /// Whether a request asks for a response only if it has changed.
    pub(crate) fn is_conditional(&self) -> bool {
        let mut names = ["if-none-match", "if-modified-since"].into_iter();
        names.any(|name| self.lines(name).next().is_some())
    }

    /// The status of a response.
    pub(crate) fn status(&self) -> u16 {
        let code = self.first_line.split(' ').nth(1);
        code.and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    fn is_chunked(&self) -> bool {
        self.get("transfer-encoding").is_some()
    }

    fn length(&self) -> Option<usize> {
        self.get("content-length")?.parse().ok()
    }
}

/// A connection, with the bytes that were read too early.
pub(crate) struct Wire {
    pub(crate) stream: Box<dyn Bytes>,
    ahead: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(stream: impl Bytes + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            ahead: Vec::new(),
        }
    }

    /// Reads a head. `None` if the connection ends before.
    pub(crate) async fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = self.ahead.windows(4).position(|four| four == b"\r\n\r\n") {
                let bytes: Vec<u8> = self.ahead.drain(..end + 4).collect();
                return Ok(Some(Head::parse(&String::from_utf8_lossy(&bytes[..end]))));
            }
            if self.more().await? == 0 {
                return match self.ahead.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// Reads the content of a request.
    pub(crate) async fn request_content(&mut self, head: &Head) -> io::Result<Vec<u8>> {
        match head.length() {
            _ if head.is_chunked() => self.chunks().await,
            Some(length) => self.take(length).await,
            None => Ok(Vec::new()),
        }
    }

    /// Reads the content of a response to a method.
    pub(crate) async fn response_content(
        &mut self,
        head: &Head,
        method: &str,
    ) -> io::Result<Vec<u8>> {
        let has_none = method == "HEAD" || matches!(head.status(), 100..=199 | 204 | 304);
        match head.length() {
            _ if has_none => Ok(Vec::new()),
            _ if head.is_chunked() => self.chunks().await,
            Some(length) => self.take(length).await,
            None => {
                while self.more().await? > 0 {}
                Ok(std::mem::take(&mut self.ahead))
            }
        }
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
            if size == 0 {
                // Trailers.
                while !self.line().await?.is_empty() {}
                return Ok(content);
            }
            content.extend(self.take(size).await?);
            self.take(2).await?;
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.ahead.windows(2).position(|two| two == b"\r\n") {
                let bytes: Vec<u8> = self.ahead.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&bytes[..end]).into_owned());
            }
            self.more_or_end().await?;
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.ahead.len() < length {
            self.more_or_end().await?;
        }
        Ok(self.ahead.drain(..length).collect())
    }

    async fn more_or_end(&mut self) -> io::Result<()> {
        match self.more().await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn more(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let read = self.stream.read(&mut buffer).await?;
        self.ahead.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}
