//! Memory of connections that are idle.

use crate::common::{connect, echoing, exchange, patiently};

/// Connections of the test.
const COUNT: u16 = 200;
/// Bytes that an idle connection of both sides together may hold: mostly state of quinn-proto and rustls.
const LIMIT: i64 = 100 * 1024;

#[test]
fn idle_connections_hold_no_buffers() {
    // All in this thread, whose allocations are counted.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (server, client, settings) = runtime.block_on(async { echoing(false) });
    let open_one = async || {
        let connection = connect(&client, &server, &settings).await;
        patiently(exchange(&connection, &vec![1; 100_000])).await;
        connection
    };
    // All that connections share is there by then.
    let first = runtime.block_on(open_one());
    let mut open = vec![first];
    let counted = allocation_counter::measure(|| {
        for _ in 0..COUNT {
            open.push(runtime.block_on(open_one()));
        }
    });
    let each = counted.bytes_current / i64::from(COUNT);
    assert!(
        (1..LIMIT).contains(&each),
        "{each} bytes for each connection"
    );
    assert_eq!(server.open_connections(), usize::from(COUNT) + 1);
}
