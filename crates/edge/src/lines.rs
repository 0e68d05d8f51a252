//! Lines that a thread of its own writes, so that no client ever waits for a disk or a pipe.
//!
//! Lines wait in a bounded queue. A slow disk and a full one are the same to it. A line that finds the
//! queue full is dropped and counted; lines in the queue are tried again. A line of which a part was
//! written is completed first, so that no line is torn.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::clock;

/// How long a line may wait for company. Connections wake the thread only for the first line after a
/// pause, since a wake for each would cost them more than the line.
const PAUSE: Duration = Duration::from_millis(5);
/// Between two tries to write what could not be written.
const RETRY: Duration = Duration::from_secs(1);
/// How long a writer without senders, as after a reload, goes on where it can't write.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are written at once.
const CHUNK: usize = 64 * 1024;

/// Lines of all writers of one kind, so far.
#[derive(Debug, Default)]
pub struct LineCounts {
    taken: AtomicU64,
    /// Written, or given up.
    done: AtomicU64,
    lost: AtomicU64,
}

impl LineCounts {
    /// Lines that were dropped or could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Lines that wait.
    pub fn waiting(&self) -> u64 {
        let done = self.done.load(Ordering::Acquire);
        self.taken.load(Ordering::Acquire).saturating_sub(done)
    }

    /// Waits until no line waits, or none was written for `patience`. Gives the lines that still wait.
    pub fn settle(&self, patience: Duration) -> u64 {
        let (mut last, mut since) = (self.waiting(), clock::now());
        while last > 0 && clock::since(since) < patience {
            thread::sleep(PAUSE);
            let waiting = self.waiting();
            if waiting < last {
                since = clock::now();
            }
            last = waiting;
        }
        last
    }
}

/// Notified of the lines' fate, on the thread that writes them.
pub trait Watch: Send + 'static {
    /// Writing began to fail.
    fn failed(&mut self, error: &io::Error);
    /// Lines are written again; `lost` were lost meanwhile.
    fn recovered(&mut self, lost: u64);
    /// Nothing more is written; `lost` waited then or came later.
    fn gave_up(&mut self, lost: u64);
}

/// Takes lines from all threads, and has them written in the order in which they come. The writing
/// thread ends by itself once this is dropped and every line is written, or can't be for a while.
#[derive(Clone, Debug)]
pub struct Lines {
    queue: SyncSender<String>,
    /// By which the writer sees that nobody sends any more.
    _sender: Arc<()>,
    counts: Arc<LineCounts>,
}

impl Lines {
    /// Has lines written to `out`, of which at most `capacity` wait.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        out: impl Write + Send + 'static,
        capacity: usize,
        counts: &Arc<LineCounts>,
        watch: impl Watch,
    ) -> io::Result<Self> {
        let (queue, lines) = sync_channel(capacity);
        let sender = Arc::new(());
        let writer = Writer {
            out,
            sender: Arc::downgrade(&sender),
            counts: Arc::clone(counts),
            watch,
            lost_before: None,
        };
        thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || writer.run(&lines))?;
        Ok(Self {
            queue,
            _sender: sender,
            counts: Arc::clone(counts),
        })
    }

    /// Takes a line, without its end; `false` if it had to be dropped. Never waits.
    pub fn send(&self, line: String) -> bool {
        self.counts.taken.fetch_add(1, Ordering::AcqRel);
        if self.queue.try_send(line).is_ok() {
            return true;
        }
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
        self.counts.done.fetch_add(1, Ordering::Release);
        false
    }
}

struct Writer<O, W> {
    out: O,
    sender: Weak<()>,
    counts: Arc<LineCounts>,
    watch: W,
    /// While writing fails: the lines lost before.
    lost_before: Option<u64>,
}

impl<O: Write, W: Watch> Writer<O, W> {
    fn run(mut self, lines: &Receiver<String>) {
        let mut chunk = Vec::new();
        while let Ok(line) = lines.recv() {
            append(&mut chunk, &line);
            let mut count = 1;
            loop {
                while chunk.len() < CHUNK
                    && let Ok(line) = lines.try_recv()
                {
                    append(&mut chunk, &line);
                    count += 1;
                }
                if chunk.is_empty() {
                    break;
                }
                if !self.write(&chunk) {
                    return self.give_up(lines, count);
                }
                self.counts.done.fetch_add(count, Ordering::Release);
                chunk.clear();
                count = 0;
                thread::sleep(PAUSE);
            }
        }
    }

    /// Writes all of it, however long that takes; `false` once nobody can ever read it, or nobody
    /// sends and nothing is taken.
    fn write(&mut self, mut rest: &[u8]) -> bool {
        let mut stuck_since = None;
        while !rest.is_empty() {
            let error = match self.out.write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(written) => {
                    (rest, stuck_since) = (&rest[written..], None);
                    continue;
                }
                Err(error) => error,
            };
            let since = *stuck_since.get_or_insert_with(clock::now);
            if self.sender.strong_count() == 0 && clock::since(since) >= PATIENCE {
                return false;
            }
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                // A full pipe.
                io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
                kind => {
                    self.failed(&error);
                    if kind == io::ErrorKind::BrokenPipe {
                        return false;
                    }
                    thread::sleep(RETRY);
                }
            }
        }
        if let Some(before) = self.lost_before.take() {
            self.watch.recovered(self.counts.lost() - before);
        }
        true
    }

    fn failed(&mut self, error: &io::Error) {
        if self.lost_before.is_none() {
            self.lost_before = Some(self.counts.lost());
            self.watch.failed(error);
        }
    }

    /// Counts lines as lost, for as long as some arrive.
    fn give_up(mut self, lines: &Receiver<String>, mut count: u64) {
        let mut lost = 0;
        loop {
            lost += count;
            self.counts.lost.fetch_add(count, Ordering::Relaxed);
            self.counts.done.fetch_add(count, Ordering::Release);
            if lines.recv().is_err() {
                return self.watch.gave_up(lost);
            }
            count = 1;
        }
    }
}

fn append(chunk: &mut Vec<u8>, line: &str) {
    chunk.extend_from_slice(line.as_bytes());
    chunk.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Takes so many bytes, then fails until it is given more.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Disk {
        fn free(&self, bytes: usize) {
            self.0.lock().unwrap().0 += bytes;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().1.clone()).unwrap()
        }
    }

    impl Write for Disk {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let taken = data.len().min(disk.0);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0 -= taken;
            disk.1.extend_from_slice(&data[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Told(Sender<Option<u64>>);

    impl Watch for Told {
        fn failed(&mut self, _: &io::Error) {
            self.0.send(None).unwrap();
        }

        fn recovered(&mut self, lost: u64) {
            self.0.send(Some(lost)).unwrap();
        }

        fn gave_up(&mut self, lost: u64) {
            self.0.send(Some(lost)).unwrap();
        }
    }

    /// For the machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_full_disk_tears_no_line_and_loses_those_beyond_the_queue() {
        let (disk, counts) = (Disk::default(), Arc::default());
        let (watch, reports) = channel();
        disk.free(13);
        let lines = Lines::start(disk.clone(), 4, &counts, Told(watch)).unwrap();
        assert!(lines.send("first".to_owned()));
        assert!(lines.send("second line".to_owned()));
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(None));
        let sent: Vec<bool> = (0..20).map(|n| lines.send(format!("line {n}"))).collect();
        let lost = sent.iter().filter(|&&taken| !taken).count() as u64;
        assert!(lost >= 16 - 4, "{lost}");
        assert_eq!(counts.lost(), lost);
        assert_eq!(disk.text(), "first\nsecond ");
        disk.free(1000);
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(Some(lost)));
        assert_eq!(counts.settle(PATIENCE), 0);
        let mut want = "first\nsecond line\n".to_owned();
        for (n, _) in sent.iter().enumerate().filter(|(_, taken)| **taken) {
            want += &format!("line {n}\n");
        }
        assert_eq!(disk.text(), want);
        assert!(reports.try_recv().is_err(), "reported more than once");
    }

    #[test]
    fn lines_that_nobody_reads_are_counted_and_end() {
        let counts = Arc::default();
        let (watch, reports) = channel();
        let lines = Lines::start(Broken, 16, &counts, Told(watch)).unwrap();
        for _ in 0..10 {
            lines.send("line".to_owned());
        }
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(None));
        assert_eq!(counts.settle(PATIENCE), 0);
        assert_eq!(counts.lost(), 10);
        drop(lines);
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(Some(10)));
    }

    #[test]
    fn a_writer_that_nobody_sends_to_gives_up_lines_it_can_not_write() {
        let (disk, counts) = (Disk::default(), Arc::default());
        let (watch, reports) = channel();
        let lines = Lines::start(disk, 4, &counts, Told(watch)).unwrap();
        lines.send("line".to_owned());
        lines.send("line".to_owned());
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(None));
        drop(lines);
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(Some(2)));
        assert_eq!((counts.lost(), counts.waiting()), (2, 0));
    }

    #[test]
    fn waiting_for_a_stuck_reader_ends() {
        let (disk, counts) = (Disk::default(), Arc::default());
        let (watch, _told) = channel();
        let lines = Lines::start(disk, 4, &counts, Told(watch)).unwrap();
        lines.send("line".to_owned());
        assert_eq!(counts.settle(Duration::from_millis(50)), 1);
    }
}
