//! `hikyaku lab shell` and `hikyaku lab clean` remove all of their own, and nothing else. Most
//! tests need root.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hikyaku_testkit::{binary, hikyaku, skip};
use rustix::process::{Pid, Signal, kill_process};

/// The machine's list of congestion controls and `lab clean` concern every lab.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn root(test: &str) -> Option<MutexGuard<'static, ()>> {
    if !rustix::process::geteuid().is_root() {
        skip(test, "namespaces need root");
        return None;
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A `hikyaku lab shell pair` that runs a shell script. The script prints `ready`.
struct Lab {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Lab {
    fn start(script: &str) -> Self {
        // The tests may run under nohup, where the signal is ignored.
        let mut child = Command::new("env")
            .args(["--default-signal=HUP", binary()])
            .args(["lab", "shell", "pair", "--", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, stdout }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn namespaces(&self) -> Vec<String> {
        namespaces(&format!("hkyk-{}-", self.child.id()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.signal(Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

fn namespaces(prefix: &str) -> Vec<String> {
    let entries = fs::read_dir("/run/netns").unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_commands_exit_status_is_the_shells() {
    let Some(_guard) = root("the_commands_exit_status_is_the_shells") else {
        return;
    };
    let cases: &[(&[&str], i32)] = &[
        (&["true"], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
    ];
    for (command, expected) in cases {
        let output = hikyaku(&[&["lab", "shell", "pair", "--"], *command].concat());
        assert_eq!(
            output.status.code(),
            Some(*expected),
            "{command:?}: {output:?}"
        );
    }
}

#[test]
fn a_command_runs_inside_the_node_and_knows_the_others() {
    let Some(_guard) = root("a_command_runs_inside_the_node_and_knows_the_others") else {
        return;
    };
    let script = "echo $HIKYAKU_LAB_TOPOLOGY $HIKYAKU_LAB_NODE; ls /sys/class/net; \
                  ip -brief address show hkyk0; ip netns exec $NETNS_CLIENT true && echo entered";
    let output = hikyaku(&[
        "lab", "shell", "pair", "--node", "server", "--", "sh", "-c", script,
    ]);
    let (out, err) = text(&output);
    for word in [
        "pair server\n",
        "hkyk0\nlo\n",
        "10.104.121.2/24",
        "entered\n",
    ] {
        assert!(out.contains(word), "no `{word}` in: {out}{err}");
    }
}

#[test]
fn a_shell_reports_on_the_links_and_writes_their_packets() {
    let Some(_guard) = root("a_shell_reports_on_the_links_and_writes_their_packets") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let logs = directory.path().join("logs");
    let mut shell = Command::new(binary())
        .args(["lab", "shell", "pair", "--packet-log"])
        .arg(&logs)
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let refused = format!(
        "{} get https://10.104.121.2:1/ --http 2; exit 0\n",
        binary()
    );
    let mut stdin = shell.stdin.take().unwrap();
    stdin.write_all(refused.as_bytes()).unwrap();
    drop(stdin);
    let (out, _) = text(&shell.wait_with_output().unwrap());
    assert!(out.contains(" packets delivered, 0 lost,"), "{out}");
    assert!(out.contains("99 % of the packets at most"), "{out}");
    let file = std::fs::read_dir(&logs).unwrap().next().unwrap().unwrap();
    assert_eq!(file.path().extension().unwrap(), "csv");
    let lines = std::fs::read_to_string(file.path()).unwrap();
    let to_port_1 = |line: &&str| line.contains(",up,") && line.ends_with(",1,delivered");
    assert_eq!(lines.lines().filter(to_port_1).count(), 1, "{lines}");
}

#[test]
fn a_shell_shows_its_node_and_how_to_enter_the_others() {
    let Some(_guard) = root("a_shell_shows_its_node_and_how_to_enter_the_others") else {
        return;
    };
    let mut shell = Command::new(binary())
        .args(["lab", "shell", "pair"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    stdin.write_all(b"echo \"prompt $PS1\"; exit 5\n").unwrap();
    let number = shell.id();
    let output = shell.wait_with_output().unwrap();
    let (out, _) = text(&output);
    assert_eq!(output.status.code(), Some(5), "{out}");
    for word in [
        "* client  10.104.121.1 fd00:6879::1\n".to_owned(),
        "rate = \"200Mbps\"".to_owned(),
        format!("server  ip netns exec hkyk-{number}-0-server $SHELL\n"),
        "prompt [lab: client]".to_owned(),
    ] {
        assert!(out.contains(&word), "no `{word}` in: {out}");
    }
}

#[test]
fn wrong_invocations_get_advice() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    fs::write(&file, "description = ''\nnodes = [{ nane = 'a' }]\n").unwrap();
    let path = file.path().to_str().unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["dumbell"],
            &[
                "no file has this name",
                "`dumbbell`, `epe`, `fleet`, `pair`, `two-paths`",
            ],
        ),
        (&["/"], &["reading topology `/`", "directory"]),
        (
            &[path],
            &[path, "line 2", "^", "unknown field `nane`", "`name`"],
        ),
        (
            &["pair", "--", "no-such-program"],
            &["running `no-such-program`", "not found"],
        ),
        (
            &["pair", "--node", "router"],
            &["node `router`", "only client, server"],
        ),
    ];
    for (args, words) in cases {
        let output = hikyaku(&[&["lab", "shell"], *args].concat());
        let (_, err) = text(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        for word in ["error: "].iter().chain(*words) {
            assert!(err.contains(word), "{args:?}: no `{word}` in: {err}");
        }
    }
}

#[test]
fn without_privileges_one_message_lists_all_that_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let commands: [&[&str]; 4] = [
        &["lab", "shell", "pair"],
        &["lab", "clean"],
        &["lab", "run", "version-sweep", "--quick"],
        &["lab", "selftest"],
    ];
    for args in commands {
        let mut command = match rustix::process::geteuid().is_root() {
            true => Command::new("setpriv"),
            false => Command::new("env"),
        };
        if rustix::process::geteuid().is_root() {
            command.args(["--bounding-set=-all", "--inh-caps=-all"]);
        }
        command.arg(binary()).args(args).current_dir(&directory);
        let output = command.output().unwrap();
        let (_, err) = text(&output);
        assert_eq!(output.status.code(), Some(1), "{err}");
        for word in [
            "error: ",
            "CAP_NET_ADMIN",
            "CAP_SYS_ADMIN",
            "hint: run it as root",
            "lab sim",
        ] {
            assert!(err.contains(word), "{args:?}: no `{word}` in: {err}");
        }
        let written = fs::read_dir(&directory).unwrap().count();
        assert_eq!(written, 0, "{args:?} began to write");
    }

    let mut command = Command::new(binary());
    let output = command
        .args(["lab", "clean"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert!(
        text(&output).1.contains("`ip` of iproute2 on the PATH"),
        "{output:?}"
    );
}

#[test]
fn a_signal_ends_the_command_and_removes_everything() {
    let Some(_guard) = root("a_signal_ends_the_command_and_removes_everything") else {
        return;
    };
    let dies = "echo ready; exec sleep 1000";
    let handles = "trap 'kill $!; exit 9' INT TERM HUP; sleep 1000 & echo ready; wait";
    let ignores = "trap '' TERM HUP; echo ready; while :; do sleep 0.1; done";
    let cases = [
        (dies, Signal::INT, 128 + 2),
        (dies, Signal::TERM, 128 + 15),
        (dies, Signal::HUP, 128 + 1),
        (handles, Signal::INT, 9),
        (handles, Signal::TERM, 9),
        (ignores, Signal::TERM, 128 + 9),
    ];
    for (script, signal, expected) in cases {
        let mut lab = Lab::start(script);
        assert_eq!(lab.namespaces().len(), 2);
        lab.signal(signal);
        let status = lab.child.wait().unwrap();
        assert_eq!(status.code(), Some(expected), "{signal:?} for: {script}");
        assert_eq!(lab.namespaces(), [""; 0], "{signal:?} for: {script}");
    }
}

#[test]
fn processes_of_the_command_are_ended() {
    let Some(_guard) = root("processes_of_the_command_are_ended") else {
        return;
    };
    let mut lab = Lab::start("setsid sh -c \"trap '' TERM HUP; echo ready; sleep 1000\" & wait");
    lab.signal(Signal::TERM);
    assert_eq!(lab.child.wait().unwrap().code(), Some(128 + 15));
    assert_eq!(lab.namespaces(), [""; 0]);
    // All holders of the pipe have ended.
    lab.stdout.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn ignored_signals_stay_ignored() {
    let Some(_guard) = root("ignored_signals_stay_ignored") else {
        return;
    };
    let mut nohup = Command::new("nohup");
    nohup.args([
        binary(),
        "lab",
        "shell",
        "pair",
        "--",
        "sh",
        "-c",
        "echo ready; sleep 1; exit 3",
    ]);
    nohup
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = nohup.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_killed_lab_is_cleaned_up_and_nothing_else() {
    let Some(_guard) = root("a_killed_lab_is_cleaned_up_and_nothing_else") else {
        return;
    };
    let living = Lab::start("echo ready; exec sleep 1000");
    let foreign = Foreign::create();
    let stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let mut killed = Lab::start(stubborn);
    let left = killed.namespaces();
    assert_eq!(left.len(), 2);
    killed.signal(Signal::KILL);
    assert_eq!(killed.child.wait().unwrap().signal(), Some(9));
    assert_eq!(killed.namespaces(), left, "nobody has cleaned up yet");

    let would = hikyaku(&["lab", "clean", "--dry-run"]);
    assert!(would.status.success(), "{would:?}");
    let lines = |done: &str| -> Vec<String> {
        let namespaces = left.iter().map(|name| format!("{done} namespace {name}\n"));
        namespaces.chain([format!("{done} process ")]).collect()
    };
    for line in lines("would remove") {
        assert!(text(&would).0.contains(&line), "no `{line}` in {would:?}");
    }
    assert_eq!(killed.namespaces(), left, "a dry run removes nothing");

    let output = hikyaku(&["lab", "clean"]);
    assert!(output.status.success(), "{output:?}");
    for line in lines("removed") {
        assert!(text(&output).0.contains(&line), "no `{line}` in {output:?}");
    }
    assert!(
        !text(&output).0.contains(&living.namespaces()[0]),
        "{output:?}"
    );
    assert_eq!(killed.namespaces(), [""; 0]);
    killed.stdout.read_to_end(&mut Vec::new()).unwrap();

    assert_eq!(living.namespaces().len(), 2, "a running lab stays");
    assert!(foreign.exists(), "what is not a lab's stays");
    let again = hikyaku(&["lab", "clean"]);
    assert_eq!(text(&again).0, "nothing to remove\n");
}

/// A namespace with a name like that of a lab that ended long ago.
struct Foreign(String);

impl Foreign {
    fn create() -> Self {
        let name = format!("hkyk-{}-0-client", u32::MAX);
        let status = Command::new("ip").args(["netns", "add", &name]).status();
        assert!(status.unwrap().success());
        Self(name)
    }

    fn exists(&self) -> bool {
        Path::new("/run/netns").join(&self.0).exists()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "delete", &self.0])
            .status();
    }
}

#[test]
fn a_number_that_is_used_again_is_not_taken_for_a_living_owner() {
    let Some(_guard) = root("a_number_that_is_used_again_is_not_taken_for_a_living_owner") else {
        return;
    };
    let mut killed = Lab::start("echo ready; exec sleep 1000");
    let number = killed.child.id();
    killed.signal(Signal::KILL);
    killed.child.wait().unwrap();
    assert_eq!(namespaces(&format!("hkyk-{number}-")).len(), 2);

    // The kernel gives the number after this one to the next process.
    let mut tries = 0..100;
    let reused = tries.find_map(|_| {
        fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).ok()?;
        let mut lab = Command::new(binary());
        lab.args([
            "lab",
            "shell",
            "pair",
            "--",
            "sh",
            "-c",
            "ip netns list; exit 4",
        ]);
        let child = lab.stdout(Stdio::piped()).spawn().unwrap();
        let is_same = child.id() == number;
        let output = child.wait_with_output().unwrap();
        is_same.then_some(output)
    });
    let Some(output) = reused else {
        hikyaku(&["lab", "clean"]);
        skip(
            "a_number_that_is_used_again_is_not_taken_for_a_living_owner",
            "the kernel does not let a process number be chosen",
        );
        return;
    };
    // Leftovers would have conflicted with the same names.
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(namespaces(&format!("hkyk-{number}-")), [""; 0]);
    assert!(killed.stdout.read_to_end(&mut Vec::new()).is_ok());
}

#[test]
fn the_list_of_congestion_controls_is_restored_by_the_last_lab() {
    const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    let Some(_guard) = root("the_list_of_congestion_controls_is_restored_by_the_last_lab") else {
        return;
    };
    let entries = fs::read_dir("/run/hikyaku-lab").map_or(0, Iterator::count);
    if entries > 1 {
        skip(
            "the_list_of_congestion_controls_is_restored_by_the_last_lab",
            "another lab runs on this machine",
        );
        return;
    }
    let read = || fs::read_to_string(ALLOWED).unwrap();
    let _restore = Restore(ALLOWED, read());
    fs::write(ALLOWED, "reno").unwrap();
    let first = Lab::start("echo ready; exec sleep 1000");
    assert!(read().contains("cubic"), "{}", read());
    let second = Lab::start("echo ready; exec sleep 1000");
    drop(first);
    assert!(read().contains("cubic"), "the second needs it: {}", read());
    drop(second);
    assert_eq!(read(), "reno\n");

    let mut killed = Lab::start("echo ready; exec sleep 1000");
    killed.signal(Signal::KILL);
    killed.child.wait().unwrap();
    assert!(read().contains("cubic"));
    let output = hikyaku(&["lab", "clean"]);
    assert!(
        text(&output).0.contains("removed `cubic` from"),
        "{output:?}"
    );
    assert_eq!(read(), "reno\n");
}

/// Restores a file's content.
struct Restore(&'static str, String);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = fs::write(self.0, &self.1);
    }
}

#[test]
fn clean_refuses_to_remove_its_own_namespace() {
    let Some(_guard) = root("clean_refuses_to_remove_its_own_namespace") else {
        return;
    };
    let mut killed = Lab::start("echo ready; exec sleep 1000");
    let left = killed.namespaces();
    killed.signal(Signal::KILL);
    killed.child.wait().unwrap();
    let inside = Command::new("ip")
        .args(["netns", "exec", &left[0], binary(), "lab", "clean"])
        .output()
        .unwrap();
    assert_eq!(inside.status.code(), Some(1), "{inside:?}");
    assert!(
        text(&inside).1.contains("this process runs inside"),
        "{inside:?}"
    );
    assert_eq!(killed.namespaces(), left);
    assert!(hikyaku(&["lab", "clean"]).status.success());
    assert_eq!(killed.namespaces(), [""; 0]);
}
