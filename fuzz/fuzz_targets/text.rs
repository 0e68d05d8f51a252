//! Quantities with units, addresses, prefixes and arms: each accepted text prints as one that reads
//! back to the same value.
#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use hikyaku_units::arm::Arm;
use hikyaku_core::client::key::{Key, Prefix};
use hikyaku_units::{ByteSize, LossRate, Rate, duration};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    repeats::<Arm>(text);
    repeats::<ByteSize>(text);
    repeats::<Key>(text);
    repeats::<LossRate>(text);
    repeats::<Prefix>(text);
    repeats::<Rate>(text);
    if let Ok(time) = duration::parse(text) {
        let shown = duration::display(time).to_string();
        assert_eq!(duration::parse(&shown), Ok(time), "{shown}");
    }
});

fn repeats<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let shown = value.to_string();
        assert_eq!(shown.parse().ok(), Some(value), "{shown}");
    }
}
