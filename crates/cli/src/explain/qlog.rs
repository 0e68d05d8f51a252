//! `hikyaku explain --qlog`.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, bail};
use hikyaku_units::duration;
use http_body_util::BodyExt;
use serde::Deserialize;

use super::{ExplainArgs, TIMEOUT, ask};
use hikyaku_core::egress::EgressKey;

/// Streams a trace to a file or to standard output.
pub(super) async fn record(args: &ExplainArgs, path: &Path) -> anyhow::Result<()> {
    let EgressKey::Net(client) = args.subject else {
        bail!(
            "recording {}: give the address or prefix of clients",
            args.subject
        );
    };
    let name = path.display();
    let query = format!(
        "/v1/qlog?client={}&connections={}&duration={}&size={}",
        client,
        args.connections,
        duration::display(args.duration),
        args.max_size.bytes(),
    );
    let response = tokio::time::timeout(TIMEOUT, ask(args, &query))
        .await
        .context("waiting for the admin API")??;
    // The file is created only now, so that a refusal does not empty a former trace.
    let mut out: Box<dyn Write> = match path == Path::new("-") {
        true => Box::new(io::stdout()),
        false => Box::new(File::create(path).with_context(|| format!("creating {name}"))?),
    };
    let mut note = io::stderr();
    let _ = writeln!(
        note,
        "recording the next {} QUIC connection(s) of {} for {}; ^C ends it",
        args.connections,
        client,
        duration::display(args.duration),
    );
    let mut body = response.into_body();
    let mut records = Records::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.context("reading the trace: has the server stopped?")?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let written = out
            .write_all(records.whole(&data))
            .and_then(|()| out.flush());
        match written {
            // The reader of standard output needs no more.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.with_context(|| format!("writing the trace to {name}"))?,
        }
    }
    let Some(end) = records.end() else {
        bail!("the trace broke off: has the server stopped?");
    };
    if end.connections == 0 {
        bail!(
            "no QUIC connection of {} began within {} (`hikyaku explain` shows what a client is \
             offered)",
            client,
            duration::display(args.duration)
        );
    }
    let _ = writeln!(note, "{end}");
    Ok(())
}

/// Passes complete records on, and keeps the last.
#[derive(Default)]
struct Records {
    /// Received bytes that have not been passed on.
    held: Vec<u8>,
    ready: Vec<u8>,
    last: Vec<u8>,
}

impl Records {
    /// Adds `data`, and returns the complete records that can be written.
    fn whole(&mut self, data: &[u8]) -> &[u8] {
        self.ready.clear();
        let Some(end) = data.iter().rposition(|byte| *byte == b'\n') else {
            self.held.extend_from_slice(data);
            return &self.ready;
        };
        self.ready.append(&mut self.held);
        self.ready.extend_from_slice(&data[..=end]);
        self.held.extend_from_slice(&data[end + 1..]);
        let last = self.ready[..self.ready.len() - 1].iter();
        let begin = last.rev().position(|byte| *byte == b'\n');
        let begin = begin.map_or(0, |back| self.ready.len() - 1 - back);
        self.last = self.ready[begin..].to_vec();
        &self.ready
    }

    /// Reads the end of the trace from the last record; `None` if the trace was cut short.
    fn end(&self) -> Option<End> {
        #[derive(Deserialize)]
        struct Last {
            name: String,
            data: End,
        }
        let content = self.last.strip_prefix(b"\x1e")?;
        let last: Last = serde_json::from_slice(content).ok()?;
        (last.name == "hikyaku:trace_ended").then_some(last.data)
    }
}

/// The end of a trace.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct End {
    reason: String,
    connections: u64,
    records: u64,
    dropped: u64,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self.reason.as_str() {
            "connections" => "the connections have ended",
            "time" => "the time is over; --for sets it",
            "size" => "the size is reached; --max-size sets it",
            other => other,
        };
        let Self {
            connections,
            records,
            ..
        } = self;
        write!(
            f,
            "recorded {connections} connection(s), {records} records: {why}"
        )?;
        if self.dropped > 0 {
            write!(
                f,
                "; {} records were dropped, since this end was too slow",
                self.dropped
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_records_are_passed_on_however_they_come() {
        let last = "\x1e{\"name\":\"hikyaku:trace_ended\",\"data\":{\"reason\":\"time\",\
                    \"connections\":2,\"records\":3,\"dropped\":0}}\n";
        let text = format!("\x1e{{\"a\":1}}\n\x1e{{\"b\":2}}\n{last}");
        for size in 1..text.len() {
            let mut records = Records::default();
            let mut passed = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                let ready = records.whole(piece);
                assert!(ready.is_empty() || ready.ends_with(b"\n"));
                passed.extend_from_slice(ready);
            }
            assert_eq!(passed, text.as_bytes(), "pieces of {size}");
            let end = records.end().map(|end| (end.connections, end.records));
            assert_eq!(end, Some((2, 3)), "pieces of {size}");
        }
        let mut cut = Records::default();
        cut.whole(&text.as_bytes()[..text.len() - 5]);
        assert_eq!(cut.end(), None);
    }
}
