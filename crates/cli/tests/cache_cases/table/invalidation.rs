//! Invalidation by unsafe requests (RFC 9111 §4.4).

use crate::case::{
    Case, Step, answer, check, get, head, ok, optimal, required, send, stored, then,
};

const SECTION: &str = "RFC 9111 §4.4";
const HOUR: &str = "Cache-Control: max-age=3600";

fn unsafe_request(method: &'static str) -> Step {
    match method {
        "DELETE" => send(method),
        _ => send(method).content("a"),
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for method in ["POST", "PUT", "DELETE", "PATCH", "FOO"] {
        let name = method.to_ascii_lowercase();
        cases.push(required(
            format!("invalidated-by-{name}"),
            SECTION,
            format!("A response is not reused after a {method} to its URL"),
            then(stored(HOUR), [unsafe_request(method), get().asked()]),
        ));
        cases.push(optimal(
            format!("not-invalidated-by-{name}-500"),
            SECTION,
            format!("A response is reused after a {method} that failed"),
            then(
                stored(HOUR),
                [
                    unsafe_request(method).answered(answer(500, "")),
                    get().stored(),
                ],
            ),
        ));
    }
    for (name, status) in [("201", 201), ("204", 204), ("303", 303)] {
        cases.push(required(
            format!("invalidated-by-{name}"),
            SECTION,
            format!("A response is not reused after a POST that is answered by a {status}"),
            then(
                stored(HOUR),
                [
                    unsafe_request("POST").answered(answer(status, "Location: /elsewhere")),
                    get().asked(),
                ],
            ),
        ));
    }
    cases.extend(others());
    cases
}

fn others() -> Vec<Case> {
    let at = || {
        [
            get().at("/other").answered(ok(HOUR)),
            get().at("/other").stored().setup(),
        ]
    };
    let post = |line: &str| unsafe_request("POST").answered(answer(201, line));
    vec![
        check(
            "invalidated-location",
            SECTION,
            "The response of a URL that Location names is not reused",
            then(
                at(),
                [post("Location: {url}/other"), get().at("/other").asked()],
            ),
        ),
        check(
            "invalidated-content-location",
            SECTION,
            "The response of a URL that Content-Location names is not reused",
            then(
                at(),
                [
                    post("Content-Location: {url}/other"),
                    get().at("/other").asked(),
                ],
            ),
        ),
        required(
            "not-invalidated-elsewhere",
            SECTION,
            "A Location of another origin invalidates nothing there",
            then(
                [
                    get()
                        .at("/other")
                        .with("Host: other.test")
                        .answered(ok(HOUR)),
                    get().at("/other").with("Host: other.test").stored().setup(),
                ],
                [
                    post("Location: http://other.test{url}/other"),
                    get().at("/other").with("Host: other.test").stored(),
                ],
            ),
        ),
        required(
            "invalidated-variants",
            SECTION,
            "No variant of a response is reused after a POST",
            [
                get()
                    .with("Foo: 1")
                    .answered(ok(format!("{HOUR}\nVary: Foo"))),
                get().with("Foo: 1").stored().setup(),
                unsafe_request("POST").with("Foo: 2"),
                get().with("Foo: 1").asked(),
            ],
        ),
        optimal(
            "not-invalidated-query",
            SECTION,
            "A response is reused after a POST to its path with a query",
            then(
                stored(HOUR),
                [unsafe_request("POST").at("?a=1"), get().stored()],
            ),
        ),
        optimal(
            "not-invalidated-by-options",
            SECTION,
            "A response is reused after an OPTIONS request",
            then(stored(HOUR), [send("OPTIONS"), get().stored()]),
        ),
        optimal(
            "not-invalidated-by-head",
            SECTION,
            "A response is reused after a HEAD request",
            then(stored(HOUR), [head(), get().stored()]),
        ),
    ]
}
