//! Targets of requests (RFC 9114 §4.3.1).

use super::*;

#[test]
fn request_targets() {
    let cases: &[(&str, Fields, Option<&str>)] = &[
        ("§4.3.1: a GET", GET, Some("GET https://a.test/")),
        (
            "§4.3.1: any order",
            &[
                (":path", "/a?b"),
                (":authority", "a.test:8443"),
                (":method", "PURGE"),
                (":scheme", "http"),
            ],
            Some("PURGE http://a.test:8443/a?b"),
        ),
        (
            "§4.3.1: no :method",
            &[
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.3.1: no :scheme",
            &[(":method", "GET"), (":authority", "a.test"), (":path", "/")],
            None,
        ),
        (
            "§4.3.1: no :path",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
            ],
            None,
        ),
        (
            "§4.3.1: neither :authority nor Host",
            &[(":method", "GET"), (":scheme", "https"), (":path", "/")],
            None,
        ),
        (
            "§4.3.1: Host alone",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/"),
                ("host", "a.test"),
            ],
            Some("GET https://a.test/ host=a.test"),
        ),
        (
            "§4.3.1: an empty Host",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/"),
                ("host", ""),
            ],
            None,
        ),
        (
            "§4.3.1: an empty :authority",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", ""),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.3.1: an empty :path",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", ""),
            ],
            None,
        ),
        (
            "§4.3.1: a :path without a slash",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "a"),
            ],
            None,
        ),
        (
            "§4.3.1: a :path with a fragment",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/#a"),
            ],
            None,
        ),
        (
            "RFC 3986 §3.3: a :path with a space",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/a b"),
            ],
            None,
        ),
        (
            "§4.3.1: OPTIONS of the server",
            &[
                (":method", "OPTIONS"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "*"),
            ],
            Some("OPTIONS https://a.test*"),
        ),
        (
            "§4.3.1: an asterisk is of OPTIONS alone",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "*"),
            ],
            None,
        ),
        (
            "§4.3.1: userinfo",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "u@a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.3.1: a password",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "u:p@a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 3986 §3.2: an authority with a slash",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test/x"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 3986 §3.2: an authority without a host",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", ":443"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 9110 §9.1: an empty :method",
            &[
                (":method", ""),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 9110 §9.1: a :method that is no token",
            &[
                (":method", "G T"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 3986 §3.1: a :scheme that is none",
            &[
                (":method", "GET"),
                (":scheme", "ht tp"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.3.1: :scheme is not restricted",
            &[
                (":method", "GET"),
                (":scheme", "coap"),
                (":authority", "a.test"),
                (":path", "/x"),
            ],
            Some("GET coap://a.test/x"),
        ),
        (
            "§4.4: CONNECT",
            &[(":method", "CONNECT"), (":authority", "a.test:22")],
            Some("CONNECT a.test:22 (tunnel)"),
        ),
        (
            "§4.4: CONNECT without :authority",
            &[(":method", "CONNECT")],
            None,
        ),
        (
            "RFC 9110 §9.3.6: CONNECT without a port",
            &[(":method", "CONNECT"), (":authority", "a.test")],
            None,
        ),
        (
            "RFC 9110 §9.3.6: CONNECT to port 0",
            &[(":method", "CONNECT"), (":authority", "a.test:0")],
            None,
        ),
        (
            "§4.4: CONNECT with :path",
            &[
                (":method", "CONNECT"),
                (":authority", "a.test:22"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.4: CONNECT with :scheme",
            &[
                (":method", "CONNECT"),
                (":authority", "a.test:22"),
                (":scheme", "https"),
            ],
            None,
        ),
        ("no field at all", &[], None),
    ];
    for (name, lines, want) in cases {
        check(name, request(&[lines], &Context::default()), *want);
    }
}
