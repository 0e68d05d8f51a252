//! The results of one server's clients, and the times in which answers may be missing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use hikyaku_testkit::{PATIENCE, Server};

/// The end of a request.
pub(crate) enum End {
    /// All bytes arrived, and were right.
    Whole,
    /// The client left on purpose.
    GivenUp,
    /// Other bytes arrived, or none.
    Lost(String),
}

/// A response that arrived completely.
struct Answer {
    id: u64,
    bytes: usize,
    came: Instant,
}

#[derive(Default)]
pub(crate) struct Ledger {
    answers: Mutex<Vec<Answer>>,
    lost: Mutex<Vec<(u64, String)>>,
    counts: Mutex<BTreeMap<String, usize>>,
    outages: Mutex<Vec<(Instant, Option<Instant>)>>,
    logged: AtomicUsize,
}

impl Ledger {
    /// Records a request for `bytes` that was sent at `sent`.
    pub(crate) fn note(&self, what: String, id: u64, bytes: usize, sent: Instant, end: End) {
        let excused = self.was_out(sent);
        let what = match &end {
            End::Whole => what,
            End::GivenUp => format!("{what} given up"),
            End::Lost(_) => format!("{what} lost"),
        };
        let how = if excused { "in outages" } else { "" };
        let key = format!("{what} {how}").trim_end().to_owned();
        *self.counts.lock().unwrap().entry(key).or_default() += 1;
        match end {
            _ if excused => {}
            End::GivenUp => {}
            End::Whole => {
                let came = Instant::now();
                self.answers
                    .lock()
                    .unwrap()
                    .push(Answer { id, bytes, came });
            }
            End::Lost(why) => self
                .lost
                .lock()
                .unwrap()
                .push((id, format!("{what}: {why}"))),
        }
    }

    /// Begins an outage: until the guard is dropped, requests may be lost.
    pub(crate) fn outage(&self) -> Outage<'_> {
        self.outages.lock().unwrap().push((Instant::now(), None));
        Outage(self)
    }

    /// Whether there was an outage at some time since.
    fn was_out(&self, since: Instant) -> bool {
        let outages = self.outages.lock().unwrap();
        outages
            .iter()
            .any(|(_, end)| end.is_none_or(|end| end >= since))
    }

    #[track_caller]
    pub(crate) fn expect_whole(&self, name: &str, server: &Server) {
        let lost = self.lost.lock().unwrap();
        let logged = lines_by_id(server);
        let lost: Vec<String> = lost
            .iter()
            .map(|(id, why)| format!("request {id}, {why}\n  logged as {:?}", logged.get(id)))
            .collect();
        assert!(
            lost.is_empty(),
            "{name} lost:\n{}\n{}",
            lost.join("\n"),
            self.summary()
        );
    }

    /// Checks that every answer from before `until` has one right line in the access log.
    #[track_caller]
    pub(crate) fn expect_logged(&self, server: &Server, until: Instant) {
        let begun = Instant::now();
        loop {
            let wrong = self.unlogged(server, until);
            if wrong.is_empty() {
                return;
            }
            // The last lines may still be on their way.
            assert!(
                begun.elapsed() < PATIENCE,
                "not in the access log:\n{}",
                wrong.join("\n")
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn unlogged(&self, server: &Server, until: Instant) -> Vec<String> {
        let lines = lines_by_id(server);
        let answers = self.answers.lock().unwrap();
        let answers = answers.iter().filter(|answer| answer.came < until);
        let mut wrong = Vec::new();
        let mut right = 0;
        for Answer { id, bytes, .. } in answers {
            let lines = lines.get(id).map_or(&[][..], Vec::as_slice);
            match lines {
                [line]
                    if line["status"] == 200
                        && line["bytes"] == *bytes
                        && line["complete"] == true =>
                {
                    right += 1;
                }
                _ => wrong.push(format!("request {id} of {bytes} bytes: {lines:?}")),
            }
        }
        self.logged.store(right, Ordering::Relaxed);
        wrong
    }

    /// Begins a new life of the server, with its own log.
    pub(crate) fn forget(&self) {
        self.answers.lock().unwrap().clear();
    }

    pub(crate) fn summary(&self) -> String {
        let counts = self.counts.lock().unwrap();
        let logged = self.logged.load(Ordering::Relaxed);
        format!("{logged} answers of this life in the log; requests so far {counts:#?}")
    }
}

/// An outage on purpose of the server or its upstream, until the guard is dropped.
pub(crate) struct Outage<'a>(&'a Ledger);

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        let mut outages = self.0.outages.lock().unwrap();
        outages.last_mut().unwrap().1 = Some(Instant::now());
    }
}

/// The lines of the access log by the numbers in the queries of requests.
fn lines_by_id(server: &Server) -> HashMap<u64, Vec<Value>> {
    let mut lines: HashMap<u64, Vec<Value>> = HashMap::new();
    for line in server.access_lines() {
        let line: Value = serde_json::from_str(&line).unwrap();
        let path = line["path"].as_str().unwrap();
        if let Some((_, id)) = path.split_once("?soak=") {
            lines.entry(id.parse().unwrap()).or_default().push(line);
        }
    }
    lines
}
