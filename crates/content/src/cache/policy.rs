//! Responses that may be stored, their freshness, and their reuse: a shared cache by RFC 9111.
//!
//! It is pure: times come in as milliseconds since 1970.
//!
//! The crate `http-cache-semantics` does not do here. It follows RFC 7234, without targeted fields,
//! `must-understand` and RFC 5861. It gives a reused response a new `Date` and only one of its repeated
//! fields. And it makes a header map and a hash map for each hit.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::config::CacheConfig;
use super::directives::{Directives, delta};

/// The operator's rules.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    /// All in milliseconds.
    default_ttl: u64,
    heuristic: bool,
    meanwhile: u64,
    on_error: u64,
}

impl From<&CacheConfig> for Rules {
    fn from(config: &CacheConfig) -> Self {
        Self {
            default_ttl: millis(config.default_ttl),
            heuristic: config.heuristic,
            meanwhile: millis(config.stale_while_revalidate),
            on_error: millis(config.stale_if_error),
        }
    }
}

/// A response as it came from the upstream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received<'a> {
    pub(super) status: StatusCode,
    pub(super) headers: &'a HeaderMap,
    /// When the request was sent, and when the response came.
    pub(super) asked: u64,
    pub(super) received: u64,
    /// The request was for a user: it had `Authorization`, or the route asks who it is.
    pub(super) is_personal: bool,
}

/// The conditions of reuse of a stored response. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// When its age was 0 (RFC 9111 §4.2.3); before 1970 if it claims to be that old.
    born: i64,
    lifetime: u64,
    /// It is `no-cache`.
    is_always_validated: bool,
    /// A client that takes stale responses may not have this one.
    is_never_stale: bool,
    /// After its lifetime, while the upstream is asked in the background.
    meanwhile: u64,
    /// After its lifetime, in place of errors.
    on_error: u64,
}

/// The use of a stored response for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    /// As it is.
    Serve,
    /// As it is, and the upstream is asked in the background.
    ServeMeanwhile,
    /// Only when the upstream has said that it is current.
    Validate,
}

impl Received<'_> {
    /// Whether the response is stored, and the fields that are not (RFC 9111 §3).
    pub(super) fn judge(&self, rules: &Rules) -> Option<(Terms, Vec<HeaderName>)> {
        let status = self.status;
        if matches!(
            status,
            StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED
        ) || status.is_informational()
        {
            return None;
        }
        let targeted = Directives::targeted(self.headers);
        let is_targeted = targeted.is_some();
        let directives = targeted.unwrap_or_else(|| Directives::of(self.headers));
        let no_store = match directives.must_understand {
            true => !is_understood(status),
            false => directives.no_store,
        };
        if no_store || directives.private {
            return None;
        }
        // §3.5 for requests of users; a cookie is as much somebody's own.
        let is_explicit = directives.public
            || directives.s_maxage.is_some()
            || (is_targeted && directives.max_age.is_some());
        if self.is_personal && !(is_explicit || directives.must_revalidate) {
            return None;
        }
        let sets_cookie = self.headers.contains_key(header::SET_COOKIE)
            && !directives.fields.contains(&header::SET_COOKIE);
        if sets_cookie && !is_explicit {
            return None;
        }
        let lifetime = self.lifetime(&directives, is_targeted, rules)?;
        let terms = self.terms(&directives, lifetime, rules);
        let can_be_validated = [header::ETAG, header::LAST_MODIFIED]
            .iter()
            .any(|name| self.headers.contains_key(name));
        let is_of_use =
            can_be_validated || terms.lifetime.max(terms.meanwhile).max(terms.on_error) > 0;
        is_of_use.then_some((terms, directives.fields))
    }

    /// For how long the response is fresh (§4.2.1). `None` if nothing allows to store it.
    fn lifetime(&self, directives: &Directives, is_targeted: bool, rules: &Rules) -> Option<u64> {
        let seconds = directives.s_maxage.or(directives.max_age);
        if let Some(seconds) = seconds {
            return Some(seconds * 1000);
        }
        // RFC 9213 §2.1: a targeted field takes the place of `Expires`, too.
        if !is_targeted && let Some(expires) = self.headers.get(header::EXPIRES) {
            let until = date_of(expires).unwrap_or(0);
            return Some(until.saturating_sub(self.date()));
        }
        if !is_heuristically_cacheable(self.status) && !directives.public {
            return None;
        }
        if rules.default_ttl > 0 {
            return Some(rules.default_ttl);
        }
        let modified = self.headers.get(header::LAST_MODIFIED).and_then(date_of);
        let rested = modified.map_or(0, |modified| self.date().saturating_sub(modified));
        let heuristic = if rules.heuristic { rested / 10 } else { 0 };
        Some(heuristic.min(MAX_HEURISTIC))
    }

    fn terms(&self, directives: &Directives, lifetime: u64, rules: &Rules) -> Terms {
        let is_always_validated = directives.no_cache;
        let must_be_valid =
            is_always_validated || directives.must_revalidate || directives.proxy_revalidate;
        // `s-maxage` forbids stale responses as `proxy-revalidate` does (§5.2.2.10). A response that
        // allows them in so many words means them.
        let is_never_stale = must_be_valid || directives.s_maxage.is_some();
        let stale = |explicit: Option<u64>, by_rule| match explicit {
            _ if must_be_valid => 0,
            Some(seconds) => seconds * 1000,
            None if is_never_stale => 0,
            None => by_rule,
        };
        Terms {
            born: self.received.cast_signed() - self.initial_age().cast_signed(),
            lifetime,
            is_always_validated,
            is_never_stale,
            meanwhile: stale(directives.stale_while_revalidate, rules.meanwhile),
            on_error: stale(directives.stale_if_error, rules.on_error),
        }
    }

    /// `corrected_initial_age` (§4.2.3).
    fn initial_age(&self) -> u64 {
        let apparent_age = self.received.saturating_sub(self.date());
        let age_value = self.headers.get(header::AGE).and_then(age_of).unwrap_or(0);
        let response_delay = self.received.saturating_sub(self.asked);
        let corrected_age_value = age_value * 1000 + response_delay;
        apparent_age.max(corrected_age_value)
    }

    /// `Date`, or the time of arrival (RFC 9110 §6.6.1).
    fn date(&self) -> u64 {
        let date = self.headers.get(header::DATE).and_then(date_of);
        date.unwrap_or(self.received)
    }
}

impl Terms {
    /// The terms as numbers and flags, which [`Terms::of_parts`] takes.
    pub(super) fn to_parts(&self) -> ([u64; 4], u64) {
        let numbers = [
            self.born.cast_unsigned(),
            self.lifetime,
            self.meanwhile,
            self.on_error,
        ];
        let flags = u64::from(self.is_always_validated) | (u64::from(self.is_never_stale) << 1);
        (numbers, flags)
    }

    pub(super) const fn of_parts(numbers: [u64; 4], flags: u64) -> Self {
        let [born, lifetime, meanwhile, on_error] = numbers;
        Self {
            born: born.cast_signed(),
            lifetime,
            is_always_validated: flags & 1 != 0,
            is_never_stale: flags & 2 != 0,
            meanwhile,
            on_error,
        }
    }

    /// The age in milliseconds.
    const fn age(&self, now: u64) -> u64 {
        match now.cast_signed() - self.born {
            age @ 0.. => age.cast_unsigned(),
            // The clock was set back.
            _ => 0,
        }
    }

    /// `Age`, in seconds.
    pub(super) const fn age_seconds(&self, now: u64) -> u64 {
        self.age(now) / 1000
    }

    /// Seconds for which the response is still fresh; below 0 those since it was.
    pub(super) fn ttl(&self, now: u64) -> i64 {
        let lifetime = self.lifetime.cast_signed() / 1000;
        lifetime - self.age_seconds(now).cast_signed()
    }

    pub(super) const fn is_fresh(&self, now: u64) -> bool {
        !self.is_always_validated && self.age(now) < self.lifetime
    }

    /// How the response may answer a request with these directives (§4.2.4, §5.2.1).
    pub(super) fn reuse(&self, request: &Directives, now: u64) -> Reuse {
        let age = self.age(now);
        if self.is_always_validated
            || request.no_cache
            || request.max_age.is_some_and(|max| age > max * 1000 + 999)
        {
            return Reuse::Validate;
        }
        let min_fresh = request.min_fresh.unwrap_or(0) * 1000;
        if age + min_fresh < self.lifetime {
            return Reuse::Serve;
        }
        let staleness = age.saturating_sub(self.lifetime);
        if min_fresh > 0 && age < self.lifetime {
            return Reuse::Validate;
        }
        let max_stale = request.max_stale.filter(|_| !self.is_never_stale);
        if max_stale.is_some_and(|max| staleness <= max.saturating_mul(1000)) {
            return Reuse::Serve;
        }
        match staleness < self.meanwhile && request.max_age.is_none() && min_fresh == 0 {
            true => Reuse::ServeMeanwhile,
            false => Reuse::Validate,
        }
    }

    /// Whether the response may take the place of an error (RFC 5861 §4).
    pub(super) const fn replaces_errors(&self, now: u64) -> bool {
        !self.is_always_validated && self.age(now) < self.lifetime.saturating_add(self.on_error)
    }
}

/// Whether a status is an error that a stale response may take the place of (RFC 5861 §4).
pub(super) fn is_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502..=504)
}

/// The value of `Age`: the first element of a list, since servers may have sent several (RFC 9111 §5.1).
fn age_of(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?;
    delta(text.split(',').next()?.trim())
}

/// Milliseconds since 1970.
pub(super) fn date_of(value: &HeaderValue) -> Option<u64> {
    let date = httpdate::parse_http_date(value.to_str().ok()?).ok()?;
    Some(millis_of(date))
}

/// Milliseconds from 1970 to a time.
pub(super) fn millis_of(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Statuses of responses that are fresh for a time without saying so (RFC 9110 §15.1).
fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Statuses whose demands on caches this cache follows, since they have none.
fn is_understood(status: StatusCode) -> bool {
    is_heuristically_cacheable(status) || matches!(status.as_u16(), 302 | 303 | 307)
}

/// A day in milliseconds.
const MAX_HEURISTIC: u64 = 86_400_000;

#[cfg(test)]
mod tests;
