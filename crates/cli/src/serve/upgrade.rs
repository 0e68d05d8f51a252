//! Replacing this process by a new one of the program.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hikyaku_edge::{Server, Successor, SuccessorEvent};

use super::{Event, Signals, notify};

/// Starts a new process and has it serve. The error is the reason why this one goes on.
pub(super) async fn begin(server: &Server) -> Result<Successor, String> {
    let upgraded = try_begin(server).await;
    upgraded.map_err(|error| {
        let why = format!("not upgraded, this process goes on: {error:#}");
        tracing::error!("{why}");
        why
    })
}

async fn try_begin(server: &Server) -> anyhow::Result<Successor> {
    tracing::info!("upgrading: a new process is started");
    let prepared = server.prepare_upgrade(command()?).await?;
    // Before the new one speaks for the service.
    notify::main_process(prepared.pid());
    let handed = server.hand_over(prepared).await;
    let successor = handed.inspect_err(|_| notify::main_process(std::process::id()))?;
    let pid = successor.pid();
    tracing::info!("upgraded: process {pid} serves; this one finishes its requests");
    Ok(successor)
}

/// The end of a time in which another process serves and this one finishes.
pub(super) enum After {
    /// This process is done.
    Left,
    /// The other one has died, and this one has to serve.
    Needed,
}

/// Finishes the requests of this process, while `successor` serves.
pub(super) async fn leave(
    server: &Server,
    mut successor: Successor,
    signals: &mut Signals,
) -> After {
    let mut draining = std::pin::pin!(server.drain());
    let (mut retired, mut ended) = (false, false);
    loop {
        tokio::select! {
            cut = draining.as_mut() => {
                match cut {
                    0 => tracing::info!("the former process ends; every request was answered"),
                    cut => tracing::warn!("the former process ends and cuts {cut} connections"),
                }
                return After::Left;
            }
            event = successor.next(), if !ended => match event {
                SuccessorEvent::Stops => {
                    server.retire();
                    retired = true;
                }
                SuccessorEvent::Ended if retired => {
                    server.receive_again().await;
                    ended = true;
                }
                SuccessorEvent::Ended => return After::Needed,
            },
            event = signals.next() => match event {
                Event::End if retired => {
                    tracing::warn!("the former process stops at once");
                    return After::Left;
                }
                Event::End => {
                    server.retire();
                    retired = true;
                }
                Event::Reload | Event::Upgrade => {
                    let pid = successor.pid();
                    tracing::warn!("process {pid} serves: send it the signal");
                }
            },
        }
    }
}

/// The command that starts the program as it is installed now, with the arguments of this process.
fn command() -> io::Result<Command> {
    let mut words = env::args_os();
    let called = words.next();
    let mut command = Command::new(program(called.as_deref())?);
    command.args(words);
    Ok(command)
}

/// The program's file. A path by which it was called may be a link that leads to a new release. Without one
/// it is the file that this process was started from, which a package manager may have replaced.
fn program(called: Option<&OsStr>) -> io::Result<PathBuf> {
    let called = called.map(Path::new);
    let called = called.filter(|path| path.components().count() > 1 && path.is_file());
    match called {
        Some(path) => Ok(path.to_owned()),
        None => Ok(in_place(&env::current_exe()?)),
    }
}

/// The path of a file, which the kernel marks where the file was replaced (proc_pid_exe(5)).
fn in_place(exe: &Path) -> PathBuf {
    let bytes = exe.as_os_str().as_bytes();
    let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    OsStr::from_bytes(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_replaced_is_found_by_its_path() {
        let cases = [
            ("/usr/bin/hikyaku", "/usr/bin/hikyaku"),
            ("/usr/bin/hikyaku (deleted)", "/usr/bin/hikyaku"),
            ("/srv/a (deleted)/hikyaku", "/srv/a (deleted)/hikyaku"),
        ];
        for (exe, want) in cases {
            assert_eq!(in_place(Path::new(exe)), Path::new(want));
        }
    }

    #[test]
    fn the_program_is_looked_up_where_it_was_called() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("hikyaku");
        let exe = env::current_exe().unwrap();
        std::os::unix::fs::symlink(&exe, &link).unwrap();
        let found = |called: &Path| program(Some(called.as_os_str())).unwrap();
        assert_eq!(found(&link), link);
        assert_eq!(found(&dir.path().join("gone")), exe);
        assert_eq!(found(Path::new("hikyaku")), exe);
        assert_eq!(program(None).unwrap(), exe);
    }
}
