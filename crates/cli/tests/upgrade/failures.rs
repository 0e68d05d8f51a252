//! New processes that can't serve, or die.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use hikyaku_testkit::{
    PATIENCE, Server, Site, binary, eventually, get, has, hikyaku, plain_http, this_test,
};
use rustix::process::{Signal, kill_process};

use super::load::{Ground, Load, assert_nothing_lost, under_load};
use super::support::{Upgradable, is_running, wait_gone};

const LIGHT: Load = Load {
    clients: 1,
    pause: Duration::from_millis(10),
};

/// Whether the command has failed with these words.
#[track_caller]
fn expect_refusal(upgradable: &Upgradable, words: &[&str]) {
    let output = upgradable.upgrade();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{text}");
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(upgradable.successors().is_empty(), "{text}");
}

#[test]
fn a_process_that_is_not_ready_changes_nothing() {
    let ground = Ground::start();
    let upgradable = &ground.upgradable;
    let program = binary();
    let scripts = [
        ("exit 7", "ended before it was ready (exit status: 7)"),
        ("kill -9 $$", "ended before it was ready (signal: 9"),
        (
            &*format!("exec {program} serve --set nonsense=1"),
            "unknown field `nonsense`",
        ),
        (
            &*format!(
                "exec {program} \"$@\" --set tls.cert=[\\\"/nowhere\\\"] --set tls.key=[\\\"/nowhere\\\"]"
            ),
            "/nowhere",
        ),
    ];
    let tallies = under_load(ground.address(), LIGHT, || {
        for (script, why) in scripts {
            upgradable.install(script);
            expect_refusal(upgradable, &["this process goes on", why]);
            thread::sleep(Duration::from_millis(200));
        }
        // Killed in the middle of its start.
        for delay in ["0.01", "0.03", "0.1"] {
            upgradable.install(&format!(
                "(sleep {delay}; kill -9 $$) & exec {program} \"$@\""
            ));
            let output = upgradable.upgrade();
            if output.status.success() {
                // The machine was fast, and the next test is about that.
                upgradable.server.wait_log("this one serves again");
                return;
            }
        }
    });
    if !upgradable.server.log().contains("this one serves again") {
        assert_nothing_lost(&tallies, &upgradable.server.log());
    }
    upgradable.reinstall();
    upgradable.replaced();
    assert_eq!(get(&[&upgradable.server.url("/")])[0]["status"], 200);
}

#[test]
fn the_former_process_serves_again_when_the_new_one_is_killed() {
    let ground = Ground::start();
    let upgradable = &ground.upgradable;
    let former = upgradable.serving();
    let mut kills = 0;
    let tallies = under_load(ground.address(), LIGHT, || {
        for _ in 0..3 {
            // Transfers that go on in the former process.
            thread::sleep(Duration::from_millis(1500));
            let new = upgradable.upgraded();
            kill_process(new, Signal::KILL).unwrap();
            kills += 1;
            eventually("the former process serves again", || {
                let again = upgradable
                    .server
                    .log()
                    .matches("this one serves again")
                    .count();
                (again == kills).then_some(())
            });
            for http in ["1.1", "2", "3"] {
                let url = upgradable.server.url("/");
                assert_eq!(
                    get(&["--http", http, &url])[0]["status"],
                    200,
                    "HTTP/{http}"
                );
            }
        }
    });
    // Requests that the killed process had taken are lost. Those of the former one go on.
    for (name, tally) in &tallies {
        assert!(tally.answered() > 0, "{name}");
        let refused = tally.lost().into_iter().find(|why| why.contains("refused"));
        assert_eq!(refused, None, "{name}");
    }
    assert!(is_running(former));
    // It can be upgraded still.
    eventually("an upgrade after it", || {
        upgradable.upgrade().status.success().then_some(())
    });
    wait_gone(former);
}

#[test]
fn one_upgrade_follows_the_other() {
    if !has(&this_test(), "curl") {
        return;
    }
    let site = Site::with_big_file(10_000_000);
    let upgradable = Upgradable::start(&[site.path(), "--set", "timeouts.drain=1h"]);
    let url = upgradable.server.url("/big.bin");
    let former = upgradable.serving();
    let mut slow = std::process::Command::new("curl")
        .args(["-sk", "--limit-rate", "100k", "-o", "/dev/null", &url])
        .spawn()
        .unwrap();
    upgradable
        .server
        .wait_metric("hikyaku_connections{version=\"h2\"}", 1.0);
    upgradable.upgraded();
    let output = upgradable.upgrade();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("still finishes its requests"), "{text}");
    assert!(is_running(former));
    slow.kill().unwrap();
    slow.wait().unwrap();
    wait_gone(former);
    upgradable.replaced();
}

#[test]
fn a_stop_ends_both_processes() {
    let site = Site::new(&[("index.html", b"start")]);
    let mut upgradable = Upgradable::start(&[site.path()]);
    let new = upgradable.upgraded();
    for pid in [new, upgradable.serving()] {
        let _ = kill_process(pid, Signal::TERM);
    }
    upgradable.server.wait_exit();
    wait_gone(new);
    let refused = std::net::TcpStream::connect(upgradable.server.address()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(!upgradable.server.log().contains("serves again"));
}

#[test]
fn a_signal_upgrades_too() {
    let site = Site::new(&[("index.html", b"start")]);
    let upgradable = Upgradable::start(&[site.path(), "--set", "admin.listen="]);
    let former = upgradable.serving();
    upgradable.server.signal(Signal::USR2);
    upgradable.server.wait_log("upgraded: process ");
    wait_gone(former);
    assert_eq!(get(&[&upgradable.server.url("/")])[0]["status"], 200);
}

#[test]
fn the_command_says_what_is_missing() {
    let output = hikyaku(&["upgrade", "--admin", "127.0.0.1:9"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("is the server running there?"), "{text}");
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let (status, _) = plain_http(server.admin, "GET", "/v1/upgrade", "", "");
    assert_eq!(status, 405);
    let alone = std::process::Command::new(binary())
        .args(["serve", site.path()])
        .env("HIKYAKU_UPGRADE", "1")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(alone.stderr).unwrap();
    assert!(!alone.status.success(), "{text}");
    assert!(text.contains("HIKYAKU_UPGRADE is set"), "{text}");
}

/// A reload cannot change them.
#[test]
fn an_upgrade_changes_the_addresses() {
    let site = Site::new(&[("index.html", b"start")]);
    let config = tempfile::NamedTempFile::new().unwrap();
    let write = |more: &str| {
        let text = format!("root = {:?}\n{more}", site.path());
        fs::write(config.path(), text).unwrap();
    };
    write("");
    let upgradable = Upgradable::start(&["--config", config.path().to_str().unwrap()]);
    write("[http]\nlisten = [\"127.0.0.1:0\"]\n");
    let output = hikyaku(&["reload", "--admin", &upgradable.server.admin.to_string()]);
    assert!(!output.status.success());
    upgradable.replaced();
    let log = upgradable.server.wait_log("redirecting");
    let address = log
        .split("redirecting")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next();
    let address = address.unwrap().parse().unwrap();
    let host = "Host: localhost\r\n";
    assert_eq!(plain_http(address, "GET", "/", host, "").0, 308);
}

/// Clients in the clear keep their connections, and new ones come to the new process.
#[test]
fn an_upgrade_hands_over_content_in_the_clear() {
    let site = Site::new(&[("index.html", b"start")]);
    let listen = "http.listen=[\"127.0.0.1:0\"]";
    let args = [site.path(), "--set", listen, "--set", "http.serve=content"];
    let upgradable = Upgradable::start(&args);
    let address = upgradable.server.cleartext[0];
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Its first request is under way.
    stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    upgradable.upgraded();
    stream.write_all(b"Host: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nstart"), "{answer}");
    let got = plain_http(address, "GET", "/", "Host: localhost\r\n", "");
    assert_eq!(got, (200, "start".to_owned()));
}
