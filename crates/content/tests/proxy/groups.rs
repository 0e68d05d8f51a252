//! Groups of upstreams: who gets a request, and who does not.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::mortal::{Mortal, nobody};
use crate::support::{Edge, eventually, get, raw_upstream, read, reason};
use crate::websocket::websocket_upstream;
use futures_util::{SinkExt, StreamExt};
use hikyaku_content::{Body, ProxyConfig};
use http::{HeaderValue, Response, header};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

/// Settings under which an upstream is back soon.
fn soon() -> ProxyConfig {
    ProxyConfig {
        avoid_min: Duration::from_millis(50),
        avoid_max: Duration::from_millis(100),
        slow_start: Duration::from_millis(100),
        ..ProxyConfig::default()
    }
}

fn from(response: &Response<Body>) -> String {
    response.headers()["x-from"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_loss_of_one_of_three_costs_no_get_and_it_comes_back() {
    let mut lost = Mortal::start().await;
    let others = [Mortal::start().await, Mortal::start().await];
    let urls = [lost.url(), others[0].url(), others[1].url()];
    let edge = Arc::new(Edge::of_group(&urls, &soon()));
    let done = Arc::new(AtomicUsize::new(0));
    let clients = [(); 20].map(|()| {
        let (edge, done) = (Arc::clone(&edge), Arc::clone(&done));
        tokio::spawn(async move {
            while done.load(Relaxed) < 3000 {
                let response = edge.get("/").await;
                assert_eq!(response.status(), 200, "{}", reason(&response));
                read(response).await;
                done.fetch_add(1, Relaxed);
            }
        })
    });
    eventually("load", || (done.load(Relaxed) >= 1000).then_some(())).await;
    assert!(lost.seen().len() > 200, "each has its part");
    lost.kill().await;
    for client in clients {
        client.await.unwrap();
    }
    let status = edge.status(&lost.url());
    assert!(!status.is_up && status.failures >= 3, "{status:?}");
    assert_eq!(status.under_way, 0);
    assert!(status.repeats > 0 && status.repeats <= status.failures);

    let back = Mortal::at(lost.address).await;
    while !edge.status(&back.url()).is_up {
        assert_eq!(edge.get("/").await.status(), 200);
    }
    tokio::time::sleep(soon().slow_start).await;
    let before = back.seen().len();
    for _ in 0..300 {
        assert_eq!(edge.get("/").await.status(), 200);
    }
    let part = back.seen().len() - before;
    assert!((50..150).contains(&part), "{part} of 300");
}

#[tokio::test]
async fn a_request_beyond_the_most_goes_elsewhere_or_gets_503() {
    let hangs = raw_upstream(|stream, _| async move {
        let _open = stream;
        pending::<()>().await;
    })
    .await;
    let url = format!("http://{hangs}");
    let config = ProxyConfig {
        max_requests: 1,
        ..ProxyConfig::default()
    };
    let alone = Arc::new(Edge::new(&url, &config));
    let first = Arc::clone(&alone);
    let first = tokio::spawn(async move { first.get("/").await });
    eventually("a request under way", || {
        (alone.status(&url).under_way == 1).then_some(())
    })
    .await;
    let refused = alone.get("/").await;
    assert_eq!(refused.status(), 503);
    assert!(reason(&refused).contains("proxy.max_requests"));
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(alone.status(&url).under_way, 0);

    let other = Mortal::start().await;
    let edge = Arc::new(Edge::of_group(&[url.clone(), other.url()], &config));
    let requests = [(); 8].map(|()| {
        let edge = Arc::clone(&edge);
        tokio::spawn(async move { edge.get("/").await.status() })
    });
    let stuck = || (edge.status(&url).under_way == 1).then_some(());
    eventually("a request that hangs", stuck).await;
    let is_free = || (edge.status(&other.url()).under_way == 0).then_some(());
    eventually("the others' end", is_free).await;
    for _ in 0..10 {
        assert_eq!(edge.get("/").await.status(), 200);
    }
    requests.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_session_stays_with_its_upstream_as_long_as_that_is_there() {
    let mut lost = Mortal::start().await;
    let others = [Mortal::start().await, Mortal::start().await];
    let urls = [lost.url(), others[0].url(), others[1].url()];
    let config = ProxyConfig {
        balance: "hash:cookie:session".parse().unwrap(),
        ..ProxyConfig::default()
    };
    let edge = Edge::of_group(&urls, &config);
    let visit = async |session: usize| {
        let mut request = get("/");
        let cookie = HeaderValue::try_from(format!("a=b; session={session}")).unwrap();
        request.headers_mut().insert(header::COOKIE, cookie);
        let response = edge.send(request).await;
        assert_eq!(response.status(), 200);
        from(&response)
    };
    let mut homes = HashMap::new();
    for session in 0..60 {
        homes.insert(session, visit(session).await);
    }
    for (session, home) in &homes {
        assert_eq!(visit(*session).await, *home);
    }
    let of_lost = homes
        .values()
        .filter(|home| **home == lost.address.to_string());
    assert!((10..30).contains(&of_lost.count()));
    lost.kill().await;
    for (session, home) in &homes {
        let now = visit(*session).await;
        assert_ne!(now, lost.address.to_string());
        assert!(
            now == *home || *home == lost.address.to_string(),
            "{session}"
        );
        assert_eq!(visit(*session).await, now, "{session}");
    }
}

#[tokio::test]
async fn a_websocket_passes_through_a_group_and_counts_until_its_end() {
    let (gone, there) = (nobody().await, websocket_upstream().await);
    let urls = [gone, there].map(|address| format!("http://{address}"));
    let edge = Edge::of_group(&urls, &ProxyConfig::default());
    let address = edge.listen().await;
    for _ in 0..5 {
        let stream = TcpStream::connect(address).await.unwrap();
        let connecting = tokio_tungstenite::client_async("ws://site.example/chat", stream);
        let (mut socket, _) = connecting.await.unwrap();
        socket.send(Message::text("hello")).await.unwrap();
        assert_eq!(
            socket.next().await.unwrap().unwrap(),
            Message::text("hello")
        );
        assert_eq!(edge.status(&urls[1]).under_way, 1);
        socket.close(None).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
        drop(socket);
        let ended = || (edge.status(&urls[1]).under_way == 0).then_some(());
        eventually("the tunnel's end", ended).await;
    }
    assert!(edge.status(&urls[0]).failures > 0, "it was asked, too");
}
