//! A TUN interface.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::error::LinkError;
use super::netns::Netns;
use super::sys;

/// The outer side of a TUN interface inside a namespace. It reads the packets that the namespace
/// sends; packets that it writes arrive there. Frames are a `virtio_net_hdr` and an IP packet.
/// Reads and writes do not block. A drop removes the interface.
#[derive(Debug)]
pub(super) struct Tun {
    file: File,
}

impl Tun {
    /// Room for the largest frame: a header and the longest IP packet.
    pub(super) const MAX_FRAME: usize = 16 + 65_536;

    pub(super) fn create(netns: &Netns, name: &str) -> Result<Self, LinkError> {
        let open = || -> io::Result<Self> {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
            let file = options.open("/dev/net/tun")?;
            sys::create_tun(&file, name)?;
            sys::enable_offloads(&file)?;
            Ok(Self { file })
        };
        netns.enter(open)?.map_err(|source| LinkError::Tun {
            name: name.to_owned(),
            source,
        })
    }

    /// Reads one frame; `None` if none is there.
    ///
    /// # Errors
    /// The kernel's error, except that no frame is there.
    pub(super) fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.file, &mut *buffer)) {
            Ok(len) => Ok(Some(&buffer[..len])),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(err) => Err(err.into()),
        }
    }

    /// Writes one frame, given as its headers and its payload.
    ///
    /// # Errors
    /// The kernel's error if it refused the frame.
    pub(super) fn write(&self, headers: &[u8], payload: &[u8]) -> io::Result<()> {
        let slices = [IoSlice::new(headers), IoSlice::new(payload)];
        rustix::io::retry_on_intr(|| rustix::io::writev(&self.file, &slices))?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
