//! Listings of directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use hikyaku_content::FilesConfig;
use http::Method;

use crate::support::*;

#[tokio::test]
async fn a_listing_shows_served_entries_alone() {
    let config = FilesConfig {
        listing: true,
        ..FilesConfig::default()
    };
    let server = Server::new(&config, |root| {
        write(&root.join("d/<script>alert('x')</script>&\"/x"), "");
        write(&root.join("d/z dir/x"), "");
        write(&root.join("d/b.txt"), "12345");
        write(&root.join("d/a#?.txt"), "");
        write(&root.join("d/javascript:alert(1)"), "");
        write(&root.join("d/.hidden"), "");
        write(&root.join("d").join(OsStr::from_bytes(b"caf\xe9")), "");
        symlink("b.txt", root.join("d/link")).unwrap();
        symlink("/etc/passwd", root.join("d/out")).unwrap();
        symlink("absent", root.join("d/broken")).unwrap();
        set_modified(&root.join("d/b.txt"), 0);
        write(&root.join("with/index.html"), "index");
    });
    let answer = server.get("/d/", &[]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let page = answer.text();
    let hrefs: Vec<_> = page
        .split("href=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(
        hrefs,
        [
            "../",
            "./%3Cscript%3Ealert%28%27x%27%29%3C/",
            "./z%20dir/",
            "./a%23%3F.txt",
            "./b.txt",
            "./caf%E9",
            "./javascript%3Aalert%281%29",
            "./link",
        ]
    );
    assert!(!page.contains("<script"), "{page}");
    assert!(
        page.contains("<td>5<td>Thu, 01 Jan 1970 00:00:00 GMT"),
        "{page}"
    );
    assert!(page.contains("<title>/d/</title>"), "{page}");
    assert!(
        !page.contains("hidden") && !page.contains("passwd"),
        "{page}"
    );
    for href in &hrefs[1..] {
        let status = server.get(&format!("/d/{}", &href[2..]), &[]).await.status;
        assert_eq!(status, 200, "{href}");
    }
    assert_eq!(server.get("/with/", &[]).await.text(), "index");
    let root = server.get("/", &[]).await;
    assert!(!root.text().contains("../"), "{}", root.text());
    assert!(root.text().contains("<title>/</title>"), "{}", root.text());
    let head = Answer::of(server.send(Method::HEAD, "/d/", &[]).await).await;
    assert_eq!(
        head.header("content-length"),
        Some(&*answer.body.len().to_string())
    );
}
