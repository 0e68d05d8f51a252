//! The standing of a certificate, and when its authority is asked again.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use super::response::{Answer, Standing};
use super::subject::{Subject, Unasked, must_staple};

/// Seconds to the first try after a failure. Each further one doubles them, up to [`RETRY_MAX`].
const RETRY: i64 = 60;
const RETRY_MAX: i64 = 3600;
/// Seconds between two requests, at least.
const PAUSE: i64 = 10;
/// Seconds before a response expires from which on it is not stapled, since clients' clocks differ. It is a
/// twentieth of the response's time where that is less.
const MARGIN: i64 = 300;

/// A certificate's standing.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) subject: Result<Subject, Unasked>,
    must_staple: bool,
    /// The last answer, until it expires.
    answer: Option<Answer>,
    /// When the responder is asked next, in seconds since the Unix epoch.
    next: i64,
    /// In a row.
    failures: u32,
    error: Option<String>,
    /// The last warning.
    warned: Option<String>,
}

/// The standing of a certificate by OCSP (`GET /v1/certificates`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OcspReport {
    /// `good`, `revoked`, `unknown`, or `none` where the responder has not said. Only a response of `good` is
    /// stapled.
    pub state: String,
    /// URL of the responder; `None` where the certificate names none, or its chain lacks the issuer.
    pub responder: Option<String>,
    /// The certificate wants never to come without a response (RFC 7633).
    pub must_staple: bool,
    /// When the response was made, in seconds since the Unix epoch.
    pub this_update: Option<i64>,
    /// When it expires, in seconds since the Unix epoch.
    pub next_update: Option<i64>,
    /// When the responder is asked next, in seconds since the Unix epoch.
    pub next_request: Option<i64>,
    /// The last failure, if nothing has succeeded since.
    pub error: Option<String>,
}

impl Entry {
    /// Of the chain of a certificate, its own first.
    pub(super) fn of(chain: &[CertificateDer<'_>]) -> Self {
        Self {
            subject: Subject::of(chain),
            must_staple: chain.first().is_some_and(must_staple),
            answer: None,
            next: 0,
            failures: 0,
            error: None,
            warned: None,
        }
    }

    /// The subject, if its responder is to be asked at a time.
    pub(super) fn due(&self, now: i64) -> Option<&Subject> {
        let subject = self.subject.as_ref().ok()?;
        // A clock that was set back leaves no certificate without requests.
        (self.next <= now || self.next > now + MAX_LIFE).then_some(subject)
    }

    /// The response to staple at a time.
    pub(super) fn staple(&self, now: i64) -> Option<&[u8]> {
        let answer = self.answer.as_ref()?;
        let margin = MARGIN.min((answer.next_update - answer.this_update) / 20);
        let is_fit = answer.standing == Standing::Good && now < answer.next_update - margin;
        is_fit.then_some(&*answer.der)
    }

    /// Takes note of an answer.
    pub(super) fn answered(&mut self, answer: Answer, now: i64) {
        let half = i64::midpoint(answer.this_update, answer.next_update);
        let half = match half > now {
            true => half,
            false => i64::midpoint(now, answer.next_update),
        };
        self.next = half.max(now + PAUSE);
        self.answer = Some(answer);
        (self.failures, self.error) = (0, None);
    }

    /// Takes note that there is no answer.
    pub(super) fn failed(&mut self, why: String, now: i64) {
        let pause = RETRY.saturating_mul(1 << self.failures.min(10));
        self.next = now + pause.min(RETRY_MAX);
        self.failures += 1;
        self.error = Some(why);
    }

    /// A sentence about a fault, if that has not been said.
    pub(super) fn news(&mut self, now: i64) -> Option<String> {
        let concern = self.concern(now);
        let is_new = concern != self.warned;
        self.warned.clone_from(&concern);
        concern.filter(|_| is_new)
    }

    fn concern(&self, now: i64) -> Option<String> {
        let answer = self.answer.as_ref().filter(|one| one.next_update > now);
        let why = match (answer.map(|one| one.standing), &self.error, &self.subject) {
            (Some(Standing::Revoked), ..) => {
                return Some("is revoked by its issuer: get another".to_owned());
            }
            (Some(Standing::Unknown), ..) => "the responder does not know it".to_owned(),
            (_, Some(error), Ok(subject)) => format!("asking {}: {error}", subject.url),
            (_, _, Err(why)) => why.to_string(),
            (..) => return None,
        };
        match (self.staple(now).is_some(), self.must_staple, &self.subject) {
            (false, true, _) => Some(format!(
                "must come with an OCSP response, and has none: clients may refuse it ({why})"
            )),
            (_, false, Err(Unasked::NoResponder)) | (true, ..) => None,
            (false, false, _) => Some(format!("has no OCSP response to staple: {why}")),
        }
    }

    pub(super) fn report(&self, now: i64) -> OcspReport {
        let answer = self.answer.as_ref().filter(|one| one.next_update > now);
        let subject = self.subject.as_ref().ok();
        OcspReport {
            state: match answer.map(|answer| answer.standing) {
                Some(Standing::Good) => "good",
                Some(Standing::Revoked) => "revoked",
                Some(Standing::Unknown) => "unknown",
                None => "none",
            }
            .to_owned(),
            responder: subject.map(|subject| subject.url.clone()),
            must_staple: self.must_staple,
            this_update: answer.map(|answer| answer.this_update),
            next_update: answer.map(|answer| answer.next_update),
            next_request: subject.map(|_| self.next),
            error: self.error.clone(),
        }
    }
}

/// Seconds of the longest time that is waited for: more than half of any response's.
const MAX_LIFE: i64 = 366 * 24 * 3600;

/// Seconds since the Unix epoch.
pub(super) fn now() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |time| time.as_secs().cast_signed())
}

#[cfg(test)]
mod tests {
    use super::super::tests::authority;
    use super::*;

    const START: i64 = 1_800_000_000;
    const HOUR: i64 = 3600;

    fn answer(standing: Standing, life: i64) -> Answer {
        Answer {
            der: b"response".to_vec(),
            standing,
            this_update: START,
            next_update: START + life,
        }
    }

    fn entry(must_staple: bool) -> Entry {
        let chain = authority()
            .certificate("http://ocsp.example/", must_staple)
            .chain;
        Entry::of(&chain)
    }

    #[test]
    fn a_response_is_renewed_at_half_its_time_and_not_stapled_to_the_last_second() {
        let mut entry = entry(false);
        assert!(entry.due(START).is_some());
        entry.answered(answer(Standing::Good, 10 * HOUR), START);
        assert!(entry.due(START + 5 * HOUR - 1).is_none());
        assert!(entry.due(START + 5 * HOUR).is_some());
        let ends = START + 10 * HOUR;
        assert_eq!(entry.staple(ends - 301), Some(&b"response"[..]));
        assert_eq!(entry.staple(ends - 300), None);
        // A responder that hands out an old response is not asked without end.
        entry.answered(answer(Standing::Good, 10 * HOUR), START + 8 * HOUR);
        assert!(entry.due(START + 9 * HOUR - 1).is_none());
        assert!(entry.due(START + 9 * HOUR).is_some());
        // One of a minute.
        entry.answered(answer(Standing::Good, 60), START);
        assert!(entry.staple(START + 56).is_some());
        assert!(entry.staple(START + 57).is_none());
    }

    #[test]
    fn failures_are_waited_out_for_longer_and_longer_while_the_response_lasts() {
        let mut entry = entry(false);
        entry.answered(answer(Standing::Good, 10 * HOUR), START);
        let mut now = START + 5 * HOUR;
        for pause in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
            entry.failed("connecting: refused".to_owned(), now);
            assert!(entry.due(now + pause - 1).is_none(), "{pause}");
            now += pause;
            assert!(entry.due(now).is_some(), "{pause}");
            assert!(entry.staple(now).is_some());
        }
        assert_eq!(entry.news(now), None, "there is still a response");
        let news = entry.news(START + 10 * HOUR).unwrap();
        assert!(
            news.starts_with("has no OCSP response to staple: asking http://"),
            "{news}"
        );
        assert!(news.ends_with("connecting: refused"), "{news}");
        assert_eq!(entry.news(START + 10 * HOUR), None, "it has been said");
    }

    #[test]
    fn only_what_is_good_is_stapled() {
        for (standing, state, stapled) in [
            (Standing::Good, "good", true),
            (Standing::Revoked, "revoked", false),
            (Standing::Unknown, "unknown", false),
        ] {
            let mut entry = entry(false);
            entry.answered(answer(standing, HOUR), START);
            assert_eq!(entry.staple(START).is_some(), stapled, "{state}");
            assert_eq!(entry.report(START).state, state);
            assert_eq!(entry.report(START + HOUR).state, "none");
            assert_eq!(entry.news(START).is_none(), stapled, "{state}");
        }
    }

    #[test]
    fn a_certificate_that_must_come_with_a_response_is_warned_of() {
        let mut strict = entry(true);
        assert!(strict.report(START).must_staple);
        strict.failed("it answers with 503".to_owned(), START);
        let news = strict.news(START).unwrap();
        assert!(
            news.starts_with("must come with an OCSP response"),
            "{news}"
        );
        let chain = authority().certificate("", true).chain;
        let news = Entry::of(&chain).news(START).unwrap();
        assert!(news.contains("names no OCSP responder"), "{news}");
        let chain = authority().certificate("", false).chain;
        assert_eq!(Entry::of(&chain).news(START), None);
        let chain = authority().certificate("http://ocsp.example/", false).chain;
        let news = Entry::of(&chain[..1]).news(START).unwrap();
        assert!(news.contains("the chain needs it"), "{news}");
    }
}
