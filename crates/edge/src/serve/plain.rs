//! Clients that speak HTTP in the clear where TLS is served.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const HEAD: &str = "HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 91\r\n\
    Connection: close\r\n\r\n";
const BODY: &str =
    "400 Bad Request: this is an HTTPS port: begin the address with https:// instead of http://\n";
/// Bytes that the client may go on to send while it reads the answer.
const DISCARDED: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(2);

/// Answers to a request that begins with `head` that this is no port for HTTP in the clear, and closes.
/// Returns what to log.
pub(super) async fn refuse(mut io: impl AsyncRead + AsyncWrite + Unpin, head: &[u8]) -> io::Error {
    match answer(&mut io, head).await {
        Ok(()) => io::Error::new(io::ErrorKind::InvalidData, "HTTP without TLS"),
        Err(error) => error,
    }
}

async fn answer(io: &mut (impl AsyncRead + AsyncWrite + Unpin), head: &[u8]) -> io::Result<()> {
    let body = match head.starts_with(b"HEAD ") {
        true => "",
        false => BODY,
    };
    io.write_all(format!("{HEAD}{body}").as_bytes()).await?;
    io.shutdown().await?;
    // Bytes that are unread when the socket is closed become a reset, which may take the answer
    // away from the client (RFC 9112 §9.6).
    let rest = async {
        let mut buffer = [0; 4096];
        let mut discarded = 0;
        while discarded < DISCARDED {
            match io.read(&mut buffer).await? {
                0 => break,
                count => discarded += count,
            }
        }
        Ok(())
    };
    tokio::time::timeout(LINGER, rest).await.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_answer_is_whole_http() {
        for (request, body) in [("GET / HTTP/1.1\r\n", BODY), ("HEAD / HTTP/1.1\r\n", "")] {
            let (mut client, server) = tokio::io::duplex(4096);
            let refused = tokio::spawn(async move { refuse(server, request.as_bytes()).await });
            let mut answer = String::new();
            client.write_all(b"Host: a\r\n\r\n").await.unwrap();
            client.read_to_string(&mut answer).await.unwrap();
            drop(client);
            assert_eq!(refused.await.unwrap().kind(), io::ErrorKind::InvalidData);
            assert_eq!(answer.strip_prefix(HEAD), Some(body), "{request}");
        }
        assert!(HEAD.contains(&format!("Content-Length: {}\r\n", BODY.len())));
    }
}
