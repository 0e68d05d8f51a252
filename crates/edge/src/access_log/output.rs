//! Where the lines of the access log go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const ONE_SECOND: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// An open file or pipe, or a file that is to be opened once there is space for it.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    file: Option<File>,
}

impl Output {
    /// Standard output, without the buffer that others write to.
    pub(super) fn stdout() -> io::Result<Self> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Self {
            path: PathBuf::new(),
            file: Some(file),
        })
    }

    /// The file at `path`, to be appended to.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = match open(path) {
            Err(error) if is_of_space(&error) => None,
            opened => Some(opened?),
        };
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }
}

/// Whether a file can't be made now, and may be later.
fn is_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn open(path: &Path) -> io::Result<File> {
    let is_fifo = path.metadata().is_ok_and(|file| file.file_type().is_fifo());
    let mut options = OpenOptions::new();
    if is_fifo {
        // Opened for reading as well, it does not wait for its reader, nor break when that goes
        // (fifo(7)).
        options.read(true).custom_flags(libc::O_NONBLOCK);
    }
    options.append(true).create(true).open(path)
}

impl Write for Output {
    /// As far as there is space; `WouldBlock` after a second without.
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&self.path)?),
        };
        match file.write(data) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut wanted = [PollFd::new(file, PollFlags::OUT)];
                poll(&mut wanted, Some(&ONE_SECOND))?;
                file.write(data)
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
