//! Certificates of Pebble, with a clock that jumps.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hikyaku_acme::{AcmeConfig, Answers, Keeper, Record, Setup, State, Status, file_of};
use hikyaku_testkit::pebble::{Between, HTTP_PORT, Pebble};
use hikyaku_testkit::{PATIENCE, this_test};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const LIFE: u64 = 90 * 24 * 3600;

/// A keeper with a clock of its own, whose answers stand at the address of Pebble.
struct World {
    keeper: Keeper,
    state: tempfile::TempDir,
    /// Seconds by which the clock is ahead.
    ahead: Arc<AtomicI64>,
    issued: Arc<Mutex<Vec<PathBuf>>>,
}

impl World {
    fn new(pebble: &Pebble) -> Self {
        let state = tempfile::tempdir().unwrap();
        let answers = Arc::<Answers>::default();
        serve(pebble, Arc::clone(&answers));
        let (ahead, issued) = (Arc::<AtomicI64>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (offset, files) = (Arc::clone(&ahead), Arc::clone(&issued));
        let clock = move || {
            let ahead = offset.load(Ordering::Relaxed);
            let by = Duration::from_secs(ahead.unsigned_abs());
            match ahead < 0 {
                true => SystemTime::now() - by,
                false => SystemTime::now() + by,
            }
        };
        let on_issued = move |file: &Path| files.lock().unwrap().push(file.to_owned());
        Self {
            keeper: Keeper::new(state.path(), answers, Arc::new(clock), None, on_issued),
            state,
            ahead,
            issued,
        }
    }

    /// Keeps a certificate for `a.example` by a configuration of these lines.
    fn keep(&self, config: &str) {
        self.keep_forgiving(config, false);
    }

    fn keep_forgiving(&self, config: &str, forgiving: bool) {
        let config: AcmeConfig = toml::from_str(config).unwrap();
        assert_eq!(config.faults(true), Vec::<String>::new());
        let setup = Setup::new(&config, true).unwrap();
        self.keeper.keep(setup, vec![names()], forgiving);
    }

    fn jump(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::Relaxed);
    }

    fn now(&self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = i64::try_from(now.unwrap().as_secs()).unwrap();
        now + self.ahead.load(Ordering::Relaxed)
    }

    fn file(&self) -> PathBuf {
        file_of(self.state.path(), &names())
    }

    fn record(&self) -> Record {
        Record::read(&self.file()).unwrap()
    }

    /// Waits for a state, and returns the status then.
    async fn wait(&self, what: &str, test: impl Fn(&Status) -> bool) -> Status {
        let waiting = async {
            loop {
                let status = self.keeper.statuses().swap_remove(0);
                if test(&status) {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("never {what}: {:?}", self.keeper.statuses()))
    }

    /// Waits until so many orders have given a certificate.
    async fn wait_issued(&self, count: u64) -> Status {
        let is_it =
            |status: &Status| self.keeper.counts().0 >= count && status.state == State::Valid;
        let status = self.wait("issued", is_it).await;
        assert_eq!(self.keeper.counts().0, count);
        assert_eq!(self.issued.lock().unwrap().len() as u64, count);
        status
    }

    async fn wait_failing(&self, failures: u32) -> Status {
        let is_it = |status: &Status| status.state == State::Failing && status.failures == failures;
        self.wait("failing", is_it).await
    }
}

fn names() -> Vec<String> {
    vec!["a.example".to_owned()]
}

/// Serves the answers of http-01 until the process ends.
fn serve(pebble: &Pebble, answers: Arc<Answers>) {
    let listener = TcpListener::bind((pebble.address, HTTP_PORT)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap_or_default();
            let token = path.strip_prefix("/.well-known/acme-challenge/");
            let answer = token.and_then(|token| answers.http(token));
            let (status, body) = match answer {
                Some(answer) => ("200 OK", answer),
                None => ("404 Not Found", String::new()),
            };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
}

/// A configuration for Pebble, with more lines.
fn config(pebble: &Pebble, directories: &[&str], more: &str) -> String {
    let ca = pebble.ca_file();
    format!("directory = {directories:?}\nca_file = {ca:?}\nchallenge = \"http-01\"\n{more}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_makes_no_order_too_many_and_none_too_few() {
    let Some(pebble) = Pebble::start(&this_test(), LIFE) else {
        return;
    };
    let world = World::new(&pebble);
    let config = config(&pebble, &[&pebble.directory()], "");
    world.keep(&config);
    let status = world.wait_issued(1).await;
    let third = status.next_order - world.now();
    assert!((55 * DAY..=60 * DAY).contains(&third), "{third}");

    // To where a third is left, as after a long sleep.
    world.jump(61 * DAY);
    world.keeper.look();
    world.wait_issued(2).await;

    // Back again: the new certificate is not valid yet by this clock, and is not ordered again.
    world.jump(-61 * DAY);
    world.keep(&config);
    let status = world.wait("looked", |status| status.next_order != 0).await;
    assert_eq!(
        (status.state, world.keeper.counts()),
        (State::Valid, (2, 0))
    );

    // Years ahead: one order, and not another one for hours.
    world.jump(4000 * DAY);
    world.keeper.look();
    let status = world.wait_issued(3).await;
    let next = status.next_order - world.now();
    assert!((5 * HOUR..=6 * HOUR).contains(&next), "{next}");
    assert_eq!(pebble.orders(), 3);
    world.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_is_waited_for() {
    let Some(pebble) = Pebble::start(&this_test(), LIFE) else {
        return;
    };
    let world = World::new(&pebble);
    let between = Between::start(&pebble, 14001);
    between.rules(|rules| (rules.limited, rules.retry_after) = (1, Some(7200)));
    let config = config(&pebble, &[&between.directory], "");
    world.keep(&config);
    let status = world.wait_failing(1).await;
    let error = status.error.unwrap();
    assert!(error.contains("too many orders (rateLimited)"), "{error}");
    let wait = status.next_order - world.now();
    assert!((7100..=7200).contains(&wait), "{wait}");

    // Neither a restart nor a reload asks before.
    for forgiving in [false, true] {
        world.keep_forgiving(&config, forgiving);
        let status = world.wait("looked", |status| status.next_order != 0).await;
        assert_eq!(status.state, State::Failing);
    }
    assert_eq!((pebble.orders(), world.keeper.counts()), (0, (0, 1)));
    world.jump(7201);
    world.keeper.look();
    let status = world.wait_issued(1).await;
    assert_eq!((status.failures, status.error), (0, None));
    world.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_authority_takes_over() {
    let Some(pebble) = Pebble::start(&this_test(), LIFE) else {
        return;
    };
    let world = World::new(&pebble);
    let between = Between::start(&pebble, 14001);
    between.rules(|rules| rules.limited = 1);
    let silent = format!("https://{}:14999/dir", pebble.address);
    let directories = [&silent, &between.directory, &pebble.directory()];
    let config = config(&pebble, &directories.map(String::as_str), "");
    world.keep(&config);
    let status = world.wait_issued(1).await;
    assert_eq!(status.directory.as_ref(), Some(directories[2]));
    assert_eq!(pebble.orders(), 1);
    world.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authority_says_when_to_renew() {
    let Some(pebble) = Pebble::start(&this_test(), LIFE) else {
        return;
    };
    let world = World::new(&pebble);
    let between = Between::start(&pebble, 14001);
    // As after a revocation: the time is over.
    let window = ["2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"];
    between.rules(|rules| rules.window = Some(window));
    let config = config(&pebble, &[&between.directory], "");
    world.keep(&config);
    let is_asked = |status: &Status| {
        let soon = status.next_order - world.now();
        status.state == State::Valid && (0..=6 * HOUR).contains(&soon)
    };
    world.wait("to be renewed soon", is_asked).await;
    assert_eq!(between.rules(|rules| rules.replaced.len()), 0);
    world.jump(7 * HOUR);
    world.keeper.look();
    world.wait_issued(2).await;
    let replaced = between.rules(|rules| rules.replaced.clone());
    assert_eq!(replaced.len(), 1, "{replaced:?}");
    world.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_written_and_lost_state_is_made_anew() {
    let Some(mut pebble) = Pebble::start(&this_test(), LIFE) else {
        return;
    };
    let world = World::new(&pebble);
    let config = config(&pebble, &[&pebble.directory()], "");
    world.keep(&config);
    world.wait_issued(1).await;
    let accounts = || {
        let files = fs::read_dir(world.state.path().join("acme")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let mut files = files.filter(|path| path.to_str().unwrap().contains("account-"));
        (files.next().unwrap(), files.next())
    };
    let (account, other) = accounts();
    assert_eq!(other, None);

    // A restart takes the former.
    world.keep(&config);
    world
        .wait("valid", |status| status.state == State::Valid)
        .await;
    assert_eq!((world.keeper.counts(), pebble.accounts()), ((1, 0), 1));

    let halve = |path: &Path| {
        let whole = fs::read(path).unwrap();
        fs::write(path, &whole[..whole.len() / 2]).unwrap();
    };
    world.keeper.stop().await;
    halve(&world.file());
    world.keep(&config);
    world.wait_issued(2).await;
    assert_ne!(world.record(), Record::default());

    world.keeper.stop().await;
    halve(&account);
    fs::remove_file(world.file()).unwrap();
    world.keep(&config);
    world.wait_issued(3).await;

    // The authority forgets its accounts.
    world.keeper.stop().await;
    pebble.restart(LIFE);
    fs::remove_file(world.file()).unwrap();
    world.keep(&config);
    world.wait_issued(4).await;
    world.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_is_bound_to_another() {
    let keys = serde_json::json!({
        "externalAccountBindingRequired": true,
        "externalAccountMACKeys": {
            "kid-1": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W",
        },
    });
    let Some(pebble) = Pebble::start_with(&this_test(), LIFE, &keys) else {
        return;
    };
    let world = World::new(&pebble);
    world.keep(&config(&pebble, &[&pebble.directory()], ""));
    let error = world.wait_failing(1).await.error.unwrap();
    assert!(error.contains("making an account: "), "{error}");
    assert!(error.contains("(externalAccountRequired)"), "{error}");
    let file = pebble.dir().join("eab.toml");
    let key = &keys["externalAccountMACKeys"]["kid-1"];
    let text = format!(
        "[\"{}\"]\nkid = \"kid-1\"\nhmac_key = {key}\n",
        pebble.directory()
    );
    fs::write(&file, text).unwrap();
    let bound = config(
        &pebble,
        &[&pebble.directory()],
        &format!("eab_file = {file:?}"),
    );
    world.keep_forgiving(&bound, true);
    world.wait_issued(1).await;
    world.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_a_certificate_for_each_kind_of_key() {
    let Some(pebble) = Pebble::start(&this_test(), LIFE) else {
        return;
    };
    let world = World::new(&pebble);
    let both = "key_type = [\"ecdsa-p256\", \"rsa-2048\"]\nemail = \"me@example.org\"";
    world.keep(&config(&pebble, &[&pebble.directory()], ""));
    world.wait_issued(1).await;
    // A kind more is ordered at once, with the account's mail address changed.
    world.keep(&config(&pebble, &[&pebble.directory()], both));
    world.wait_issued(2).await;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let kinds: Vec<_> = world.record().certified(&provider).unwrap();
    let kinds: Vec<_> = kinds.iter().map(|key| key.key.algorithm()).collect();
    use rustls::SignatureAlgorithm::{ECDSA, RSA};
    assert_eq!(kinds, [ECDSA, RSA]);
    world.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_authority_does_not_find_is_reported() {
    let Some(pebble) = Pebble::start(&this_test(), LIFE) else {
        return;
    };
    let world = World::new(&pebble);
    let nobody = serde_json::json!({ "host": "a.example", "addresses": ["127.99.99.99"] });
    pebble.dns("add-a", &nobody);
    let config = config(&pebble, &[&pebble.directory()], "");
    world.keep(&config);
    let status = world.wait_failing(1).await;
    let error = status.error.unwrap();
    for want in [
        "a.example by http-01: ",
        "(connection)",
        &pebble.address.to_string(),
    ] {
        assert!(error.contains(want), "{want}: {error}");
    }
    let wait = status.next_order - world.now();
    assert!((50..=80).contains(&wait), "{wait}");

    // Mended, and a reload follows.
    pebble.dns("clear-a", &serde_json::json!({ "host": "a.example" }));
    world.keep_forgiving(&config, true);
    world.wait_issued(1).await;
    world.keeper.stop().await;
}
