//! A server that is upgraded, with all of its processes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use hikyaku_testkit::{Server, binary, eventually, hikyaku};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A server whose program can be replaced. Its processes are killed when it is dropped.
pub(crate) struct Upgradable {
    pub(crate) server: Server,
    program: PathBuf,
    _dir: TempDir,
}

impl Upgradable {
    #[track_caller]
    pub(crate) fn start(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("hikyaku");
        symlink(binary(), &program).unwrap();
        let exec = format!("exec {} \"$@\"", program.display());
        let start = || Server::try_start_by(&["sh", "-c", &exec], args);
        // UDP takes the port that TCP got, which another test's socket may have.
        let mut tries = (0..10).map(|_| start());
        let server = tries.find_map(|tried| match tried {
            Ok(server) => Some(server),
            Err(log) if log.contains("Address already in use") => None,
            Err(log) => panic!("the server did not start:\n{log}"),
        });
        Self {
            server: server.unwrap(),
            program,
            _dir: dir,
        }
    }

    /// Runs `hikyaku upgrade`.
    pub(crate) fn upgrade(&self) -> Output {
        hikyaku(&["upgrade", "--admin", &self.server.admin.to_string()])
    }

    /// Upgrades the server, and returns its new process.
    #[track_caller]
    pub(crate) fn upgraded(&self) -> Pid {
        let (before, output) = (self.successors().len(), self.upgrade());
        assert!(output.status.success(), "{output:?}\n{}", self.server.log());
        let successors = eventually("the report of the upgrade", || {
            let successors = self.successors();
            (successors.len() > before).then_some(successors)
        });
        successors[before]
    }

    /// Upgrades the server, and waits until only the new process is left.
    #[track_caller]
    pub(crate) fn replaced(&self) -> Pid {
        let former = self.serving();
        let new = self.upgraded();
        wait_gone(former);
        new
    }

    /// The process that serves.
    pub(crate) fn serving(&self) -> Pid {
        let first = Pid::from_raw(self.server.pid().cast_signed()).unwrap();
        self.successors().last().copied().unwrap_or(first)
    }

    /// The processes that were started by upgrades, by the log.
    pub(crate) fn successors(&self) -> Vec<Pid> {
        let log = self.server.log();
        let reports = log.split("upgraded: process ").skip(1);
        let pids = reports.filter_map(|rest| rest.split(' ').next()?.parse().ok());
        pids.filter_map(Pid::from_raw).collect()
    }

    /// Replaces the program by a script.
    pub(crate) fn install(&self, script: &str) {
        let new = self.program.with_extension("new");
        fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, &self.program).unwrap();
    }

    /// Replaces it by the program of the tests again.
    pub(crate) fn reinstall(&self) {
        self.install(&format!("exec {} \"$@\"", binary()));
    }
}

impl Drop for Upgradable {
    fn drop(&mut self) {
        for pid in self.successors() {
            if is_running(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Whether a process of hikyaku runs under this number.
pub(crate) fn is_running(pid: Pid) -> bool {
    let dir = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let command = fs::read_to_string(dir.join("cmdline")).unwrap_or_default();
    // Of a zombie it is empty.
    command.split('\0').any(|word| word == "serve")
}

#[track_caller]
pub(crate) fn wait_gone(pid: Pid) {
    eventually("the end of the former process", || {
        (!is_running(pid)).then_some(())
    });
}

/// A configuration with files, an upstream that echoes bodies, and one of WebSocket.
pub(crate) fn write_config(path: &Path, root: &str, state: &Path, echo: &str, socket: &str) {
    let text = format!(
        "root = {root:?}\n\
         [state]\ndir = {state:?}\n\
         [timeouts]\ndrain = \"5s\"\n\
         [[route]]\npath = \"/echo\"\nupstream = \"http://{echo}\"\n\
         [[route]]\npath = \"/socket\"\nupstream = \"http://{socket}\"\n"
    );
    fs::write(path, text).unwrap();
}
