//! The cases, by their subjects.

mod directives;
mod fields;
mod freshness;
mod invalidation;
mod keys;
mod methods;
mod ranges;
mod requests;
mod stale;
mod storing;
mod targeted;
mod updates;
mod validation;
mod vary;

use crate::case::Case;

/// All cases, with the names of their subjects.
pub(crate) fn subjects() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("Freshness", freshness::cases()),
        ("Parsing of directives", directives::cases()),
        ("What is stored", storing::cases()),
        ("Keys", keys::cases()),
        ("Vary", vary::cases()),
        ("Validation", validation::cases()),
        ("Updates by a 304", updates::cases()),
        ("Fields", fields::cases()),
        ("Methods", methods::cases()),
        ("Invalidation", invalidation::cases()),
        ("Ranges", ranges::cases()),
        ("Stale responses", stale::cases()),
        ("Requests' directives", requests::cases()),
        ("Directives for a CDN, and reports", targeted::cases()),
    ]
}
