use std::collections::BTreeMap;

use super::*;

fn of(urgency: u8, incremental: bool) -> Priority {
    Priority {
        urgency,
        incremental,
    }
}

/// QUIC's queue, as quinn-proto has it: a stream that waits leaves by the level that it had when it came.
#[derive(Default)]
struct Queue {
    levels: BTreeMap<u64, i32>,
    waiting: Vec<(i32, u64, u64)>,
    turns: u64,
}

impl Queue {
    fn apply(&mut self, order: &mut Order) {
        self.levels.extend(order.changes());
    }

    fn push(&mut self, stream: u64) {
        self.turns += 1;
        let level = self.levels[&stream];
        self.waiting.push((level, u64::MAX - self.turns, stream));
    }

    /// Sends a packet of the first stream, which has more to send.
    fn send(&mut self) -> u64 {
        let first = *self.waiting.iter().max().unwrap();
        self.waiting.retain(|it| *it != first);
        self.push(first.2);
        first.2
    }

    fn sent(&mut self, packets: usize) -> Vec<u64> {
        (0..packets).map(|_| self.send()).collect()
    }

    fn end(&mut self, stream: u64) {
        self.waiting.retain(|it| it.2 != stream);
    }
}

/// Responses that are all under way.
fn begun(responses: &[(u64, u8, bool)]) -> (Order, Queue) {
    let (mut order, mut queue) = (Order::new(), Queue::default());
    for &(stream, urgency, incremental) in responses {
        order.insert(stream, of(urgency, incremental));
        queue.apply(&mut order);
        queue.push(stream);
    }
    (order, queue)
}

#[test]
fn responses_are_sent_as_the_rfc_says() {
    type Case = (&'static str, &'static [(u64, u8, bool)], &'static [u64]);
    let cases: &[Case] = &[
        (
            "RFC 9218 §10: in ascending order of urgency",
            &[(0, 3, false), (4, 0, false), (8, 7, false)],
            &[4, 4, 4],
        ),
        (
            "RFC 9218 §10: non-incremental ones by stream ID",
            &[(0, 3, false), (4, 3, false), (8, 3, false)],
            &[0, 0, 0],
        ),
        (
            "RFC 9218 §10: by stream ID, whatever the order of arrival",
            &[(8, 3, false), (0, 3, false), (4, 3, false)],
            // One packet by the former level.
            &[8, 0, 0, 0],
        ),
        (
            "RFC 9218 §10: incremental ones share bandwidth",
            &[(0, 3, true), (4, 3, true), (8, 3, true)],
            &[0, 4, 8, 0, 4, 8],
        ),
        (
            "both kinds share bandwidth",
            &[(0, 3, false), (4, 3, true), (8, 3, false), (12, 3, true)],
            &[0, 4, 12, 0, 4, 12],
        ),
        (
            "incremental ones share with one that comes later",
            &[(0, 3, true), (4, 3, true), (8, 3, false)],
            &[0, 4, 8, 0, 4, 8],
        ),
    ];
    for (name, responses, want) in cases {
        let (_, mut queue) = begun(responses);
        assert_eq!(queue.sent(want.len()), *want, "{name}");
    }
}

#[test]
fn the_next_one_takes_the_turn_of_the_one_that_ends() {
    let (mut order, mut queue) = begun(&[(0, 3, false), (4, 3, true), (8, 3, false)]);
    assert_eq!(queue.sent(4), [0, 4, 0, 4]);
    order.remove(0);
    queue.apply(&mut order);
    queue.end(0);
    // The incremental one has left the queue by its former level once.
    assert_eq!(queue.sent(5), [4, 8, 4, 8, 4]);
    order.remove(8);
    queue.apply(&mut order);
    queue.end(8);
    assert_eq!(queue.sent(2), [4, 4]);
}

#[test]
fn a_new_priority_counts_after_a_packet_of_each() {
    let (mut order, mut queue) = begun(&[(0, 3, false), (4, 5, false), (8, 7, false)]);
    assert_eq!(queue.sent(2), [0, 0]);
    order.by_client(8, of(0, false));
    queue.apply(&mut order);
    assert_eq!(queue.sent(1), [0], "not before levels are given");
    order.refresh();
    queue.apply(&mut order);
    assert_eq!(queue.sent(5), [0, 4, 8, 8, 8], "RFC 9218 §7");
    order.by_client(8, of(7, false));
    order.refresh();
    queue.apply(&mut order);
    assert_eq!(queue.sent(5), [8, 0, 4, 0, 0]);
    // One that begins now is not behind the others' former levels.
    order.insert(12, of(0, false));
    queue.apply(&mut order);
    queue.push(12);
    assert_eq!(queue.sent(3), [12, 12, 12]);
}

#[test]
fn a_response_replaces_what_the_client_asks_for() {
    let (mut order, mut queue) = begun(&[(0, 3, false), (4, 5, false)]);
    let urgent = Parameters {
        urgency: Some(1),
        incremental: None,
    };
    order.by_server(4, urgent);
    order.refresh();
    queue.apply(&mut order);
    assert_eq!(queue.sent(3), [0, 4, 4], "RFC 9218 §8");
    // The client changes what the response does not say.
    order.by_client(4, of(7, true));
    order.refresh();
    queue.apply(&mut order);
    assert_eq!(queue.sent(4), [4, 0, 4, 4]);
    assert_eq!(order.open[1].priority(), of(1, true));
    // An update without news costs nothing.
    order.by_client(4, of(7, true));
    order.refresh();
    assert_eq!(order.changes().count(), 0);
    order.by_client(99, of(0, false));
    order.by_server(99, urgent);
    order.remove(99);
    order.refresh();
    assert_eq!(order.changes().count(), 0, "of no response");
}

#[test]
fn a_connection_of_many_requests_keeps_its_order() {
    let (mut order, mut queue) = begun(&[(0, 7, false)]);
    for stream in (4..60_000).step_by(4) {
        order.insert(stream, of(3, false));
        queue.apply(&mut order);
        queue.push(stream);
        // New levels cost a packet of the former ones.
        assert_eq!(queue.sent(2)[1], stream);
        order.remove(stream);
        queue.apply(&mut order);
        queue.end(stream);
    }
    assert_eq!(queue.sent(1), [0]);
}

#[test]
fn updates_without_end_leave_the_order_that_there_is() {
    let (mut order, mut queue) = begun(&[(0, 3, false), (4, 3, false)]);
    for count in 0..200_000u32 {
        order.by_client(4, of((count % 2) as u8, false));
        order.refresh();
        queue.apply(&mut order);
    }
    assert_eq!(queue.sent(3), [0, 4, 4]);
    order.insert(8, of(0, false));
    assert!(order.headroom(8).own > order.headroom(0).own);
}

#[test]
fn the_more_urgent_one_finds_room() {
    let responses = [
        (0, 7, false),
        (4, 3, false),
        (8, 3, false),
        (12, 3, true),
        (16, 2, false),
    ];
    let (order, _) = begun(&responses);
    let own = |stream| order.headroom(stream).own / ROOM;
    let rooms = [0, 4, 8, 12, 16].map(own);
    assert_eq!(rooms, [1, 9, 8, 9, 11]);
    let most = [0, 16, 99].map(|stream| order.headroom(stream).most / ROOM);
    assert_eq!(most, [11, 11, 11]);
    let none = Headroom { own: 0, most: 0 };
    assert_eq!(Order::new().headroom(0), none);
}
