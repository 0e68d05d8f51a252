//! The Alt-Svc field, as any server may send it.
#![no_main]

use hikyaku_client::alt_svc::{AltSvc, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|value: &str| {
    if let Ok(AltSvc::Alternatives(alternatives)) = parse(value) {
        assert!(
            !alternatives.is_empty(),
            "neither `clear` nor an alternative"
        );
        for alternative in alternatives {
            assert!(!alternative.protocol.is_empty());
        }
    }
});
