//! The grammar of Cache-Control (RFC 9111 §5.2).

use crate::case::{Case, check, no_reuse, optimal, required, reuse};

const GRAMMAR: &str = "RFC 9111 §5.2";
const UNKNOWN: &str = "RFC 9111 §5.2.3";
const DUPLICATES: &str = "RFC 9111 §4.2.1";
const LISTS: &str = "RFC 9110 §5.6.1.2";

pub(crate) fn cases() -> Vec<Case> {
    let reused = [
        (
            "case",
            GRAMMAR,
            "Names of directives are compared without case",
            "MaX-AgE=3600",
        ),
        (
            "unknown",
            UNKNOWN,
            "Unknown directives are ignored",
            "foo, max-age=3600, bar=baz",
        ),
        (
            "unknown-quoted",
            UNKNOWN,
            "Unknown directives may have quoted values",
            "foo=\"bar, no-store\", max-age=3600",
        ),
        (
            "escaped",
            UNKNOWN,
            "A quoted value may have an escaped quote",
            "foo=\"a\\\"b, no-store\", max-age=3600",
        ),
        (
            "empty-elements",
            LISTS,
            "Empty elements of the list are ignored",
            ", ,max-age=3600, ,",
        ),
        (
            "no-spaces",
            LISTS,
            "Elements need no spaces",
            "public,max-age=3600",
        ),
        (
            "tab",
            LISTS,
            "Elements may be separated by tabs",
            "public,\tmax-age=3600",
        ),
        (
            "leading-zeros",
            GRAMMAR,
            "A lifetime may begin with zeros",
            "max-age=003600",
        ),
        (
            "public",
            "RFC 9111 §5.2.2.9",
            "A public response is reused",
            "public, max-age=3600",
        ),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for (name, section, claim, value) in reused {
        cases.push(optimal(
            format!("directive-{name}"),
            section,
            claim,
            reuse(format!("Cache-Control: {value}")),
        ));
    }
    let refused = [
        (
            "in-quotes",
            GRAMMAR,
            "A directive in a quoted value is none",
            "foo=\"bar, max-age=3600\", max-age=0",
        ),
        (
            "in-quotes-after",
            GRAMMAR,
            "A directive in a quoted value after the true one is none",
            "max-age=0, foo=\"bar, max-age=3600\"",
        ),
        (
            "prefix",
            GRAMMAR,
            "A directive that ends like another is not that one",
            "xmax-age=3600, max-age=0",
        ),
        (
            "no-store-case",
            GRAMMAR,
            "no-store is compared without case",
            "No-StOrE, max-age=3600",
        ),
        (
            "no-cache-case",
            GRAMMAR,
            "no-cache is compared without case",
            "No-CaChE, max-age=3600",
        ),
        (
            "no-store-last",
            LISTS,
            "no-store counts as the last element",
            "max-age=3600,no-store",
        ),
    ];
    for (name, section, claim, value) in refused {
        cases.push(required(
            format!("directive-{name}"),
            section,
            claim,
            no_reuse(format!("Cache-Control: {value}")),
        ));
    }
    cases.extend([
        optimal(
            "directive-lines",
            LISTS,
            "The lines of the field are one list",
            reuse("Cache-Control: public\nCache-Control: max-age=3600"),
        ),
        required(
            "directive-lines-no-store",
            LISTS,
            "no-store counts in a line of its own",
            no_reuse("Cache-Control: max-age=3600\nCache-Control: no-store"),
        ),
        check(
            "directive-twice-fresh",
            DUPLICATES,
            "Of max-age=3600 and max-age=0 the first counts",
            reuse("Cache-Control: max-age=3600, max-age=0"),
        ),
        optimal(
            "directive-twice-stale",
            DUPLICATES,
            "Of max-age=0 and max-age=3600 the first counts",
            no_reuse("Cache-Control: max-age=0, max-age=3600"),
        ),
    ]);
    let open = [
        ("quoted", "A quoted lifetime is read", "max-age=\"3600\""),
        (
            "single-quotes",
            "A lifetime in single quotes is read",
            "max-age='3600'",
        ),
        (
            "space-before",
            "A space before the equals sign is taken",
            "max-age =3600",
        ),
        (
            "space-after",
            "A space after the equals sign is taken",
            "max-age= 3600",
        ),
        (
            "decimal",
            "A lifetime with a fraction is read",
            "max-age=3600.5",
        ),
        (
            "letters-after",
            "A lifetime with letters after it is read",
            "max-age=3600s",
        ),
        (
            "letters-before",
            "A lifetime with letters before it is read",
            "max-age=s3600",
        ),
        (
            "semicolon",
            "A semicolon separates directives",
            "max-age=3600; public",
        ),
    ];
    for (name, claim, value) in open {
        cases.push(check(
            format!("directive-{name}"),
            GRAMMAR,
            claim,
            reuse(format!("Cache-Control: {value}")),
        ));
    }
    cases
}
