//! Windows for requests' content (RFC 9113 §5.2), which follow those that are read.

use std::time::Instant;

use hikyaku_h2::connection::Connection;

use crate::uploads::{FIRST_WINDOW, stream_window};

/// The windows that a client has for its content.
#[derive(Debug)]
pub(super) struct Windows {
    /// The window of the connection.
    connection: u32,
    /// Bytes that were read, and for which the client has got no window again.
    unclaimed: u32,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            connection: FIRST_WINDOW,
            unclaimed: 0,
        }
    }
}

impl Windows {
    /// Widens the window of the connection to `window` bytes, and those of its streams.
    pub(super) fn widen(&mut self, engine: &mut Connection, window: u32, now: Instant) {
        let more = window.saturating_sub(self.connection);
        self.connection += more;
        engine.grow_connection_window(more + std::mem::take(&mut self.unclaimed));
        engine.set_stream_window(stream_window(window), now);
    }

    /// Notes that `bytes` of the connection were read, or dropped.
    pub(super) fn on_read(&mut self, engine: &mut Connection, bytes: usize) {
        self.unclaimed = self.unclaimed.saturating_add(saturated(bytes));
        if self.unclaimed >= self.connection / 2 {
            engine.grow_connection_window(std::mem::take(&mut self.unclaimed));
        }
    }

    /// Notes that `bytes` of a stream were read, of which `unclaimed` ones are to be given back.
    pub(super) fn on_stream_read(
        &self,
        engine: &mut Connection,
        stream: u32,
        unclaimed: &mut u32,
        bytes: usize,
    ) {
        *unclaimed = unclaimed.saturating_add(saturated(bytes));
        if *unclaimed >= stream_window(self.connection) / 2 {
            engine.grow_stream_window(stream, std::mem::take(unclaimed));
        }
    }
}

fn saturated(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use hikyaku_h2::connection::Config;

    use super::*;

    #[test]
    fn windows_grow_by_what_was_read_in_large_steps() {
        let now = Instant::now();
        let config = Config {
            connection_window: FIRST_WINDOW,
            ..Config::default()
        };
        let mut engine = Connection::server(config, now);
        let mut windows = Windows::default();
        // (bytes that are read, the largest window after it)
        let steps = [(10_000, 0), (10_000, 0), (12_768, 32_768), (1, 32_768)];
        for (bytes, more) in steps {
            windows.on_read(&mut engine, bytes);
            assert_eq!(engine.connection_window(), FIRST_WINDOW + more);
        }
        // A wider window comes with all that was read.
        windows.widen(&mut engine, 2 * FIRST_WINDOW, now);
        let window = FIRST_WINDOW + 32_768 + 1 + FIRST_WINDOW;
        assert_eq!(engine.connection_window(), window);
    }
}
