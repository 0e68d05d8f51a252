//! Paths that carry nothing, for a moment or for long.

use super::*;

#[tokio::test]
async fn a_path_that_only_paused_is_taken_again() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &[]);
    let connection = edge.connection_with_two_ways().await;
    connection.stalled();
    connection.update(Session(0).into());
    assert_eq!(edge.name(&connection), "transit-b");
    connection.resumed(Duration::from_millis(30), true);
    assert_eq!(edge.name(&connection), "plain");
    let neighbour = edge.connection("192.0.2.7", None);
    assert_eq!(edge.name(&neighbour), "plain");
    // It is left as soon as before.
    connection.stalled();
    assert!(connection.update(Session(0).into()).moved);
}

#[tokio::test]
async fn a_path_that_paused_is_taken_again_once_that_is_known() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &[]);
    let connection = edge.connection_with_two_ways().await;
    connection.stalled();
    connection.update(Session(0).into());
    connection.resumed(Duration::from_millis(120), false);
    assert_eq!(edge.name(&connection), "transit-b", "nobody knows yet");
    connection.delivered();
    assert_eq!(edge.name(&connection), "plain");
    connection.delivered();
    assert_eq!(edge.name(&connection), "plain", "there is nothing left");
}

#[tokio::test]
async fn a_silent_path_is_left_at_once() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &[]);
    let connection = edge.connection_with_two_ways().await;
    assert_eq!(connection.route(), Route::Plain);
    connection.stalled();
    assert!(connection.update(Session(0).into()).moved);
    assert_eq!(edge.name(&connection), "transit-b", "plain is transit-a");
    connection.resumed(Duration::from_millis(80), false);
    let neighbour = edge.connection("192.0.2.7", None);
    assert_eq!(
        edge.name(&neighbour),
        "transit-b",
        "and is avoided by others"
    );
    // A path that delivers is not left for the first pause, since the other one is known to be lost.
    for false_alarm in [false, true] {
        connection.stalled();
        connection.update(Session(0).into());
        assert_eq!(edge.name(&connection), "transit-b", "a pause");
        // Nor for the next one, after it was notified of that one.
        connection.resumed(Duration::from_millis(80), false_alarm);
        connection.delivered();
    }
    connection.stalled();
    connection.update(Session(0).into());
    assert_eq!(edge.name(&connection), "transit-b", "a pause");
    connection.stalled();
    connection.update(Session(0).into());
    assert_eq!(edge.name(&connection), "plain", "both are silent");
}
