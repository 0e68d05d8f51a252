//! The packet log: one line for each packet that a link carried.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// A writer on a thread of its own, since a slow disk must not make the link late.
#[derive(Debug)]
pub(super) struct PacketLog {
    lines: Sender<Line>,
    writer: JoinHandle<io::Result<()>>,
}

/// One packet. Times are µs since the link's start.
#[derive(Debug)]
pub(super) struct Line {
    /// Time of its delivery or discard.
    pub(super) at_us: u64,
    /// Time of its arrival at the link.
    pub(super) arrived_us: u64,
    /// `up` or `down`.
    pub(super) direction: &'static str,
    /// Bytes of the IP packet.
    pub(super) len: usize,
    /// Protocol and ports.
    pub(super) flow: (Option<u8>, Option<[u16; 2]>),
    /// Fate of the packet.
    pub(super) fate: &'static str,
}

/// Names of the columns, in the first line of a log.
const HEADER: &str = "at_us,arrived_us,direction,bytes,protocol,source_port,target_port,fate";

impl PacketLog {
    /// Creates the file, or empties it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        let (lines, receiver) = channel();
        let writer = thread::Builder::new()
            .name("packet-log".to_owned())
            .spawn(move || write_all(file, &receiver))?;
        Ok(Self { lines, writer })
    }

    /// Adds a line.
    pub(super) fn write(&self, line: Line) {
        // If the writer has failed, `finish` returns the error.
        let _ = self.lines.send(line);
    }

    /// Waits until everything is written.
    pub(super) fn finish(self) -> io::Result<()> {
        drop(self.lines);
        self.writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn write_all(mut out: impl Write, lines: &Receiver<Line>) -> io::Result<()> {
    writeln!(out, "{HEADER}")?;
    for line in lines {
        let Line {
            at_us,
            arrived_us,
            direction,
            len,
            flow: (protocol, ports),
            fate,
        } = line;
        let protocol = protocol
            .map(|number| number.to_string())
            .unwrap_or_default();
        let [source, target] =
            ports.map_or_else(Default::default, |ports| ports.map(|port| port.to_string()));
        writeln!(
            out,
            "{at_us},{arrived_us},{direction},{len},{protocol},{source},{target},{fate}"
        )?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_line_for_each_packet() {
        let path = tempfile::tempdir().unwrap();
        let path = path.path().join("packets.csv");
        let log = PacketLog::create(&path).unwrap();
        let line = |flow, fate| Line {
            at_us: 26_500,
            arrived_us: 1_000,
            direction: "up",
            len: 1_500,
            flow,
            fate,
        };
        log.write(line((Some(17), Some([1234, 443])), "delivered"));
        log.write(line((Some(1), None), "lost"));
        log.finish().unwrap();
        let want = "at_us,arrived_us,direction,bytes,protocol,source_port,target_port,fate\n\
                    26500,1000,up,1500,17,1234,443,delivered\n\
                    26500,1000,up,1500,1,,,lost\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), want);
    }
}
