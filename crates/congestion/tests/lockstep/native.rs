//! TCP's side: `floor.c` with the headers of `crates/edge/bpf`, as a program.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Event that both sides get. `kind` says which of the other fields count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    pub(crate) kind: u64,
    /// Microseconds.
    pub(crate) now: u64,
    pub(crate) rtt: u64,
    /// Packets of the rate sample, and its microseconds.
    pub(crate) delivered: u64,
    pub(crate) interval: u64,
    /// Packets delivered when the newest of the acknowledged was sent, and by now.
    pub(crate) prior: u64,
    pub(crate) total: u64,
    pub(crate) limited: u64,
    pub(crate) acked: u64,
    /// The window is one of slow start.
    pub(crate) searching: u64,
    pub(crate) lost: u64,
    /// The loss met a queue.
    pub(crate) met: u64,
}

pub(crate) const BEGIN: u64 = 0;
pub(crate) const SAMPLE: u64 = 1;
pub(crate) const LOST: u64 = 2;
pub(crate) const DOUBT: u64 = 3;
pub(crate) const CUT: u64 = 4;

impl Event {
    fn words(&self) -> [u64; 12] {
        [
            self.kind,
            self.now,
            self.rtt,
            self.delivered,
            self.interval,
            self.prior,
            self.total,
            self.limited,
            self.acked,
            self.searching,
            self.lost,
            self.met,
        ]
    }
}

/// State of TCP's side after an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// `enum step` or `enum answer`, by the event.
    pub(crate) decision: u64,
    pub(crate) round: u64,
    pub(crate) doubt_left: u64,
    pub(crate) probing: u64,
    pub(crate) of_probe: u64,
    pub(crate) drains: u64,
    pub(crate) interval: u64,
    pub(crate) startup: u64,
    /// Bits, in 2^-16.
    pub(crate) evidence: u64,
    /// Packets, in 1024ths.
    pub(crate) calm_acked: u64,
    pub(crate) calm_lost: u64,
    /// Microseconds.
    pub(crate) min_rtt: u64,
    pub(crate) queue_least: u64,
    /// Packets a microsecond, in 2^-24.
    pub(crate) rate: u64,
    pub(crate) last_rate: u64,
    pub(crate) growing: u64,
    /// Packets.
    pub(crate) bdp: u64,
}

const STATE_WORDS: usize = 17;

impl State {
    /// The state whose fields are these words, in the order in which the program writes them.
    fn from_words(words: [u64; STATE_WORDS]) -> Self {
        let mut words = words.into_iter();
        let mut next = || words.next().unwrap_or_default();
        Self {
            decision: next(),
            round: next(),
            doubt_left: next(),
            probing: next(),
            of_probe: next(),
            drains: next(),
            interval: next(),
            startup: next(),
            evidence: next(),
            calm_acked: next(),
            calm_lost: next(),
            min_rtt: next(),
            queue_least: next(),
            rate: next(),
            last_rate: next(),
            growing: next(),
            bdp: next(),
        }
    }
}

/// The compiled program.
pub(crate) struct Native(PathBuf);

impl Native {
    /// Compiles it, once for all tests, with checks for undefined behaviour.
    pub(crate) fn build() -> Self {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        Self(PROGRAM.get_or_init(compile).clone())
    }

    /// The states after each of `events`.
    pub(crate) fn follow(&self, events: &[Event]) -> Vec<State> {
        let mut child = Command::new(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was compiled");
        let words = events.iter().flat_map(Event::words);
        let input: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let mut stdin = child.stdin.take().expect("it is piped");
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let mut output = Vec::new();
        let mut stdout = child.stdout.take().expect("it is piped");
        stdout.read_to_end(&mut output).expect("a pipe is read");
        writer.join().expect("it only writes").expect("all is read");
        assert!(child.wait().expect("it ends").success());
        output
            .chunks_exact(STATE_WORDS * 8)
            .map(|state| {
                let mut words = [0; STATE_WORDS];
                for (word, bytes) in words.iter_mut().zip(state.chunks_exact(8)) {
                    *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
                }
                State::from_words(words)
            })
            .collect()
    }
}

fn compile() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lockstep-floor");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(&compiler)
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"])
        // Relocation of fields, which only BPF has.
        .args(["-Wno-attributes", "-Wno-unknown-attributes"])
        .args(["-fsanitize=undefined", "-fno-sanitize-recover=all"])
        .arg("-I")
        .arg(here.join("../edge/bpf"))
        .arg("-o")
        .arg(&program)
        .arg(here.join("tests/lockstep/floor.c"))
        .status();
    let done = status.is_ok_and(|status| status.success());
    assert!(
        done,
        "{compiler:?} compiles no C; `scripts/setup.sh test` installs gcc"
    );
    program
}
