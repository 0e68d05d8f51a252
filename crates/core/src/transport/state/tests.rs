use std::net::IpAddr;

use proptest::prelude::*;

use super::{State, StateError};
use crate::client::view::{Knowledge, client_number};
use crate::model::tests::synthetic;
use crate::policy::PolicyConfig;
use crate::transport::tests::draws::views;
use crate::transport::{decide, treatments};
use hikyaku_units::Timestamp;
use hikyaku_units::arm::{ByTransport, CongestionSet};

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const EVERYTHING: ByTransport<CongestionSet> = ByTransport {
    tcp: CongestionSet::ALL,
    quic: CongestionSet::ALL,
};

fn now() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

#[test]
fn foreign_texts_are_refused() {
    let policy = PolicyConfig::default();
    let view = Knowledge::none(CLIENT).view(now(), &policy);
    let decision = decide(&view, &synthetic(), &policy, &EVERYTHING, now(), 1);
    let code = State::of(&decision).code();
    assert!(code.len() < 24, "{code}");
    let read = |text: &str| State::parse(CLIENT, text).unwrap_err();
    assert_eq!(read(""), StateError::Damaged);
    assert_eq!(read("!"), StateError::Alphabet);
    assert_eq!(read("CQAA"), StateError::Release);
    assert_eq!(read(&code[..4]), StateError::Damaged);
    assert_eq!(read(&format!("{code}AAAA")), StateError::Damaged);
}

proptest! {
    #[test]
    fn nothing_that_is_read_panics(text in "[A-Za-z0-9_-]{0,120}") {
        let text = format!("AQ{text}");
        if let Ok(state) = State::parse(CLIENT, &text) {
            let drawn = treatments(&state.view, &synthetic(), &PolicyConfig::default(), &EVERYTHING);
            prop_assert!(drawn.iter().all(|(_, probability)| *probability > 0.0));
        }
    }

    #[test]
    fn a_state_that_is_read_again_is_written_alike(view in views(), seed: u64) {
        let policy = PolicyConfig::default();
        let decision = decide(&view, &synthetic(), &policy, &EVERYTHING, now(), seed);
        let state = State::of(&decision);
        let read = State::parse(CLIENT, &state.code()).unwrap();
        prop_assert_eq!(read.treatment, state.treatment);
        prop_assert_eq!(read.view.client, client_number(CLIENT));
        prop_assert_eq!(read.code(), state.code(), "digits that are left stay as they are");
        prop_assert!((read.view.samples - view.samples).abs() <= view.samples / 200.0);
    }
}
