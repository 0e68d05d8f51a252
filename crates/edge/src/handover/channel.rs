//! Messages with descriptors over a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg,
    sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;

/// Bytes of a message at most.
const MAX_LEN: usize = 64 * 1024;
/// Descriptors of a message at most.
const MAX_DESCRIPTORS: usize = 2;

/// One end of a connection between two processes, which keeps the bounds of messages. It ends when the
/// other process has closed all copies of its end.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// A channel, and its other end for another process.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(ours), theirs))
    }

    /// Takes the end that another process has given; `None` if it is none.
    pub(super) fn of(end: OwnedFd) -> Option<Self> {
        let kind = sockopt::socket_type(&end).ok();
        (kind == Some(SocketType::SEQPACKET)).then_some(Self(end))
    }

    /// Has sending and receiving end with `WouldBlock` after `time`.
    pub(super) fn limit(&self, time: Duration) -> io::Result<()> {
        sockopt::set_socket_timeout(&self.0, Timeout::Send, Some(time))?;
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, Some(time))?;
        Ok(())
    }

    /// Sends a message with descriptors, of which the other process gets copies.
    pub(super) fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        if text.len() > MAX_LEN {
            return Err(io::Error::other("a message is too long"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("a message has too many descriptors"));
        }
        let text = [IoSlice::new(&text)];
        sendmsg(&self.0, &text, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for a message. At the end of the channel the error is `UnexpectedEof`.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> io::Result<(T, Vec<OwnedFd>)> {
        loop {
            let received = receive(self.0.as_fd(), RecvFlags::empty());
            match received {
                // The other process has closed its end before it had received everything. What it has
                // sent comes still.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                received => return received,
            }
        }
    }

    /// Whether the other process still has its end, and has sent nothing that is to be received.
    pub(super) fn is_silent(&self) -> bool {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        matches!(recv(&self.0, &mut [0_u8; 1], flags), Err(error) if error == rustix::io::Errno::AGAIN)
    }
}

/// Receives a message with its descriptors.
fn receive<T: DeserializeOwned>(
    end: BorrowedFd<'_>,
    flags: RecvFlags,
) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut text = vec![0; MAX_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        end,
        &mut [IoSliceMut::new(&mut text)],
        &mut control,
        flags | RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(io::Error::other("a message was cut"));
    }
    Ok((
        serde_json::from_slice(&text[..received.bytes])?,
        descriptors,
    ))
}

/// A [`Channel`] whose messages a task awaits.
#[derive(Debug)]
pub(super) struct Listening(tokio::net::UnixDatagram);

impl Listening {
    /// # Errors
    /// When the runtime can't watch it.
    pub(super) fn new(channel: Channel) -> io::Result<Self> {
        // Of another kind, but the runtime only watches it.
        let socket = UnixDatagram::from(channel.0);
        socket.set_nonblocking(true)?;
        tokio::net::UnixDatagram::from_std(socket).map(Self)
    }

    /// The next message; `UnexpectedEof` at the end of the channel. A call that is dropped takes none.
    pub(super) async fn receive<T: DeserializeOwned>(&self) -> io::Result<T> {
        loop {
            self.0.readable().await?;
            let received = self.0.try_io(Interest::READABLE, || {
                receive(self.0.as_fd(), RecvFlags::DONTWAIT)
            });
            match received {
                Ok((message, _)) => return Ok(message),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn messages_come_whole_with_their_descriptors() {
        let (one, other) = Channel::pair().unwrap();
        let other = Channel::of(other).unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        one.send(&"first", &[theirs.as_fd()]).unwrap();
        one.send(&"second", &[]).unwrap();
        drop(theirs);
        let (text, mut descriptors) = other.receive::<String>().unwrap();
        assert_eq!(text, "first");
        let mut theirs = UnixStream::from(descriptors.pop().unwrap());
        theirs.write_all(b"it is the same").unwrap();
        drop(theirs);
        let mut read = String::new();
        ours.read_to_string(&mut read).unwrap();
        assert_eq!(read, "it is the same");
        let (text, descriptors) = other.receive::<String>().unwrap();
        assert_eq!((text.as_str(), descriptors.len()), ("second", 0));
        assert!(other.is_silent());
        drop(one);
        assert!(!other.is_silent());
        let end = other.receive::<String>().unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn last_words_come_from_one_that_did_not_listen() {
        let (one, other) = Channel::pair().unwrap();
        let other = Channel::of(other).unwrap();
        one.send(&"nobody receives it", &[]).unwrap();
        other.send(&"last words", &[]).unwrap();
        drop(other);
        assert_eq!(one.receive::<String>().unwrap().0, "last words");
        let end = one.receive::<String>().unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_stream_is_no_channel() {
        let (stream, _other) = UnixStream::pair().unwrap();
        assert!(Channel::of(stream.into()).is_none());
    }

    #[test]
    fn nobody_waits_for_ever() {
        let (one, _other) = Channel::pair().unwrap();
        one.limit(Duration::from_millis(10)).unwrap();
        let late = one.receive::<String>().unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::WouldBlock);
    }
}
