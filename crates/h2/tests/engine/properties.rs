//! Properties for any bytes of a client: nothing panics, cuts make no difference, and windows hold.

use bytes::Bytes;
use hikyaku_h2::connection::Config;
use hikyaku_h2::error::Code;
use http::{HeaderMap, StatusCode};
use proptest::prelude::*;

use crate::wire::{GET, POST, Server, data, frame, headers, opening, reset, settings, window};

fn stream() -> impl Strategy<Value = u32> {
    prop_oneof![8 => (0u32..6).prop_map(|number| number * 2 + 1), 1 => 0u32..12]
}

/// A frame that is mostly valid.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let content = || prop::collection::vec(any::<u8>(), 0..30);
    prop_oneof![
        4 => (stream(), any::<bool>()).prop_map(|(stream, end)| headers(stream, 4 | u8::from(end), POST)),
        2 => stream().prop_map(|stream| headers(stream, 5, GET)),
        1 => stream().prop_map(|stream| headers(stream, 5, &[("a", "b")])),
        6 => (stream(), any::<bool>(), 0usize..300).prop_map(|(stream, end, length)| data(stream, end.into(), length)),
        1 => stream().prop_map(|stream| frame(0, 8, stream, &[2, b'x', 0, 0])),
        1 => stream().prop_map(reset),
        2 => (stream(), 0u32..2_000).prop_map(|(stream, bytes)| window(stream, bytes)),
        1 => (1u16..10, 0u32..3).prop_map(|(id, value)| settings(&[(id, value)])),
        1 => (0u8..18, any::<u8>(), stream(), content()).prop_map(|(kind, flags, stream, content)| frame(kind, flags, stream, &content)),
    ]
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..20).prop_map(|pieces| pieces.concat())
}

/// A step of a whole connection.
#[derive(Clone, Debug)]
enum Step {
    Receive(Vec<u8>),
    Head(u32, u16, bool),
    Data(u32, usize, bool),
    Trailers(u32),
    Reset(u32),
    Stop(u32),
    Grow(u32, u32),
    Window(u32),
    Transmit(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop::sample::select(vec![103u16, 200, 200, 204, 304]);
    prop_oneof![
        8 => piece().prop_map(Step::Receive),
        4 => (stream(), status, any::<bool>()).prop_map(|(stream, status, end)| Step::Head(stream, status, end)),
        6 => (stream(), 0usize..5_000, any::<bool>()).prop_map(|(stream, length, end)| Step::Data(stream, length, end)),
        1 => stream().prop_map(Step::Trailers),
        1 => stream().prop_map(Step::Reset),
        1 => stream().prop_map(Step::Stop),
        1 => (stream(), 0u32..1_000).prop_map(|(stream, bytes)| Step::Grow(stream, bytes)),
        1 => (0u32..100_000).prop_map(Step::Window),
        4 => (1usize..9_000).prop_map(Step::Transmit),
    ]
}

/// A client's view of what it has received, which keeps account of its windows.
#[derive(Default)]
struct Account {
    allowed: i64,
    received: i64,
}

impl Account {
    fn take(&mut self, sent: &str) {
        for word in sent.split(", ").filter(|word| word.starts_with("DATA")) {
            let length = word.split(": ").nth(1).unwrap();
            let length: i64 = length.trim_end_matches(" end").parse().unwrap();
            self.received += length;
        }
    }
}

fn apply(server: &mut Server, step: Step, account: &mut Account) {
    let none = HeaderMap::new();
    let connection = &mut server.connection;
    match step {
        Step::Receive(bytes) => {
            if let [_, _, _, 8, _, 0, 0, 0, 0, more @ ..] = &bytes[..]
                && let Ok(more) = more.try_into()
            {
                account.allowed += i64::from(u32::from_be_bytes(more));
            }
            server.receive(&bytes);
        }
        Step::Head(stream, status, end) => {
            let status = StatusCode::from_u16(status).unwrap();
            let _ = connection.send_head(stream, status, &none, end);
        }
        Step::Data(stream, length, end) => {
            let _ = connection.send_data(stream, Bytes::from(vec![0; length]), end);
        }
        Step::Trailers(stream) => {
            let _ = connection.send_trailers(stream, none);
        }
        Step::Reset(stream) => connection.reset(stream, Code::CANCEL),
        Step::Stop(stream) => connection.stop_reading(stream),
        Step::Grow(0, bytes) => connection.grow_connection_window(bytes),
        Step::Grow(stream, bytes) => connection.grow_stream_window(stream, bytes),
        Step::Window(window) => connection.set_stream_window(window, server.now),
        Step::Transmit(max) => {
            let sent = server.sent_up_to(max);
            account.take(&sent);
        }
    }
}

/// The states of a stream (RFC 9113 §5.1), as a server sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    HalfClosedRemote,
    HalfClosedLocal,
    Ended,
    ResetByServer,
    ResetByClient,
}

/// A frame of the client, or an act of the server.
#[derive(Clone, Copy, Debug)]
enum Act {
    Headers { end: bool },
    Data { end: bool },
    Reset,
    WindowUpdate,
    Respond,
    ResetByServer,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => any::<bool>().prop_map(|end| Act::Headers { end }),
        3 => any::<bool>().prop_map(|end| Act::Data { end }),
        1 => Just(Act::Reset),
        1 => Just(Act::WindowUpdate),
        1 => Just(Act::Respond),
        1 => Just(Act::ResetByServer),
    ]
}

/// The next state and the events that the RFC asks for; no state after an error of the connection.
fn model(state: State, act: Act) -> (Option<State>, &'static str) {
    use State::{Ended, HalfClosedLocal, HalfClosedRemote, Idle, Open};
    let ended = match state {
        Open => HalfClosedRemote,
        _ => Ended,
    };
    let (next, events) = match (state, act) {
        (Idle, Act::Headers { end: true }) => (HalfClosedRemote, "POST 1 end"),
        (Idle, Act::Headers { end: false }) => (Open, "POST 1"),
        (Idle, Act::Data { .. } | Act::Reset | Act::WindowUpdate) => {
            return (None, "error PROTOCOL_ERROR");
        }
        (Idle, Act::Respond | Act::ResetByServer) => (Idle, ""),
        (Open | HalfClosedLocal, Act::Headers { end: true }) => (ended, "trailers 1: 1"),
        (Open | HalfClosedLocal, Act::Headers { end: false }) => {
            (State::ResetByServer, "fault 1 PROTOCOL_ERROR")
        }
        (Open | HalfClosedLocal, Act::Data { end: true }) => (ended, "data 1: 3 end"),
        (Open | HalfClosedLocal, Act::Data { end: false }) => (state, "data 1: 3"),
        (HalfClosedRemote, Act::Headers { .. } | Act::Data { .. }) => {
            (State::ResetByServer, "fault 1 STREAM_CLOSED")
        }
        (Open | HalfClosedLocal | HalfClosedRemote, Act::Reset) => {
            (State::ResetByClient, "reset 1 CANCEL")
        }
        (Open, Act::Respond) => (HalfClosedLocal, ""),
        (HalfClosedRemote, Act::Respond) => (Ended, ""),
        (Open | HalfClosedLocal | HalfClosedRemote, Act::ResetByServer) => {
            (State::ResetByServer, "")
        }
        (Ended, Act::Headers { .. }) => return (None, "error STREAM_CLOSED"),
        _ => (state, ""),
    };
    (Some(next), events)
}

fn do_act(server: &mut Server, state: State, act: Act) -> String {
    let lines = match state {
        State::Idle => POST,
        _ => &[("a", "b")],
    };
    let frame = match act {
        Act::Headers { end } => headers(1, 4 | u8::from(end), lines),
        Act::Data { end } => data(1, end.into(), 3),
        Act::Reset => reset(1),
        Act::WindowUpdate => window(1, 1),
        Act::Respond => {
            let none = HeaderMap::new();
            let connection = &mut server.connection;
            let _ = connection.send_head(1, StatusCode::OK, &none, true);
            return String::new();
        }
        Act::ResetByServer => {
            server.connection.reset(1, Code::CANCEL);
            return String::new();
        }
    };
    server.receive(&frame)
}

proptest! {
    #[test]
    fn streams_have_the_states_of_the_rfc(acts in prop::collection::vec(act(), 1..12)) {
        let mut server = Server::new(Config::default());
        let mut state = State::Idle;
        for act in acts {
            let (next, events) = model(state, act);
            prop_assert_eq!(do_act(&mut server, state, act), events, "{:?} in {:?}", act, state);
            let Some(next) = next else { break };
            state = next;
            let is_open = !matches!(
                state,
                State::Idle | State::Ended | State::ResetByServer | State::ResetByClient
            );
            prop_assert_eq!(server.connection.open_requests(), usize::from(is_open));
        }
    }

    #[test]
    fn cuts_make_no_difference(bytes in pieces(), size in 1usize..50) {
        let mut whole = Server::new(Config::default());
        let mut cut = Server::new(Config::default());
        prop_assert_eq!(whole.receive(&bytes), cut.receive_in(&bytes, size));
        prop_assert_eq!(whole.sent(), cut.sent());
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300), opens: bool) {
        let mut server = Server::fresh(Config::default());
        if opens {
            server.receive(&opening(&[]));
        }
        server.receive(&bytes);
        server.sent();
    }

    /// Whatever both sides do, no more content is sent than the client allows, and a response ends
    /// once.
    #[test]
    fn windows_hold(steps in prop::collection::vec(step(), 0..80), window in 0u32..3_000) {
        let mut server = Server::with_settings(Config::default(), &[(4, window)]);
        let mut account = Account { allowed: 65_535, received: 0 };
        for step in steps {
            apply(&mut server, step, &mut account);
            prop_assert!(account.received <= account.allowed);
        }
        account.take(&server.sent());
        prop_assert!(account.received <= account.allowed);
    }
}
