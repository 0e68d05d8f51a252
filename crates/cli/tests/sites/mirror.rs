//! A mirror with files of several gigabytes, and the clients that people use: `mirror.toml`.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, Output, Stdio};

use hikyaku_testkit::fetch::{Http, curl, fetch};
use hikyaku_testkit::machine::Machine;
use hikyaku_testkit::{Server, has, noise, skip, this_test};
use sha2::{Digest, Sha256};

/// The size of the large file. Its length and offsets need more than 32 bits.
const LARGE: u64 = 5 << 30;
/// The size of a part with content.
const PART: usize = 100_000;
/// Offsets of the parts with content; all else is a hole. The first three cross the limits of signed
/// and unsigned numbers of 32 bits, and the last one ends the file.
const PARTS: [u64; 5] = [
    0,
    (1 << 31) - 50_000,
    (1 << 32) - 50_000,
    LARGE - 10_000_000,
    LARGE - PART as u64,
];
/// The size of a file without holes.
const IMAGE: usize = 24 << 20;

struct Mirror {
    server: Server,
    machine: Machine,
}

impl Mirror {
    /// Reports a skip, and returns nothing, where the programs are missing.
    fn start(programs: &[&str]) -> Option<Self> {
        let test = this_test();
        if !programs.iter().all(|name| has(&test, name)) {
            return None;
        }
        let image = noise(IMAGE);
        let sum = format!("{}  image.iso\n", sha256(&image));
        let machine = Machine::new(&[
            ("srv/mirror/image.iso", &image),
            ("srv/mirror/SHA256SUMS", sum.as_bytes()),
            ("srv/archive/old.iso", b"old"),
        ]);
        if let Err(error) = large(&machine.path("srv/mirror/large.iso")) {
            skip(&test, &format!("no file of {LARGE} bytes here: {error}"));
            return None;
        }
        let server = machine.start("mirror.toml", &[]);
        Some(Self { server, machine })
    }
}

/// Makes the large file.
fn large(path: &str) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.set_len(LARGE)?;
    for (number, offset) in PARTS.iter().enumerate() {
        file.seek(SeekFrom::Start(*offset))?;
        file.write_all(&noise(PART * (number + 1))[PART * number..])?;
    }
    Ok(())
}

fn sha256(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_at(path: &str, offset: u64, length: usize) -> Vec<u8> {
    let mut file = File::open(path).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    let mut content = vec![0; length];
    file.read_exact(&mut content).unwrap();
    content
}

fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{program}: {said}{printed}");
    output
}

#[test]
fn parts_beyond_four_gigabytes_have_the_right_sums() {
    let Some(mirror) = Mirror::start(&["curl"]) else {
        return;
    };
    let file = mirror.machine.path("srv/mirror/large.iso");
    for http in Http::ALL {
        for offset in PARTS {
            let range = format!("range: bytes={offset}-{}", offset + PART as u64 - 1);
            let part = fetch(http, &mirror.server, "/large.iso", &[&range]);
            assert_eq!(part.status, 206, "{http:?} {range}");
            let end = offset + PART as u64 - 1;
            let want = format!("bytes {offset}-{end}/{LARGE}");
            assert_eq!(part.header("content-range"), Some(&*want), "{http:?}");
            let want = read_at(&file, offset, PART);
            assert_eq!(sha256(&part.body), sha256(&want), "{http:?} {range}");
        }
        let suffix = fetch(http, &mirror.server, "/large.iso", &["range: bytes=-5"]);
        assert_eq!(suffix.body, read_at(&file, LARGE - 5, 5), "{http:?}");
        let beyond = format!("range: bytes={LARGE}-");
        let refused = fetch(http, &mirror.server, "/large.iso", &[&beyond]);
        assert_eq!(refused.status, 416, "{http:?}");
        let want = format!("bytes */{LARGE}");
        assert_eq!(refused.header("content-range"), Some(&*want), "{http:?}");
    }
    let listing = fetch(Http::H2, &mirror.server, "/", &[]);
    for name in ["large.iso", "image.iso", "SHA256SUMS"] {
        assert!(listing.text().contains(name), "{}", listing.text());
    }
}

/// Begins a download that has been interrupted five megabytes before its end. The first part is taken
/// as downloaded: its content is a hole there, as in the original.
fn interrupted(mirror: &Mirror) -> String {
    let path = mirror.machine.path("download.iso");
    let file = File::create(&path).unwrap();
    file.set_len(LARGE - 5_000_000).unwrap();
    path
}

#[test]
fn curl_and_wget_resume_beyond_four_gigabytes() {
    let Some(mirror) = Mirror::start(&["curl", "wget"]) else {
        return;
    };
    let url = mirror.server.url("/large.iso");
    let original = mirror.machine.path("srv/mirror/large.iso");
    let downloads: [(&str, &[&str]); 3] = [
        (
            "curl",
            &[
                "-q",
                "-sSkf",
                "--noproxy",
                "*",
                "--http1.1",
                "-C",
                "-",
                "-o",
            ],
        ),
        (
            "curl",
            &["-q", "-sSkf", "--noproxy", "*", "--http2", "-C", "-", "-o"],
        ),
        (
            "wget",
            &["-q", "--no-check-certificate", "--no-proxy", "-c", "-O"],
        ),
    ];
    for (program, args) in downloads {
        let path = interrupted(&mirror);
        run(program, &[args, &[&path, &url]].concat());
        assert_eq!(fs::metadata(&path).unwrap().len(), LARGE, "{program}");
        let (from, length) = (LARGE - 5_000_000, 5_000_000);
        let got = read_at(&path, from, length);
        assert!(got == read_at(&original, from, length), "{program}");
    }
}

#[test]
fn a_changed_file_is_not_resumed() {
    let Some(mirror) = Mirror::start(&["curl"]) else {
        return;
    };
    let before = fetch(
        Http::H2,
        &mirror.server,
        "/image.iso",
        &["range: bytes=0-9"],
    );
    let tag = before.header("etag").unwrap().to_owned();
    let date = before.header("last-modified").unwrap().to_owned();
    // A date counts once the file has rested (RFC 9110 §8.8.2.2).
    let dated = format!("if-range: {date}");
    hikyaku_testkit::eventually("a date that counts", || {
        let asks = ["range: bytes=10-12", &dated];
        let part = fetch(Http::H1, &mirror.server, "/image.iso", &asks);
        (part.status == 206).then_some(())
    });
    for http in Http::ALL {
        for condition in [&tag, &date] {
            let condition = format!("if-range: {condition}");
            let rest = ["range: bytes=10-19", &condition];
            let rest = fetch(http, &mirror.server, "/image.iso", &rest);
            assert_eq!(rest.status, 206, "{http:?} {condition}");
            assert_eq!(rest.body, &noise(20)[10..], "{http:?}");
        }
    }
    let path = mirror.machine.path("srv/mirror/image.iso");
    fs::write(&path, b"another image").unwrap();
    let condition = format!("if-range: {tag}");
    // The server sees it within `files.revalidate`.
    hikyaku_testkit::eventually("the changed file", || {
        let asks = ["range: bytes=10-12", &condition];
        let whole = fetch(Http::H1, &mirror.server, "/image.iso", &asks);
        (whole.status == 200).then(|| assert_eq!(whole.body, b"another image"))
    });
    for http in Http::ALL {
        let asks = ["range: bytes=10-12", &condition];
        let whole = fetch(http, &mirror.server, "/image.iso", &asks);
        assert_eq!((whole.status, whole.text()), (200, "another image"));
    }
}

#[test]
fn aria2_gets_a_file_by_parallel_ranges() {
    let Some(mirror) = Mirror::start(&["aria2c"]) else {
        return;
    };
    let dir = mirror.machine.path("downloads");
    let checksum = format!("sha-256={}", sha256(&noise(IMAGE)));
    run(
        "aria2c",
        &[
            "--no-conf=true",
            "--check-certificate=false",
            "--max-connection-per-server=8",
            "--split=8",
            "--min-split-size=1M",
            "--file-allocation=none",
            "--checksum",
            &checksum,
            "--dir",
            &dir,
            &mirror.server.url("/image.iso"),
        ],
    );
    assert!(fs::read(format!("{dir}/image.iso")).unwrap() == noise(IMAGE));
    let is_part = |line: &serde_json::Value| line["status"] == 206;
    mirror.server.wait_access("a part of the file", is_part);
    let parts = mirror.server.access_lines().len();
    assert!(parts >= 4, "{parts} requests");
}

#[test]
fn a_whole_image_has_the_sum_that_the_mirror_names() {
    let Some(mirror) = Mirror::start(&["curl", "sha256sum"]) else {
        return;
    };
    let dir = mirror.machine.path("whole");
    fs::create_dir(&dir).unwrap();
    for name in ["image.iso", "SHA256SUMS"] {
        let output = format!("{dir}/{name}");
        let got = curl(&["-f", "-o", &output, &mirror.server.url(&format!("/{name}"))]);
        assert!(got.status.success(), "{name}");
    }
    let checked = Command::new("sha256sum")
        .args(["--check", "SHA256SUMS"])
        .current_dir(&dir)
        .output()
        .unwrap();
    assert_eq!(checked.stdout, b"image.iso: OK\n");
}
