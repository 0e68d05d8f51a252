//! Video that a browser plays over HTTP/3: MP4 by ranges, and HLS by Media Source: `media.toml`.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use hikyaku_testkit::browser::{Browser, has_chromium};
use hikyaku_testkit::client::block_on;
use hikyaku_testkit::fetch::{Http, fetch};
use hikyaku_testkit::machine::Machine;
use hikyaku_testkit::{PATIENCE, Server, has, this_test};
use serde_json::{Value, json};

use crate::node_modules;

/// A page with helpers: each gives a promise of what it waits for.
const PAGE: &str = "<!doctype html><title>player</title><video muted playsinline></video>
<script src='/hls.js'></script><script>
  const video = document.querySelector('video');
  const until = (test) => new Promise((resolve, reject) => {
    const look = () => video.error ? reject(video.error.message) : test() && resolve();
    for (const name of ['timeupdate', 'ended', 'error']) video.addEventListener(name, look);
    look();
  });
  const state = () => ({ at: video.currentTime, of: video.duration, wide: video.videoWidth });
  const versionOf = async (path) => {
    await (await fetch(path, { cache: 'no-store' })).text();
    return performance.getEntriesByName(new URL(path, location).href).at(-1).nextHopProtocol;
  };
</script>";

/// Makes `film.mp4`, two megabytes a second, and an HLS stream of its beginning in up to four
/// segments.
fn film(machine: &Machine, seconds: &str) {
    let film = machine.path("srv/media/film.mp4");
    let hls = machine.path("srv/media/hls");
    fs::create_dir_all(&hls).unwrap();
    let noisy = "testsrc2=size=640x360:rate=25,noise=all_strength=60:allf=t";
    ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        noisy,
        "-f",
        "lavfi",
        "-i",
        "sine",
        "-t",
        seconds,
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-pix_fmt",
        "yuv420p",
        "-g",
        "25",
        "-b:v",
        "16M",
        "-c:a",
        "aac",
        "-movflags",
        "+faststart",
        &film,
    ]);
    let [segments, playlist] = ["%d.m4s", "film.m3u8"].map(|name| format!("{hls}/{name}"));
    ffmpeg(&[
        "-i",
        &film,
        "-t",
        "4",
        "-c",
        "copy",
        "-f",
        "hls",
        "-hls_time",
        "1",
        "-hls_segment_type",
        "fmp4",
        "-hls_playlist_type",
        "vod",
        "-hls_segment_filename",
        &segments,
        &playlist,
    ]);
}

fn ffmpeg(args: &[&str]) {
    let output = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-nostdin", "-y"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
}

/// An origin of a film of this length, which sends at most at this rate, or a skip.
fn origin(seconds: &str, rate: &str) -> Option<(Server, Machine)> {
    let test = this_test();
    if !has(&test, "ffmpeg") || !has(&test, "curl") {
        return None;
    }
    let player = node_modules()?.join("hls.js/dist/hls.light.min.js");
    let machine = Machine::new(&[
        ("srv/media/index.html", PAGE.as_bytes()),
        ("srv/media/hls.js", &fs::read(player).unwrap()),
    ]);
    film(&machine, seconds);
    let config = machine.configure("media.toml", &[]);
    let rate = format!("policy.max_pacing_rate={rate}");
    let server = Server::start(&[
        "--config",
        &config,
        "--set",
        "policy.version=h3",
        "--set",
        &rate,
    ]);
    Some((server, machine))
}

/// Opens the page, and waits until requests go over HTTP/3.
async fn open(server: &Server) -> Browser {
    let mut browser = Browser::start(server).await;
    browser.open("/").await;
    let moves = async {
        let version = "document.readyState === 'complete' && versionOf('/')";
        while browser.evaluate(version).await != json!("h3") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, moves).await.unwrap();
    browser
}

#[test]
fn a_browser_plays_mp4_and_seeks_by_ranges() {
    if !has_chromium(&this_test()) {
        return;
    }
    // Slower than loopback, so that the end is not there yet when it is asked for.
    let Some((server, _machine)) = origin("12", "18Mbps") else {
        return;
    };
    block_on(async {
        let mut browser = open(&server).await;
        let played = browser.evaluate(
            "(async () => {
                video.src = '/film.mp4';
                await video.play();
                await until(() => video.currentTime > 0.3);
                const begun = state();
                video.currentTime = video.duration - 1;
                await until(() => video.ended);
                return [begun, state()];
            })()",
        );
        let played = played.await;
        let [begun, ended] = [&played[0], &played[1]];
        assert_eq!(begun["wide"], 640, "{played}");
        assert!(begun["at"].as_f64().unwrap() < 5.0, "{played}");
        assert!(ended["at"].as_f64().unwrap() > 11.5, "{played}");
    });
    // The rest after the seek is a range of its own.
    let part = |line: &Value| line["path"] == "/film.mp4" && line["status"] == 206;
    hikyaku_testkit::eventually("two ranges over HTTP/3", || {
        let lines = server.access_lines();
        let lines = lines.iter().map(|line| serde_json::from_str(line).unwrap());
        let parts = lines.filter(part).filter(|line| line["version"] == "h3");
        (parts.count() >= 2).then_some(())
    });
}

#[test]
fn a_browser_plays_hls_to_its_end() {
    if !has_chromium(&this_test()) {
        return;
    }
    let Some((server, _machine)) = origin("4", "off") else {
        return;
    };
    block_on(async {
        let mut browser = open(&server).await;
        let played = browser.evaluate(
            "(async () => {
                const hls = new Hls();
                const failed = new Promise((_, reject) =>
                    hls.on(Hls.Events.ERROR, (_, error) => error.fatal && reject(error.details)));
                hls.loadSource('/hls/film.m3u8');
                hls.attachMedia(video);
                await Promise.race([new Promise(done => hls.on(Hls.Events.MANIFEST_PARSED, done)), failed]);
                await video.play();
                await Promise.race([until(() => video.ended), failed]);
                const entries = performance.getEntriesByType('resource');
                const segments = entries.filter(entry => entry.name.endsWith('.m4s'));
                return [state(), segments.map(entry => entry.nextHopProtocol)];
            })()",
        );
        let played = played.await;
        assert!(played[0]["at"].as_f64().unwrap() > 3.5, "{played}");
        let versions: Vec<String> = serde_json::from_value(played[1].clone()).unwrap();
        assert_eq!(versions, ["h3"; 4], "{played}");
    });
}

#[test]
fn playlists_and_segments_have_their_types_and_ages() {
    let Some((server, _machine)) = origin("1", "off") else {
        return;
    };
    // (path, media type, Cache-Control)
    let cases = [
        (
            "/hls/film.m3u8",
            "application/vnd.apple.mpegurl",
            "public, max-age=1",
        ),
        (
            "/hls/0.m4s",
            "video/iso.segment",
            "public, max-age=31536000, immutable",
        ),
        ("/film.mp4", "video/mp4", "public, max-age=86400"),
    ];
    for http in Http::ALL {
        for (path, media_type, age) in cases {
            let fields = ["range: bytes=0-3", "origin: https://player.example"];
            let part = fetch(http, &server, path, &fields);
            assert_eq!(part.status, 206, "{http:?} {path}");
            assert_eq!(part.body.len(), 4, "{http:?} {path}");
            assert_eq!(part.header("content-type"), Some(media_type), "{path}");
            assert_eq!(part.header("cache-control"), Some(age), "{path}");
            let allowed = part.header("access-control-allow-origin");
            assert_eq!(allowed, Some("*"), "{http:?} {path}");
        }
        let whole = fetch(http, &server, "/hls/film.m3u8", &["accept-encoding: gzip"]);
        assert!(whole.body.len() < 1024 || whole.header("content-encoding") == Some("gzip"));
    }
}
