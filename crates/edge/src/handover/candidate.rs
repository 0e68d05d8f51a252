//! The former process's end of a hand-over.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};

use hikyaku_quic::Steering;
use hikyaku_quic::proto::ConnectionId;

use super::channel::{Channel, Listening};
use super::message::{Described, FromFormer, FromNew, Hello, VERSION};
use super::pool::Role;
use super::{PATIENCE, UpgradeError, VARIABLE, activated};

/// Ids of one message.
const IDS: usize = 512;

/// A socket for the new process.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) role: Role,
    /// Sockets of one listener have the same.
    pub(crate) group: usize,
    /// The address that the configuration asks for.
    pub(crate) asked: SocketAddr,
    pub(crate) refused: bool,
    pub(crate) only_sends: bool,
    pub(crate) socket: OwnedFd,
    /// The new process's end of the way back.
    pub(crate) link: Option<UnixDatagram>,
}

/// Keys and ways that connections of both processes share.
#[derive(Debug)]
pub(crate) struct Terms {
    /// The new process's generation.
    pub(crate) generation: u8,
    pub(crate) steering: Steering,
    /// The server's keys.
    pub(crate) keys: Vec<u8>,
}

/// A process that can serve, and waits for leave to. It is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// `None` once it serves.
    child: Option<Child>,
    channel: Option<Channel>,
}

impl Candidate {
    /// Starts `command` and waits until it can serve with the sockets that it is offered.
    ///
    /// # Errors
    /// When it can't; it is ended then.
    pub(crate) fn start(
        mut command: Command,
        terms: &Terms,
        offers: Vec<Offer>,
    ) -> Result<Self, UpgradeError> {
        let (channel, theirs) = Channel::pair().map_err(UpgradeError::Prepare)?;
        channel.limit(PATIENCE).map_err(UpgradeError::Prepare)?;
        for variable in activated::VARIABLES {
            command.env_remove(variable);
        }
        // The watchdog's process is the new one from then on.
        command.env_remove("WATCHDOG_PID").env(VARIABLE, "1");
        let child = command.stdin(Stdio::from(theirs)).spawn();
        let child = child.map_err(|source| UpgradeError::Start {
            program: command.get_program().into(),
            source,
        })?;
        // It has a copy of the other end, which would keep the channel open.
        drop(command);
        let mut candidate = Self {
            child: Some(child),
            channel: Some(channel),
        };
        candidate.offer(terms, offers)?;
        Ok(candidate)
    }

    fn offer(&mut self, terms: &Terms, offers: Vec<Offer>) -> Result<(), UpgradeError> {
        let Some(channel) = &self.channel else {
            return Ok(());
        };
        let sent = send(channel, terms, offers);
        // A process that has ended may have said why.
        let answered = channel.receive();
        match (sent, answered) {
            (Ok(()), Ok((FromNew::Ready, _))) => Ok(()),
            (_, Ok((FromNew::Failed(why), _))) => Err(UpgradeError::Refused(why)),
            (_, Ok((FromNew::Stopping, _))) => {
                Err(UpgradeError::Refused("the new process was stopped".into()))
            }
            (_, Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let status = self.child.as_mut().map(Child::wait).transpose();
                match status.map_err(UpgradeError::Talk)? {
                    Some(status) => Err(UpgradeError::Died(status)),
                    None => Err(UpgradeError::Late),
                }
            }
            (_, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => Err(UpgradeError::Late),
            (Err(error), Ok(_)) | (_, Err(error)) => Err(UpgradeError::Talk(error)),
        }
    }

    /// The process's number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Gives it leave to serve, and the ids of the handshakes that this process goes on with.
    ///
    /// # Errors
    /// When it does not run any more.
    pub(crate) fn go(mut self, handshakes: &[ConnectionId]) -> Result<Successor, UpgradeError> {
        let pid = self.pid();
        let Some(channel) = self.channel.take() else {
            return Err(UpgradeError::Late);
        };
        let go = || {
            for ids in handshakes.chunks(IDS) {
                let ids = ids.iter().map(ToString::to_string).collect();
                channel.send(&FromFormer::Handshakes(ids), &[])?;
            }
            channel.send(&FromFormer::Go, &[])
        };
        go().map_err(UpgradeError::Talk)?;
        let channel = Listening::new(channel).map_err(UpgradeError::Prepare)?;
        Ok(Successor {
            pid,
            child: self.child.take(),
            channel,
        })
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn send(channel: &Channel, terms: &Terms, offers: Vec<Offer>) -> io::Result<()> {
    let hello = Hello {
        version: VERSION,
        generation: terms.generation,
        workers: terms.steering.workers(),
        steering: terms.steering.key(),
        keys: String::from_utf8_lossy(&terms.keys).into_owned(),
    };
    channel.send(&FromFormer::Hello(hello), &[])?;
    for offer in offers {
        let described = Described {
            role: offer.role,
            group: offer.group,
            asked: offer.asked,
            refused: offer.refused,
            only_sends: offer.only_sends,
        };
        let link = offer.link.iter().map(AsFd::as_fd);
        let descriptors: Vec<_> = [offer.socket.as_fd()].into_iter().chain(link).collect();
        channel.send(&FromFormer::Socket(described), &descriptors)?;
    }
    channel.send(&FromFormer::End, &[])
}

/// The process that serves now.
#[derive(Debug)]
pub struct Successor {
    pid: u32,
    child: Option<Child>,
    channel: Listening,
}

/// A change of the process that serves now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessorEvent {
    /// It was asked to stop, and finishes its requests.
    Stops,
    /// It runs no more.
    Ended,
}

impl Successor {
    /// The process's number.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until something happens to it. A call that is dropped misses nothing.
    pub async fn next(&mut self) -> SuccessorEvent {
        loop {
            match self.channel.receive().await {
                Ok(FromNew::Stopping) => return SuccessorEvent::Stops,
                // It said so before it served.
                Ok(FromNew::Ready | FromNew::Failed(_)) => {}
                // A later release may say more.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::InvalidData | io::ErrorKind::ConnectionReset
                    ) => {}
                Err(_) => break,
            }
        }
        if let Some(child) = &mut self.child {
            // The channel is closed by the end of the process, which leaves its status.
            let _ = child.wait();
        }
        SuccessorEvent::Ended
    }
}
