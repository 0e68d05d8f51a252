//! The server's use of the congestion controls, and their removal.

use super::*;

#[test]
fn the_servers_connections_follow_the_policy() {
    let Some(_alone) = alone() else { return };
    if load().is_none() {
        return;
    }
    let site = Site::with_big_file(300_000);
    let config = Path::new(site.path()).join("edge.toml");
    let write = |floor: &str| {
        std::fs::write(&config, format!("[policy]\nmin_cwnd = \"{floor}\"\n")).unwrap();
    };
    write("100xMSS");
    let server = Server::start(&[site.path(), "--config", config.to_str().unwrap()]);
    let seen = || {
        let filter = format!("sport = :{}", server.port());
        let mut ss = Command::new("ss");
        let output = ss.args(["-tinH"]).args(filter.split(' ')).output().unwrap();
        see(&String::from_utf8(output.stdout).unwrap())
    };
    client::block_on(async {
        let mut client = client::H2::connect(server.address()).await.unwrap();
        client.get("/big.bin").await.unwrap();
        let first = seen();
        assert!(first.control.starts_with("hk_cubic_"), "{first:?}");
        // Segments of loopback are large.
        assert!(first.cwnd >= 3, "{first:?}");
        write("off");
        server.signal(Signal::HUP);
        let begun = Instant::now();
        while seen().control != "cubic" {
            assert!(begun.elapsed() < PATIENCE, "{:?}", seen());
            client.get("/big.bin").await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

/// Our names in the kernel's present list.
fn offered() -> Vec<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let all = std::fs::read_to_string(path).unwrap();
    all.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn two_servers_have_controls_of_their_own_and_leave_none_behind() {
    let Some(_alone) = alone() else { return };
    let (Some(one), Some(two)) = (load(), load()) else {
        return;
    };
    let names = [one.name(FLOOR), two.name(FLOOR)];
    assert_ne!(names[0], names[1]);
    assert!(
        names.iter().all(|name| offered().contains(name)),
        "{names:?}"
    );
    // A child of another test may hold the programs until it runs its own.
    let gone = |name: &String| (!offered().contains(name)).then_some(());
    drop(one);
    eventually("the first server's controls are gone", || gone(&names[0]));
    assert!(offered().contains(&names[1]));
    drop(two);
    eventually("the second server's controls are gone", || gone(&names[1]));
}

#[test]
fn a_killed_server_leaves_nothing_behind() {
    let Some(_alone) = alone() else { return };
    if load().is_none() {
        return;
    }
    let site = Site::with_big_file(300_000);
    let server = Server::start(&[site.path(), "--set", "policy.min_cwnd=256xMSS"]);
    let log = server.wait_log("TCP congestion controls: ");
    let said = log.split("TCP congestion controls: ").nth(1).unwrap();
    let name = said.split([',', '\n']).next().unwrap().to_owned();
    assert!(offered().contains(&name), "{name} in {:?}", offered());
    let fetched = get(&["--http", "2", &server.url("/big.bin")]);
    assert!(
        fetched.iter().any(|record| record["body_bytes"] == 300_000),
        "{fetched:?}"
    );
    server.signal(Signal::KILL);
    eventually("the name is free again", || {
        (!offered().contains(&name)).then_some(())
    });
}

#[test]
fn without_capabilities_everything_else_works() {
    let Some(_alone) = alone() else { return };
    let site = Site::with_big_file(300_000);
    let drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let floor = ["--set", "policy.min_cwnd=256xMSS"];
    let plain = Server::try_start_by(&drop, &[site.path()]).unwrap();
    let pinned = Server::try_start_by(&drop, &[&[site.path()], &floor[..]].concat()).unwrap();
    for (server, said) in [
        (&plain, "TCP without window floors"),
        (&pinned, "policy.min_cwnd can't be held on TCP"),
    ] {
        for http in ["1.1", "2", "3"] {
            let fetched = get(&["--http", http, &server.url("/big.bin")]);
            let whole = fetched.iter().any(|record| record["body_bytes"] == 300_000);
            assert!(whole, "{http}: {fetched:?}");
        }
        let log = server.log();
        assert_eq!(log.matches(said).count(), 1, "{log}");
        assert_eq!(log.matches("CAP_BPF and CAP_PERFMON").count(), 1, "{log}");
    }
    assert!(
        pinned
            .log()
            .contains("holds QUIC's congestion window at 373760 bytes")
    );
}

#[test]
fn the_kernel_holds_little_of_http2_unsent() {
    if !has("the_kernel_holds_little_of_http2_unsent", "ss") {
        return;
    }
    let site = Site::with_big_file(20_000_000);
    let server = Server::start(&[site.path()]);
    let filter = format!("sport = :{}", server.port());
    let unsent = || {
        let mut ss = Command::new("ss");
        let output = ss.args(["-tinH"]).args(filter.split(' ')).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let words = text.split_whitespace();
        let of = words.filter_map(|word| word.strip_prefix("notsent:")?.parse::<u64>().ok());
        of.max()
    };
    client::block_on(async {
        let tls = client::tls(server.address(), &["h2"]).await.unwrap();
        let mut settings = h2::client::Builder::new();
        settings
            .initial_window_size(64 << 20)
            .initial_connection_window_size(64 << 20);
        let (mut requests, connection) = settings.handshake::<_, Bytes>(tls).await.unwrap();
        let _driving = tokio::spawn(connection);
        let request = http::Request::get("https://localhost/big.bin");
        let (response, _) = requests
            .send_request(request.body(()).unwrap(), true)
            .unwrap();
        let _response = response.await.unwrap();
        // The runtime stands still now, so that no task reads and the socket fills.
        eventually("a full socket", || unsent().filter(|&bytes| bytes > 0));
        thread::sleep(Duration::from_millis(500));
        let bytes = unsent().unwrap();
        assert!(bytes < 640 * 1024, "{bytes}");
    });
}
