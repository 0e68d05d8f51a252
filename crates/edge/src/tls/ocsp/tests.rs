//! Responses by openssl, and what becomes of them.

use hikyaku_testkit::has;
use hikyaku_testkit::ocsp::{Authority, Signer};
use rustls::crypto::aws_lc_rs::default_provider;

use super::response::Fault;
use super::*;

const URL: &str = "http://ocsp.example/";
const HOUR: i64 = 3600;

pub(super) fn authority() -> Authority {
    Authority::new()
}

fn algorithms() -> Algorithms {
    default_provider().signature_verification_algorithms.all
}

fn subject(authority: &Authority) -> Subject {
    Subject::of(&authority.certificate(URL, false).chain).unwrap()
}

#[test]
fn openssl_answers_and_is_believed_by_its_signature_and_time() {
    if !has(
        "openssl_answers_and_is_believed_by_its_signature_and_time",
        "openssl",
    ) {
        return;
    }
    let authority = authority();
    let subject = subject(&authority);
    let check = |der: &[u8], now| Answer::check(der, &subject, algorithms(), now);
    let respond = |signer| authority.respond(&subject.request(), signer, 120);
    let cases = [
        (Signer::Issuer, Ok(Standing::Good)),
        (Signer::Delegate, Ok(Standing::Good)),
        (Signer::Undelegated, Err(Fault::Signature)),
        (Signer::Stranger, Err(Fault::Signature)),
    ];
    for (signer, want) in cases {
        let got = check(&respond(signer), now()).map(|answer| answer.standing);
        assert_eq!(got, want, "{signer:?}");
    }
    // A delegate that is new at that time is not believed either, so the issuer signs.
    let response = respond(Signer::Issuer);
    let answer = check(&response, now()).unwrap();
    assert_eq!(answer.next_update - answer.this_update, 2 * HOUR);
    let times = [
        (answer.this_update - 301, Err(Fault::Early)),
        (answer.this_update - 299, Ok(Standing::Good)),
        (answer.next_update - 1, Ok(Standing::Good)),
        (answer.next_update, Err(Fault::Expired)),
    ];
    for (at, want) in times {
        let got = check(&response, at).map(|answer| answer.standing);
        assert_eq!(got, want, "{at}");
    }
    let endless = authority.respond(&subject.request(), Signer::Issuer, 0);
    assert_eq!(check(&endless, now()), Err(Fault::Endless));
    for (standing, want) in [("R", Standing::Revoked), ("", Standing::Unknown)] {
        authority.set_standing(standing);
        let answer = check(&respond(Signer::Issuer), now()).unwrap();
        assert_eq!(answer.standing, want);
    }
}

#[test]
fn a_response_about_another_certificate_is_refused() {
    if !has("a_response_about_another_certificate_is_refused", "openssl") {
        return;
    }
    let authority = authority();
    let mut asked = subject(&authority);
    let response = authority.respond(&asked.request(), Signer::Issuer, 60);
    asked.id.serial = vec![0x2a, 0x02];
    let checked = Answer::check(&response, &asked, algorithms(), now());
    assert_eq!(checked, Err(Fault::Other));
    let mut asked = subject(&authority);
    asked.id.issuer_key[0] ^= 1;
    let checked = Answer::check(&response, &asked, algorithms(), now());
    assert_eq!(checked, Err(Fault::Other));
}

#[test]
fn a_response_that_is_changed_anywhere_is_refused() {
    if !has("a_response_that_is_changed_anywhere_is_refused", "openssl") {
        return;
    }
    let authority = authority();
    let subject = subject(&authority);
    let check = |der: &[u8]| Answer::check(der, &subject, algorithms(), now());
    let response = authority.respond(&subject.request(), Signer::Issuer, 60);
    let good = check(&response).unwrap();
    for place in 0..response.len() {
        assert!(check(&response[..place]).is_err(), "cut at {place}");
        let mut changed = response.clone();
        changed[place] ^= 0x01;
        // The certificates beside the signature say nothing here.
        if let Ok(answer) = check(&changed) {
            let what = (answer.standing, answer.this_update, answer.next_update);
            assert_eq!(
                what,
                (good.standing, good.this_update, good.next_update),
                "{place}"
            );
        }
    }
    for (status, want) in [
        (1, "malformed"),
        (3, "try again later"),
        (6, "unauthorized"),
    ] {
        let fault = check(&[0x30, 3, 0x0a, 1, status]).unwrap_err();
        assert!(fault.to_string().contains(want), "{fault}");
    }
    assert_eq!(check(b"<html>"), Err(Fault::Malformed));
    assert_eq!(check(&[0x30, 3, 0x0a, 1, 0]), Err(Fault::Malformed));
}

#[test]
fn without_a_responder_or_an_issuer_nobody_is_asked() {
    let authority = authority();
    let cases = [
        ("", 2, "names no OCSP responder"),
        ("https://ocsp.example/", 2, "names no OCSP responder"),
        (URL, 1, "the chain needs it"),
    ];
    for (url, count, want) in cases {
        let chain = authority.certificate(url, true).chain;
        let error = Subject::of(&chain[..count]).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
        let concern = concern(&chain[..count], true).unwrap();
        assert!(concern.contains(want), "{concern}");
    }
    let chain = authority.certificate(URL, true).chain;
    assert_eq!(concern(&chain, true), None);
    assert!(
        concern(&chain, false)
            .unwrap()
            .contains("`tls.ocsp` is false")
    );
    let chain = authority.certificate("", false).chain;
    assert_eq!(concern(&chain, true), None);
}
