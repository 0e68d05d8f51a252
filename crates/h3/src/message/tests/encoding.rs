//! Messages that are written.

use super::*;

fn text(section: &Encoded<'_>) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let lines = section.fields();
    lines
        .map(|line| format!("{}={}", text(line.name), text(line.value)))
        .collect()
}

#[test]
fn encodes_requests() {
    let cases: &[(&str, Request<()>, &[&str])] = &[
        (
            "§4.3.1: Host is :authority, connection-specific fields are left out",
            Request::get("https://a.test/x?y")
                .header("host", "a.test")
                .header("connection", "te")
                .header("te", "gzip")
                .header("accept", "*/*")
                .body(())
                .unwrap(),
            &[
                ":method=GET",
                ":scheme=https",
                ":authority=a.test",
                ":path=/x?y",
                "accept=*/*",
            ],
        ),
        (
            "§4.3.1: an empty path",
            Request::get("https://a.test").body(()).unwrap(),
            &[
                ":method=GET",
                ":scheme=https",
                ":authority=a.test",
                ":path=/",
            ],
        ),
        (
            "§4.2: TE: trailers stays",
            Request::get("https://a.test/")
                .header("te", "trailers")
                .body(())
                .unwrap(),
            &[
                ":method=GET",
                ":scheme=https",
                ":authority=a.test",
                ":path=/",
                "te=trailers",
            ],
        ),
        (
            "§4.4: CONNECT",
            Request::connect("a.test:22").body(()).unwrap(),
            &[":method=CONNECT", ":authority=a.test:22"],
        ),
    ];
    for (name, request, want) in cases {
        let head = RequestHead::from(request.clone().into_parts().0);
        let section = encode::request(&head);
        let lines = text(&section);
        assert_eq!(lines, *want, "{name}");
        let size = lines.iter().map(|line| line.len() as u64 - 1 + 32);
        assert_eq!(section.size(), size.sum::<u64>(), "{name}");
    }
}
