//! A store that fails and comes back, under a stopped clock.

use std::fs;
use std::net::IpAddr;

use hikyaku_core::client::table::Scope;

use super::*;
use crate::fakes::{Server, sample};

struct Disk {
    server: Server,
    dir: tempfile::TempDir,
    writer: Writer,
}

impl Disk {
    fn open() -> Self {
        let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
        let path = dir.path().join("state");
        let opened = Store::open(&path);
        let writer = Writer::new(path, opened, &server.shared);
        Self {
            server,
            dir,
            writer,
        }
    }

    fn learn(&self, client: [u8; 4]) {
        self.server
            .shared
            .clients
            .observe(IpAddr::from(client), &sample());
    }

    /// Takes the directory away, and puts a file in its place.
    fn break_it(&self) {
        fs::remove_dir_all(self.dir.path().join("state")).unwrap();
        fs::write(self.dir.path().join("state"), "").unwrap();
    }

    fn mend_it(&self) {
        fs::remove_file(self.dir.path().join("state")).unwrap();
    }

    fn is_available(&self) -> bool {
        self.writer.health.available.load(Ordering::Relaxed)
    }

    fn failures(&self) -> u64 {
        self.writer.health.failures.load(Ordering::Relaxed)
    }

    /// Content of the file, once the writer has left it.
    fn written(mut self) -> Vec<String> {
        self.writer.store = None;
        let store = Store::open(&self.dir.path().join("state")).unwrap();
        let mut keys = Vec::new();
        let load = store.load(|key, _| {
            keys.push(key.to_string());
            true
        });
        load.unwrap();
        keys
    }
}

#[tokio::test(start_paused = true)]
async fn samples_are_written() {
    let mut disk = Disk::open();
    disk.writer.write(false);
    assert_eq!(disk.server.metric("hikyaku_store_records_written_total"), 0);
    disk.learn([192, 0, 2, 1]);
    disk.writer.write(false);
    disk.writer.write(false);
    assert_eq!(disk.server.metric("hikyaku_store_records_written_total"), 1);
    assert_eq!(disk.server.metric("hikyaku_store_available"), 1);
    assert_eq!(disk.written(), ["192.0.2.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_returns_gets_everything() {
    let mut disk = Disk::open();
    disk.learn([192, 0, 2, 1]);
    disk.writer.write(false);
    disk.break_it();
    disk.learn([198, 51, 100, 1]);
    disk.writer.write(false);
    assert!(!disk.is_available());
    assert!(disk.server.metric("hikyaku_store_pending") > 0);
    disk.mend_it();
    tokio::time::advance(WRITE_INTERVAL).await;
    disk.writer.write(false);
    assert!(disk.is_available());
    assert_eq!(disk.server.metric("hikyaku_store_pending"), 0);
    let all = ["192.0.2.1", "198.51.100.1"];
    assert_eq!(disk.written(), all, "also what had been written before");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_tried_more_and_more_seldom() {
    let mut disk = Disk::open();
    disk.break_it();
    // Seconds at which it is tried: pauses of 2, 4, 8, 16, 32 and 32.
    let tried = [0, 2, 6, 14, 30, 62, 94];
    let mut expected = 0;
    for second in 0..=100 {
        expected += u64::from(tried.contains(&second));
        disk.writer.write(false);
        assert_eq!(disk.failures(), expected, "after {second} s");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(disk.server.metric("hikyaku_store_failures_total"), 7);
}

#[tokio::test(start_paused = true)]
async fn the_last_write_waits_for_no_pause() {
    let mut disk = Disk::open();
    disk.break_it();
    disk.learn([192, 0, 2, 1]);
    disk.writer.write(false);
    disk.mend_it();
    disk.writer.write(false);
    assert!(!disk.is_available(), "it pauses");
    disk.writer.write(true);
    assert!(disk.is_available());
    assert_eq!(disk.written(), ["192.0.2.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_start_without_a_store_is_an_outage() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let path = dir.path().join("state");
    fs::write(&path, "").unwrap();
    let mut writer = Writer::new(path.clone(), Store::open(&path), &server.shared);
    assert_eq!(server.metric("hikyaku_store_available"), 0);
    fs::remove_file(&path).unwrap();
    tokio::time::advance(WRITE_INTERVAL).await;
    writer.write(false);
    assert_eq!(
        server.metric("hikyaku_store_available"),
        1,
        "proven by a transaction"
    );
    assert!(Store::file(&path).exists());
}

#[tokio::test(start_paused = true)]
async fn cleared_stripes_lose_their_records() {
    let mut disk = Disk::open();
    for net in 0..20 {
        disk.learn([203, 0, net, 1]);
    }
    disk.writer.write(false);
    disk.server.shared.clients.forget(Scope::All);
    disk.learn([192, 0, 2, 1]);
    disk.writer.write(false);
    assert_eq!(disk.written(), ["192.0.2.1"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_ends_with_a_transaction_though_there_is_nothing_to_write() {
    let mut disk = Disk::open();
    disk.writer.write(false);
    fs::remove_file(Store::file(&disk.dir.path().join("state"))).unwrap();
    disk.writer.write(false);
    assert!(!disk.is_available(), "the file is gone");
    tokio::time::advance(WRITE_INTERVAL).await;
    disk.writer.write(false);
    assert!(disk.is_available());
    let store = disk.writer.store.as_ref().unwrap();
    assert!(!store.is_new().unwrap(), "it can be written");
}

#[tokio::test(start_paused = true)]
async fn changes_are_written_every_two_seconds_and_at_the_end() {
    let disk = Disk::open();
    let Disk {
        server,
        dir,
        writer,
    } = disk;
    let learn = |last| {
        let client = IpAddr::from([192, 0, 2, last]);
        server.shared.clients.observe(client, &sample());
    };
    let written = || server.metric("hikyaku_store_records_written_total");
    let stop = CancellationToken::new();
    let (_lender, requests) = lending();
    let writing = tokio::spawn(write_behind(writer, stop.clone(), requests));
    learn(1);
    tokio::time::sleep(Duration::from_millis(1900)).await;
    assert_eq!(written(), 0);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(written(), 1);
    learn(1);
    stop.cancel();
    writing.await.unwrap();
    assert_eq!(written(), 2, "what was learnt since");
    drop(dir);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_lent_is_closed_and_later_gets_what_was_learnt_meanwhile() {
    let Disk {
        server,
        dir,
        writer,
    } = Disk::open();
    let path = dir.path().join("state");
    let learn = |last| {
        let client = IpAddr::from([192, 0, 2, last]);
        server.shared.clients.observe(client, &sample());
    };
    let known = |store: &Store| store.load(|_, _| true).unwrap().0;
    let stop = CancellationToken::new();
    let (lender, requests) = lending();
    let writing = tokio::spawn(write_behind(writer, stop.clone(), requests));
    learn(1);
    assert!(matches!(Store::open(&path), Err(StoreError::InUse { .. })));
    lender.lend().await;
    let borrowed = Store::open(&path).unwrap();
    let before = known(&borrowed);
    assert!(before > 0, "what was learnt before");
    learn(2);
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(borrowed);
    lender.take_back().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    stop.cancel();
    writing.await.unwrap();
    assert!(known(&Store::open(&path).unwrap()) > before);
}
