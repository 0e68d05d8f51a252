//! The operator's program for `dns-01`.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::failure::Failure;

/// The program that sets and removes records.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(crate) program: PathBuf,
    pub(crate) timeout: Duration,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Present,
    Cleanup,
}

impl Call {
    const fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Cleanup => "cleanup",
        }
    }
}

/// A TXT record.
#[derive(Clone, Debug)]
pub(crate) struct TxtRecord {
    /// The name that is proved, without `*.`.
    pub(crate) domain: String,
    pub(crate) value: String,
}

impl TxtRecord {
    /// The record's own name (RFC 8555 §8.4).
    fn name(&self) -> String {
        format!("_acme-challenge.{}", self.domain)
    }
}

impl Hook {
    /// Calls `HOOK present|cleanup DOMAIN RECORD VALUE`, and waits for its end.
    ///
    /// # Errors
    /// When the program can't be started, fails, or takes too long; it is killed then.
    pub(crate) async fn call(&self, call: Call, record: &TxtRecord) -> Result<(), Failure> {
        let name = record.name();
        let words = format!(
            "`{} {} {} {name} ...`",
            self.program.display(),
            call.name(),
            record.domain
        );
        let failed =
            |why: &dyn fmt::Display| Failure::own(format!("calling the hook {words}: {why}"));
        let child = self.start(call, record, &name);
        let child = child.map_err(|error| failed(&error))?;
        let running = Running::of(&child);
        let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
        let Ok(ended) = tokio::time::timeout(self.timeout, waiting).await else {
            // Dropping it ends the program.
            drop(running);
            let seconds = self.timeout.as_secs_f64();
            return Err(failed(&format!(
                "it did not end within {seconds} s (`acme.hook_timeout`) and was killed"
            )));
        };
        running.ended();
        let output = ended.map_err(io::Error::other).and_then(|output| output);
        let output = output.map_err(|error| failed(&error))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(failed(&verdict(&output))),
        }
    }

    fn start(&self, call: Call, record: &TxtRecord, name: &str) -> io::Result<Child> {
        Command::new(&self.program)
            .args([call.name(), &record.domain, name, &record.value])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A group of its own, so that its children end with it.
            .process_group(0)
            .spawn()
    }
}

/// Whether a file is a program that can be called.
///
/// # Errors
/// When it is not there, or may not be executed.
pub(crate) fn check(program: &Path) -> io::Result<()> {
    rustix::fs::access(program, rustix::fs::Access::EXEC_OK)?;
    match program.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => Ok(()),
    }
}

fn verdict(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let said = last.map(|line| format!(": {}", line.trim()));
    format!("{}{}", output.status, said.unwrap_or_default())
}

/// A program that is killed, with its children, when this is dropped before its end.
struct Running(Option<Pid>);

impl Running {
    fn of(child: &Child) -> Self {
        Self(Some(Pid::from_child(child)))
    }

    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn hook(dir: &Path, script: &str, timeout: Duration) -> Hook {
        let program = dir.join("hook");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Hook { program, timeout }
    }

    #[tokio::test]
    async fn a_hook_gets_the_record_and_its_failures_are_reported() {
        const LONG: Duration = Duration::from_secs(60);
        const SHORT: Duration = Duration::from_millis(100);
        let record = TxtRecord {
            domain: "a.example".to_owned(),
            value: "digest".to_owned(),
        };
        let cases = [
            (
                "the arguments",
                "[ \"$*\" = 'present a.example _acme-challenge.a.example digest' ]",
                LONG,
                None,
            ),
            (
                "a failure with its last words",
                "echo first >&2; echo no such zone >&2; exit 3",
                LONG,
                Some("exit status: 3: no such zone"),
            ),
            (
                "a failure without words",
                "exit 4",
                LONG,
                Some("exit status: 4"),
            ),
            (
                "too long",
                "sleep 600",
                SHORT,
                Some("did not end within 0.1 s (`acme.hook_timeout`)"),
            ),
        ];
        for (what, script, timeout, want) in cases {
            let dir = tempfile::tempdir().unwrap();
            let hook = hook(dir.path(), script, timeout);
            let got = hook.call(Call::Present, &record).await;
            match (&got, want) {
                (Ok(()), None) => {}
                (Err(failure), Some(want)) if failure.text.contains(want) => {
                    let call = "present a.example _acme-challenge.a.example ...`";
                    assert!(failure.text.contains(call), "{what}: {failure}");
                }
                _ => panic!("{what}: {got:?}"),
            }
        }
        let absent = Hook {
            program: "/nonexistent/hook".into(),
            timeout: LONG,
        };
        let failure = absent.call(Call::Cleanup, &record).await.unwrap_err();
        assert!(failure.text.contains("No such file"), "{failure}");
        assert!(check(Path::new("/nonexistent/hook")).is_err());
        assert!(check(Path::new("/")).is_err());
        assert!(check(Path::new("/bin/sh")).is_ok());
    }
}
