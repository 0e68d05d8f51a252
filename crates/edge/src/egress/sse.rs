//! Server-sent events (WHATWG HTML §9.2), as far as the agent uses them.

/// Longest event, in bytes: a snapshot of some thousand policies.
const MAX_EVENT: usize = 16 << 20;

/// Takes a stream of bytes apart.
#[derive(Debug, Default)]
pub(super) struct EventParser {
    /// Of a line that is not complete.
    line: Vec<u8>,
    name: String,
    data: String,
}

/// An event as it came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RawEvent {
    pub(super) name: String,
    pub(super) data: String,
}

/// Why a stream can't be read further.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EventError {
    #[error("an event has more than {MAX_EVENT} bytes")]
    TooLong,
    #[error("an event is not UTF-8")]
    NotUtf8,
}

impl EventParser {
    /// Takes bytes, and appends the events that they complete.
    ///
    /// # Errors
    /// When the stream is none of events. Nothing more is to be given then.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<RawEvent>,
    ) -> Result<(), EventError> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..end])?;
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            let line = str::from_utf8(&line).map_err(|_| EventError::NotUtf8)?;
            events.extend(self.line(line.strip_suffix('\r').unwrap_or(line)));
        }
        self.extend(rest)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), EventError> {
        if self.line.len() + self.data.len() + bytes.len() > MAX_EVENT {
            return Err(EventError::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn line(&mut self, line: &str) -> Option<RawEvent> {
        if line.is_empty() {
            let (name, data) = (
                std::mem::take(&mut self.name),
                std::mem::take(&mut self.data),
            );
            return (!data.is_empty()).then_some(RawEvent { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Comments have an empty field's name; others are not used.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&[u8]]) -> Result<Vec<(String, String)>, EventError> {
        let mut parser = EventParser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            parser.take(chunk, &mut events)?;
        }
        let pair = |event: RawEvent| (event.name, event.data);
        Ok(events.into_iter().map(pair).collect())
    }

    #[test]
    fn events_come_in_any_pieces() {
        // name, pieces, events
        type Case = (
            &'static str,
            &'static [&'static [u8]],
            &'static [(&'static str, &'static str)],
        );
        let cases: &[Case] = &[
            ("whole", &[b"event: a\ndata: 1\n\n"], &[("a", "1")]),
            (
                "in pieces",
                &[b"eve", b"nt: a\nda", b"ta: 1\n", b"\n"],
                &[("a", "1")],
            ),
            (
                "several",
                &[b"event:a\ndata:1\n\nevent: b\ndata: 2\n\n"],
                &[("a", "1"), ("b", "2")],
            ),
            ("comments", &[b":\n\n: hello\n\n"], &[]),
            ("no data", &[b"event: a\n\n"], &[]),
            ("two lines", &[b"data: 1\ndata: 2\n\n"], &[("", "1\n2")]),
            (
                "carriage returns",
                &[b"event: a\r\ndata: 1\r\n\r\n"],
                &[("a", "1")],
            ),
            ("incomplete", &[b"event: a\ndata: 1\n"], &[]),
        ];
        for (name, chunks, want) in cases {
            let got = read(chunks).unwrap();
            let got: Vec<(&str, &str)> = got.iter().map(|(n, d)| (&**n, &**d)).collect();
            assert_eq!(got, *want, "{name}");
        }
    }

    #[test]
    fn a_malformed_event_ends_the_stream() {
        assert_eq!(read(&[b"data: \xff\n\n"]), Err(EventError::NotUtf8));
        let endless = vec![b'x'; MAX_EVENT / 4 + 1];
        let chunks: Vec<&[u8]> = vec![&endless; 4];
        assert_eq!(read(&chunks), Err(EventError::TooLong));
    }
}
