//! Files that change while they are served.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use hikyaku_content::{FilesConfig, ReadError};
use http::Method;
use http_body_util::BodyExt;

use crate::support::*;

#[tokio::test]
async fn changes_are_seen_after_the_revalidation_time() {
    let fill = |root: &Path| {
        write(&root.join("a"), "one");
        write(&root.join("same"), "aaa");
    };
    let at_once = FilesConfig {
        revalidate: Duration::ZERO,
        ..FilesConfig::default()
    };
    let server = Server::new(&at_once, fill);
    let first = server.get("/a", &[]).await;
    assert_eq!(first.text(), "one");
    // The changes have the same length, and perhaps the same tick of the file system's clock.
    for round in 0..50 {
        let content = format!("{round:03}");
        write(&server.path("same"), &content);
        assert_eq!(server.get("/same", &[]).await.text(), content);
    }
    write(&server.path("a"), "two and more");
    let second = server.get("/a", &[]).await;
    assert_eq!(second.text(), "two and more");
    assert_ne!(first.header("etag"), second.header("etag"));
    write(&server.path("a.gz"), "gz");
    let coded = server.get("/a", &[("accept-encoding", "gzip")]).await;
    assert_eq!(
        (coded.text(), coded.header("vary")),
        ("gz", Some("accept-encoding"))
    );
    fs::remove_file(server.path("a.gz")).unwrap();
    assert_eq!(server.get("/a", &[]).await.header("vary"), None);
    fs::remove_file(server.path("a")).unwrap();
    assert_eq!(server.get("/a", &[]).await.status, 404);
    fs::create_dir(server.path("a")).unwrap();
    assert_eq!(server.get("/a", &[]).await.status, 301);

    let never = FilesConfig {
        revalidate: Duration::from_secs(3600),
        ..FilesConfig::default()
    };
    let server = Server::new(&never, fill);
    assert_eq!(server.get("/a", &[]).await.text(), "one");
    write(&server.path("a"), "two");
    assert_eq!(server.get("/a", &[]).await.text(), "one");

    let no_cache = FilesConfig {
        cache_entries: 0,
        ..FilesConfig::default()
    };
    let server = Server::new(&no_cache, fill);
    assert_eq!(server.get("/a", &[]).await.text(), "one");
    write(&server.path("a"), "two");
    assert_eq!(server.get("/a", &[]).await.text(), "two");
}

#[tokio::test]
async fn a_file_cut_short_while_it_is_sent_ends_in_an_error() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("big"), vec![1; 1 << 20]);
    });
    let mut body = server.send(Method::GET, "/big", &[]).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    File::options()
        .write(true)
        .open(server.path("big"))
        .unwrap()
        .set_len(300_000)
        .unwrap();
    let mut received = first.len();
    let error = loop {
        match body.frame().await.expect("an error before the end") {
            Ok(frame) => received += frame.into_data().unwrap().len(),
            Err(error) => break error,
        }
    };
    assert_eq!(received, 300_000);
    let missing = (1 << 20) - 300_000;
    let error = error.downcast::<ReadError>().unwrap();
    assert!(
        matches!(*error, ReadError::Truncated { missing: got } if got == missing),
        "{error}"
    );
    assert!(body.frame().await.is_none(), "nothing after the error");
}

#[tokio::test]
async fn a_file_that_grows_while_it_is_sent_keeps_its_announced_length() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("log"), vec![b'a'; 200_000]);
    });
    let response = server.send(Method::GET, "/log", &[]).await;
    let mut file = File::options()
        .append(true)
        .open(server.path("log"))
        .unwrap();
    std::io::Write::write_all(&mut file, &vec![b'b'; 200_000]).unwrap();
    let answer = Answer::of(response).await;
    assert_eq!(answer.body.len(), 200_000);
    assert!(answer.body.iter().all(|&byte| byte == b'a'));
}
