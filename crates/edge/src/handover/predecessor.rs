//! The new process's end of a hand-over.

use std::env;
use std::io::{self, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use hikyaku_quic::Steering;
use hikyaku_quic::proto::ConnectionId;
use socket2::Socket;

use super::channel::Channel;
use super::message::{Described, FromFormer, FromNew, Hello, VERSION};
use super::pool::{Given, Pool};
use super::{HandoverError, PATIENCE, VARIABLE, activated};
use crate::secrets::Kept;

/// The sockets that a server need not bind, since another process has them.
#[derive(Debug, Default)]
pub struct Origin {
    pub(crate) pool: Pool,
    pub(crate) predecessor: Option<Predecessor>,
}

/// The process that serves until this one does.
#[derive(Debug)]
pub(crate) struct Predecessor {
    channel: Arc<Channel>,
    hello: Hello,
}

/// Reports to the process that serves why this one can't.
#[derive(Clone, Debug)]
pub struct Reporter(Arc<Channel>);

impl Origin {
    /// Takes the sockets of the server that has started this process to be upgraded. Otherwise takes those
    /// of systemd (sd_listen_fds(3)), if there are any. To be called once, before anything else has opened
    /// descriptors.
    ///
    /// # Errors
    /// When the sockets or messages that came can't be used.
    pub fn of_process() -> Result<Self, HandoverError> {
        if env::var_os(VARIABLE).is_none() {
            return Ok(Self {
                pool: Pool::new(activated::take()?),
                predecessor: None,
            });
        }
        let failed = |why: String| HandoverError::Predecessor { why };
        let end = stdin().as_fd().try_clone_to_owned();
        let channel = end.ok().and_then(Channel::of).ok_or_else(|| {
            failed(format!(
                "{VARIABLE} is set, and standard input is no socket of a server: unset it"
            ))
        })?;
        let (hello, given) = meet(&channel).map_err(|error| {
            let why = error.to_string();
            let _ = channel.send(&FromNew::Failed(why.clone()), &[]);
            failed(why)
        })?;
        let channel = Arc::new(channel);
        Ok(Self {
            pool: Pool::new(given),
            predecessor: Some(Predecessor { channel, hello }),
        })
    }

    /// Reports why this process can't serve; `None` where no other waits for it.
    pub fn reporter(&self) -> Option<Reporter> {
        let predecessor = self.predecessor.as_ref()?;
        Some(Reporter(Arc::clone(&predecessor.channel)))
    }
}

impl Reporter {
    /// Says why this process can't serve. It is of no use once it does.
    pub fn failed(&self, why: String) {
        // The end of this process says the rest.
        let _ = self.0.send(&FromNew::Failed(why), &[]);
    }
}

/// Receives what the former process offers.
fn meet(channel: &Channel) -> io::Result<(Hello, Vec<Given>)> {
    channel.limit(PATIENCE)?;
    let FromFormer::Hello(hello) = channel.receive()?.0 else {
        return Err(io::Error::other("it does not begin with a greeting"));
    };
    if hello.version != VERSION {
        return Err(io::Error::other(format!(
            "it hands over by version {} of the messages, and this one by {VERSION}: restart the \
             server instead",
            hello.version
        )));
    }
    let mut given = Vec::new();
    loop {
        match channel.receive()? {
            (FromFormer::Socket(described), descriptors) => {
                given.push(socket(described, descriptors)?);
            }
            (FromFormer::End, _) => return Ok((hello, given)),
            (other, _) => return Err(unexpected(&other)),
        }
    }
}

fn socket(described: Described, descriptors: Vec<OwnedFd>) -> io::Result<Given> {
    let mut descriptors = descriptors.into_iter();
    let socket = descriptors.next().map(Socket::from);
    let socket = socket.ok_or_else(|| io::Error::other("a socket is missing"))?;
    Ok(Given {
        role: described.role,
        group: described.group,
        asked: described.asked,
        socket,
        refused: described.refused,
        only_sends: described.only_sends,
        link: descriptors.next().map(UnixDatagram::from),
        is_foreign: false,
    })
}

fn unexpected(message: &FromFormer) -> io::Error {
    io::Error::other(format!("it sends {message:?} at the wrong time"))
}

impl Predecessor {
    /// How QUIC connections are distributed.
    pub(crate) fn steering(&self) -> Steering {
        Steering::new(self.hello.workers, self.hello.steering)
    }

    /// Counts processes, modulo 256.
    pub(crate) fn generation(&self) -> u8 {
        self.hello.generation
    }

    /// The keys that its clients know.
    ///
    /// # Errors
    /// When they can't be understood.
    pub(crate) fn keys(&self) -> Result<Kept, HandoverError> {
        let keys = Kept::parse(self.hello.keys.as_bytes());
        keys.map_err(|why| HandoverError::Predecessor { why })
    }

    /// Says that this process can serve, and waits until it may. Gives the ids that clients have drawn
    /// whose handshake the other process goes on with.
    ///
    /// # Errors
    /// When the other process has ended, or does not answer.
    pub(crate) fn take_over(&self) -> Result<Vec<ConnectionId>, HandoverError> {
        let wait = || {
            self.channel.send(&FromNew::Ready, &[])?;
            let mut ids = Vec::new();
            loop {
                match self.channel.receive()?.0 {
                    FromFormer::Handshakes(some) => ids.extend(some.iter().filter_map(parse_id)),
                    FromFormer::Go => return Ok(ids),
                    other => return Err(unexpected(&other)),
                }
            }
        };
        wait().map_err(|error: io::Error| HandoverError::Predecessor {
            why: error.to_string(),
        })
    }

    /// Whether it still runs.
    pub(crate) fn runs(&self) -> bool {
        self.channel.is_silent()
    }

    /// Says that this process is asked to stop, so that the other does not go on in its place.
    pub(crate) fn stops(&self) {
        // It may have ended long ago.
        let _ = self.channel.send(&FromNew::Stopping, &[]);
    }
}

/// A connection id of hexadecimal digits.
fn parse_id(text: &String) -> Option<ConnectionId> {
    let digit = |letter: u8| char::from(letter).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    let id: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    let id = id.filter(|id| id.len() <= 20)?;
    Some(ConnectionId::new(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for id in [&[][..], &[0], &[0xab; 8], &[0xff; 20]] {
            let id = ConnectionId::new(id);
            assert_eq!(parse_id(&id.to_string()), Some(id));
        }
        for wrong in ["0g", "abc1x2", "+1", "abc", &"00".repeat(21)] {
            assert_eq!(parse_id(&(*wrong).to_owned()), None, "{wrong}");
        }
    }
}
