//! Parts of files (RFC 9110 §14).

use hikyaku_content::FilesConfig;
use hikyaku_units::ByteSize;

use crate::support::*;

#[tokio::test]
async fn ranges_are_cut_out_of_small_and_large_files() {
    let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    for (name, small_body) in [("kept in memory", 1 << 20), ("read", 0)] {
        let small_body = ByteSize::from_bytes(small_body);
        let config = FilesConfig {
            small_body,
            ..FilesConfig::default()
        };
        let server = Server::new(&config, |root| write(&root.join("f.bin"), &content));
        let cases: &[(&str, Option<(usize, usize)>)] = &[
            ("bytes=0-0", Some((0, 1))),
            ("bytes=0-499", Some((0, 500))),
            ("bytes=70000-140000", Some((70_000, 140_001))),
            ("bytes=199999-", Some((199_999, 200_000))),
            ("bytes=-5", Some((199_995, 200_000))),
            ("bytes=-900000", Some((0, 200_000))),
            ("bytes=100-18446744073709551615", Some((100, 200_000))),
            ("bytes=200000-", None),
            ("bytes=-0", None),
        ];
        for (range, want) in cases {
            let answer = server.get("/f.bin", &[("range", range)]).await;
            let content_range = answer.header("content-range").unwrap();
            match want {
                None => {
                    assert_eq!(
                        (answer.status, content_range),
                        (416, "bytes */200000"),
                        "{name}: {range}"
                    );
                }
                Some((start, end)) => {
                    assert_eq!(answer.status, 206, "{name}: {range}");
                    assert_eq!(
                        content_range,
                        format!("bytes {start}-{}/200000", end - 1),
                        "{name}"
                    );
                    assert_eq!(answer.body, content[*start..*end], "{name}: {range}");
                    let len = (end - start).to_string();
                    assert_eq!(
                        answer.header("content-length"),
                        Some(&*len),
                        "{name}: {range}"
                    );
                }
            }
        }
        for range in ["bytes=5-1", "lines=0-1", "bytes=0-,0-", "bytes=x"] {
            let answer = server.get("/f.bin", &[("range", range)]).await;
            assert_eq!(
                (answer.status, answer.body.len()),
                (200, 200_000),
                "{name}: {range}"
            );
            assert_eq!(
                answer.header("accept-ranges"),
                Some("bytes"),
                "{name}: {range}"
            );
        }
    }
}

#[tokio::test]
async fn several_ranges_come_as_multipart() {
    let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    for small_body in [1 << 20, 0] {
        let small_body = ByteSize::from_bytes(small_body);
        let config = FilesConfig {
            small_body,
            ..FilesConfig::default()
        };
        let server = Server::new(&config, |root| write(&root.join("f.png"), &content));
        let answer = server
            .get("/f.png", &[("range", "bytes=0-9,100000-170000,-3")])
            .await;
        assert_eq!(answer.status, 206);
        let content_type = answer.header("content-type").unwrap();
        let boundary = content_type
            .strip_prefix("multipart/byteranges; boundary=")
            .unwrap();
        let mut want = Vec::new();
        for part in [0..10, 100_000..170_001, 199_997..200_000] {
            let (first, last) = (part.start, part.end - 1);
            want.extend_from_slice(
                format!(
                    "\r\n--{boundary}\r\ncontent-type: image/png\r\n\
                     content-range: bytes {first}-{last}/200000\r\n\r\n"
                )
                .as_bytes(),
            );
            want.extend_from_slice(&content[part]);
        }
        want.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert!(answer.body == want, "parts as asked for");
        assert_eq!(
            answer.header("content-length"),
            Some(&*want.len().to_string())
        );
    }
}
