//! The files and the certificate of all servers.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::rows::{File, Load, Row};

/// A directory for one measurement; removed when dropped.
#[derive(Debug)]
pub(super) struct Workspace {
    directory: PathBuf,
    /// Held for as long as the directory is used: two measurements would disturb each other.
    _lock: fs::File,
}

impl Workspace {
    /// Makes the directory below `parent`, which has to be on a disk, with the files that `rows`
    /// request. It removes what a killed measurement left.
    pub(super) fn prepare(parent: &Path, rows: &[Row]) -> Result<Self> {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        ensure_on_disk(parent)?;
        // A full path, since nginx takes others as below its own prefix.
        let parent = parent.canonicalize()?;
        let lock = lock(&parent)?;
        let directory = parent.join("work");
        remove(&directory)?;
        fs::create_dir(&directory).with_context(|| format!("creating {}", directory.display()))?;
        let workspace = Self {
            directory,
            _lock: lock,
        };
        workspace.write_certificate()?;
        workspace.write_files(rows)?;
        Ok(workspace)
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    pub(super) fn root(&self) -> PathBuf {
        self.path().join("root")
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.path().join("cert.pem")
    }

    pub(super) fn key(&self) -> PathBuf {
        self.path().join("key.pem")
    }

    /// Certificate and key in one file.
    pub(super) fn both(&self) -> PathBuf {
        self.path().join("both.pem")
    }

    /// The socket of the egress agent.
    pub(super) fn agent(&self) -> PathBuf {
        self.path().join("agent.sock")
    }

    fn write_certificate(&self) -> Result<()> {
        // The key is ECDSA on P-256, rcgen's default.
        let names = ["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string()];
        let made = rcgen::generate_simple_self_signed(names).context("making a certificate")?;
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        fs::write(self.both(), format!("{certificate}{key}"))?;
        fs::write(self.certificate(), certificate)?;
        fs::write(self.key(), key)?;
        Ok(())
    }

    fn write_files(&self, rows: &[Row]) -> Result<()> {
        fs::create_dir(self.root())?;
        write_random(&self.root().join(File::Small.path()), File::Small.size())?;
        let mut many = 0;
        for row in rows {
            let Load::Closed { file, .. } = row.load else {
                continue;
            };
            let path = self.root().join(file.path());
            match file {
                File::OneOf(count) => many = many.max(count),
                _ if path.exists() => {}
                _ => write_random(&path, file.size())?,
            }
        }
        if many > 0 {
            fs::create_dir(self.root().join("many"))?;
        }
        for number in 0..many {
            let path = self.root().join("many").join(format!("{number}.bin"));
            fs::write(&path, [0; File::OneOf(1).size() as usize])
                .with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // The next measurement tries again.
        let _ = remove(&self.directory);
    }
}

/// Random content does not compress, if any program should try.
fn write_random(path: &Path, size: u64) -> Result<()> {
    let mut content = vec![0; usize::try_from(size)?];
    ChaCha8Rng::seed_from_u64(size).fill_bytes(&mut content);
    // Written and read once, the file is on the disk and in the page cache.
    fs::write(path, content)
        .and_then(|()| fs::File::open(path)?.sync_all())
        .and_then(|()| fs::read(path))
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(())
}

fn lock(parent: &Path) -> Result<fs::File> {
    let path = parent.join("lock");
    let file = fs::File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => bail!(
            "another measurement runs in {}: wait for its end",
            parent.display()
        ),
        Err(fs::TryLockError::Error(fault)) => {
            Err(fault).with_context(|| format!("locking {}", path.display()))
        }
    }
}

fn remove(directory: &Path) -> Result<()> {
    match directory.exists() {
        true => fs::remove_dir_all(directory)
            .with_context(|| format!("removing {}", directory.display())),
        false => Ok(()),
    }
}

fn ensure_on_disk(path: &Path) -> Result<()> {
    const TMPFS: u64 = 0x0102_1994;
    let found = rustix::fs::statfs(path)?.f_type;
    ensure!(
        u64::try_from(found) != Ok(TMPFS),
        "{} is in memory (tmpfs), but files are to be served from a disk: choose another by --dir",
        path.display()
    );
    Ok(())
}
