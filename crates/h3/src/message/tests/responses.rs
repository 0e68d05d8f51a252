//! Responses and trailer sections.

use super::*;

#[test]
fn responses() {
    // (name, the request's method, fields, status and content)
    let cases: &[(&str, Method, Fields, Option<(u16, Content)>)] = &[
        (
            "§4.3.2: a status",
            Method::GET,
            &[(":status", "200")],
            Some((200, Content::Open)),
        ),
        ("§4.3.2: no status", Method::GET, &[("a", "b")], None),
        (
            "§4.3.2: two digits",
            Method::GET,
            &[(":status", "20")],
            None,
        ),
        (
            "§4.3.2: four digits",
            Method::GET,
            &[(":status", "2000")],
            None,
        ),
        ("§4.3.2: a sign", Method::GET, &[(":status", "+20")], None),
        (
            "§4.3.2: below 100",
            Method::GET,
            &[(":status", "099")],
            None,
        ),
        (
            "§4.3: twice",
            Method::GET,
            &[(":status", "200"), (":status", "200")],
            None,
        ),
        (
            "§4.3: a request's field",
            Method::GET,
            &[(":status", "200"), (":path", "/")],
            None,
        ),
        (
            "§4.3: after regular fields",
            Method::GET,
            &[("a", "b"), (":status", "200")],
            None,
        ),
        ("§4.5: 101", Method::GET, &[(":status", "101")], None),
        (
            "§4.1: interim",
            Method::GET,
            &[(":status", "103"), ("link", "</a>")],
            Some((103, Content::None)),
        ),
        (
            "§4.2: Connection",
            Method::GET,
            &[(":status", "200"), ("connection", "close")],
            None,
        ),
        (
            "§4.1.2: Content-Length",
            Method::GET,
            &[(":status", "200"), ("content-length", "5")],
            Some((200, Content::Length(5))),
        ),
        (
            "RFC 9110 §8.6: a sign",
            Method::GET,
            &[(":status", "200"), ("content-length", "+5")],
            None,
        ),
        (
            "RFC 9110 §9.3.2: HEAD",
            Method::HEAD,
            &[(":status", "200"), ("content-length", "5")],
            Some((200, Content::None)),
        ),
        (
            "RFC 9110 §15.3.5: 204",
            Method::GET,
            &[(":status", "204")],
            Some((204, Content::None)),
        ),
        (
            "RFC 9110 §15.4.5: 304",
            Method::GET,
            &[(":status", "304"), ("content-length", "5")],
            Some((304, Content::None)),
        ),
        (
            "§4.4: CONNECT",
            Method::CONNECT,
            &[(":status", "200")],
            Some((200, Content::Tunnel)),
        ),
        (
            "RFC 9110 §9.3.6: CONNECT refused",
            Method::CONNECT,
            &[(":status", "502"), ("content-length", "5")],
            Some((502, Content::Length(5))),
        ),
    ];
    for (name, method, lines, want) in cases {
        let context = Context {
            method: Some(method.clone()),
            ..Context::default()
        };
        let got = head::<response::Parts>(fields(&[lines]), &context);
        let got = got.map(|(head, content)| (head.status.as_u16(), content));
        assert_eq!(got.as_ref().ok(), want.as_ref(), "{name}");
        if let Err(error) = got {
            assert_eq!(error.code(), Code::MessageError, "{name}");
        }
    }
}

#[test]
fn trailer_sections() {
    let cases: &[(&str, Fields, bool)] = &[
        ("§4.1: fields", &[("a", "b"), ("c", "d")], true),
        ("§4.1: none", &[], true),
        ("§4.3: a pseudo-header field", &[(":path", "/")], false),
        ("§4.3: a status", &[(":status", "200")], false),
        (
            "§4.2: a connection-specific field",
            &[("connection", "close")],
            false,
        ),
        ("§4.2: an upper-case name", &[("A", "b")], false),
    ];
    for (name, lines, valid) in cases {
        let got = trailer_section(fields(&[lines]));
        assert_eq!(got.is_ok(), *valid, "{name}: {got:?}");
    }
}
