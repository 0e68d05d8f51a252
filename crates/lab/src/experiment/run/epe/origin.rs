//! The server behind the content server: a live source of a constant rate.
//!
//! It makes content as an encoder does, by the clock and with or without a reader. A client that
//! has fallen behind gets the missed content as soon as it can. It stands behind `hikyaku serve
//! --upstream`, as the origin of a live stream would. So the content server has nothing to send
//! between two pieces.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hikyaku_units::Rate;
use rustix::net::Shutdown;

use super::super::error::{Attempt, RunError};
use crate::experiment::files::LIVE_FILE;
use hikyaku_emulator::link::Netns;

/// The shortest time between two pieces of the stream. It is that of `iperf3 -b`, so that gaps can be
/// compared with those of its streams.
const PERIOD: Duration = Duration::from_millis(1);
/// Bytes that fill a packet: no piece has fewer, since encoders make none that small.
const PACKET: u64 = 1_200;

/// The content of an origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    /// Rate of [`LIVE_FILE`].
    pub(super) rate: Rate,
    /// Duration of [`LIVE_FILE`].
    pub(super) duration: Duration,
    /// Size of every other file.
    pub(super) training: u64,
}

/// A server that answers until it is dropped.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) address: SocketAddr,
    listener: TcpListener,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Origin {
    /// Starts the server on a port of a namespace's loopback interface.
    ///
    /// # Errors
    /// If the system refuses the socket.
    pub(super) fn start(netns: &Netns, content: Content) -> Result<Self, RunError> {
        let what = || "opening the origin's socket".to_owned();
        let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = netns.enter(bind)?.attempt(what)?;
        let address = listener.local_addr().attempt(what)?;
        let accepting = listener.try_clone().attempt(what)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let accept = move || {
            for stream in accepting.incoming() {
                if asked.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let asked = Arc::clone(&asked);
                // A client that leaves before the end is no fault.
                thread::spawn(move || answer(&stream, content, &asked));
            }
        };
        let acceptor = netns.enter(|| thread::spawn(accept))?;
        Ok(Self {
            address,
            listener,
            stop,
            acceptor: Some(acceptor),
        })
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // This wakes the acceptor, from any namespace.
        if rustix::net::shutdown(&self.listener, Shutdown::Both).is_ok()
            && let Some(acceptor) = self.acceptor.take()
        {
            // Its panic was reported when it happened.
            let _ = acceptor.join();
        }
    }
}

/// Answers the requests of a connection, one after the other.
fn answer(stream: &TcpStream, content: Content, stop: &AtomicBool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream).lines();
    let mut output = stream;
    while let Some(request) = lines.next().transpose()? {
        for line in lines.by_ref() {
            if line?.is_empty() {
                break;
            }
        }
        let live = request.contains(LIVE_FILE);
        let (kind, length) = match live {
            true => ("video/mp2t", bytes_by(content.rate, content.duration)),
            false => ("application/octet-stream", content.training),
        };
        write!(
            output,
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
             cache-control: no-store\r\n\r\n"
        )?;
        if request.starts_with("HEAD") {
            continue;
        }
        match live {
            true => stream_live(output, content, stop)?,
            false => send(output, length)?,
        }
    }
    Ok(())
}

fn stream_live(output: &TcpStream, content: Content, stop: &AtomicBool) -> io::Result<()> {
    let began = Instant::now();
    let period = period(content.rate);
    let (mut sent, mut next) = (0, period);
    while sent < bytes_by(content.rate, content.duration) {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let due = bytes_by(content.rate, next.min(content.duration));
        thread::sleep(next.saturating_sub(began.elapsed()));
        send(output, due - sent)?;
        (sent, next) = (due, next + period);
    }
    Ok(())
}

/// Returns the time between two pieces of a stream of a rate.
fn period(rate: Rate) -> Duration {
    let packet = PACKET as f64 * 8.0 / rate.bits_per_sec().max(1) as f64;
    PERIOD.max(Duration::from_secs_f64(packet))
}

fn send(mut output: &TcpStream, bytes: u64) -> io::Result<()> {
    let filling = [0x5a; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(filling.len() as u64);
        output.write_all(&filling[..piece as usize])?;
        left -= piece;
    }
    Ok(())
}

/// Returns the bytes that a source of a rate has made in a time.
fn bytes_by(rate: Rate, time: Duration) -> u64 {
    (u128::from(rate.bits_per_sec()) * time.as_micros() / 8_000_000) as u64
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_piece_fills_a_packet_and_takes_a_millisecond_at_least() {
        for (kbps, micros) in [(500, 19_200), (8_000, 1_200), (25_000, 1_000)] {
            let rate = Rate::from_bits_per_sec(kbps * 1_000);
            assert_eq!(period(rate), Duration::from_micros(micros), "{kbps} kbit/s");
        }
    }

    #[test]
    fn a_stream_has_its_rate_and_other_files_their_size() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let content = Content {
            rate: Rate::from_mbps(8),
            duration: Duration::from_millis(300),
            training: 1_000,
        };
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            answer(&stream, content, &AtomicBool::new(false))
        });
        let mut client = TcpStream::connect(address).unwrap();
        let mut fetch = |file: &str, length: usize| {
            let began = Instant::now();
            write!(client, "GET /{file} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            client.read_exact(&mut vec![0; length]).unwrap();
            assert!(
                String::from_utf8(head)
                    .unwrap()
                    .contains(&format!("content-length: {length}\r\n"))
            );
            began.elapsed()
        };
        assert!(fetch(LIVE_FILE, 300_000) >= Duration::from_millis(300));
        fetch("training.bin", 1_000);
        drop(client);
        server.join().unwrap().unwrap();
    }
}
