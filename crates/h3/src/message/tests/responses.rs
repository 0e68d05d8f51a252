//! Responses, and the content that may follow.

use super::*;

#[test]
fn responses() {
    // (name, the request's method, fields, status and content)
    let cases: &[(&str, Method, Fields, (u16, Content))] = &[
        (
            "§4.3.2: a status",
            Method::GET,
            &[(":status", "200")],
            (200, Content::Open),
        ),
        (
            "§4.1: interim",
            Method::GET,
            &[(":status", "103"), ("link", "</a>")],
            (103, Content::None),
        ),
        (
            "§4.1.2: Content-Length",
            Method::GET,
            &[(":status", "200"), ("content-length", "5")],
            (200, Content::Length(5)),
        ),
        (
            "RFC 9110 §9.3.2: HEAD",
            Method::HEAD,
            &[(":status", "200"), ("content-length", "5")],
            (200, Content::None),
        ),
        (
            "RFC 9110 §15.3.5: 204",
            Method::GET,
            &[(":status", "204")],
            (204, Content::None),
        ),
        (
            "RFC 9110 §15.4.5: 304",
            Method::GET,
            &[(":status", "304"), ("content-length", "5")],
            (304, Content::None),
        ),
        (
            "§4.4: CONNECT",
            Method::CONNECT,
            &[(":status", "200")],
            (200, Content::Tunnel),
        ),
        (
            "RFC 9110 §9.3.6: CONNECT refused",
            Method::CONNECT,
            &[(":status", "502"), ("content-length", "5")],
            (502, Content::Length(5)),
        ),
    ];
    for (name, method, lines, want) in cases {
        let context = Context {
            method: Some(method.clone()),
            ..Context::default()
        };
        let got = head::<response::Parts>(&fields(&[lines]), &context);
        let got = got.map(|(head, content)| (head.status.as_u16(), content));
        assert_eq!(got.as_ref(), Ok(want), "{name}");
    }
}
