//! The memory for coded files.

use std::time::Duration;

use hikyaku_content::{CompressionConfig, FilesConfig};
use hikyaku_units::ByteSize;

use crate::support::*;

const LEN: usize = 40_000;

/// Each file takes about 20 KB under a coding, so that four or five fit.
fn tight() -> CompressionConfig {
    CompressionConfig {
        cache: ByteSize::from_kib(100),
        ..config()
    }
}

#[tokio::test]
async fn coded_files_take_no_more_memory_than_they_may() {
    let site = Site::of_files(files(), tight(), |root| {
        for number in 0..30 {
            let name = root.join(format!("{number}.txt"));
            std::fs::write(name, digits(LEN, number)).unwrap();
        }
    });
    let br = ("accept-encoding", "br");
    for number in 0..30 {
        let path = format!("/{number}.txt");
        let got = site.get(&path, &[br]).await;
        assert_eq!(got.header("content-encoding"), Some("br"), "{path}");
        assert!(got.body.len() > LEN / 3, "{path}");
        assert!(got.decoded() == digits(LEN, number).as_bytes(), "{path}");
        // This one is in use all the time.
        assert!(
            number == 0 || site.whole("/0.txt", "br").is_some(),
            "{path}"
        );
    }
    let kept = (0..30).filter_map(|number| site.whole(&format!("/{number}.txt"), "br"));
    let kept: Vec<_> = kept.collect();
    let bytes: usize = kept.iter().map(|file| file.content().len()).sum();
    assert!(
        kept.len() >= 2 && bytes <= 100 << 10,
        "{} files of {bytes} bytes",
        kept.len()
    );
    let again = site.get("/1.txt", &[br]).await;
    assert!(again.decoded() == digits(LEN, 1).as_bytes());
}

#[tokio::test]
async fn a_changed_file_is_coded_anew() {
    let looked_at = FilesConfig {
        revalidate: Duration::ZERO,
        ..FilesConfig::default()
    };
    let site = Site::of_files(looked_at, tight(), |_| {});
    let br = ("accept-encoding", "br");
    let mut former = None;
    for state in 0..10 {
        let len = LEN + state;
        site.write("a.txt", digits(len, 1));
        let got = site.get("/a.txt", &[br]).await;
        assert!(got.decoded() == digits(len, 1).as_bytes(), "{state}");
        let tag = got.header("etag").unwrap().to_owned();
        assert_ne!(former.replace(tag.clone()), Some(tag), "{state}");
    }
}
