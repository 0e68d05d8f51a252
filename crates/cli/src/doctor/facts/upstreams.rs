//! Upstreams, and whether they take connections.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use hikyaku_edge::Config;
use hikyaku_edge::config::UpstreamsConfig;
use http::Uri;

/// The time for one address.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server that requests are passed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    pub(crate) url: String,
    /// Why it takes no connection.
    pub(crate) fault: Option<String>,
}

/// The upstreams of a configuration, each once.
pub(super) fn of(config: &Config) -> Vec<Upstream> {
    let sites = &config.sites;
    let routes = sites.iter().flat_map(|site| &site.routes);
    let of_routes = routes.chain(&config.routes).map(|route| &route.upstream);
    let of_sites = sites.iter().map(|site| &site.upstream);
    let groups = std::iter::once(&config.upstream)
        .chain(of_sites)
        .chain(of_routes);
    let urls: BTreeSet<_> = groups.flatten().flat_map(UpstreamsConfig::urls).collect();
    thread::scope(|scope| {
        let tries: Vec<_> = urls
            .into_iter()
            .map(|url| (url, scope.spawn(move || connect(url).err())))
            .collect();
        let upstream = |(url, tried): (&str, thread::ScopedJoinHandle<'_, _>)| Upstream {
            url: url.to_owned(),
            fault: tried.join().unwrap_or_default(),
        };
        tries.into_iter().map(upstream).collect()
    })
}

fn connect(url: &str) -> Result<(), String> {
    if let Some(path) = url.strip_prefix("unix:").or(url.strip_prefix("h2c+unix:")) {
        let path = path.strip_prefix("//").unwrap_or(path);
        return UnixStream::connect(path)
            .map(drop)
            .map_err(|e| e.to_string());
    }
    // A text that is no URL is an error of the configuration.
    let Ok(uri) = url.parse::<Uri>() else {
        return Ok(());
    };
    let Some(host) = uri.host() else {
        return Ok(());
    };
    let port = uri.port_u16().unwrap_or(match uri.scheme_str() {
        Some("https") => 443,
        _ => 80,
    });
    let host = host.trim_matches(['[', ']']);
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("looking up {host}: {error}"))?;
    connect_any(addresses).map_err(|error| error.to_string())
}

fn connect_any(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn upstreams_are_tried() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("app.sock");
        let _unix = UnixListener::bind(&socket).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", tcp.local_addr().unwrap());
        let socket = format!("unix:{}", socket.display());
        let mut config = Config {
            upstream: Some(vec![url.clone(), socket.clone(), url.clone()].into()),
            ..Config::default()
        };
        let upstream = |url: &str| Upstream {
            url: url.to_owned(),
            fault: None,
        };
        assert_eq!(of(&config), [upstream(&url), upstream(&socket)]);
        drop(tcp);
        config.upstream = Some(url.as_str().into());
        let fault = of(&config)[0].fault.clone().unwrap();
        assert!(fault.contains("refused"), "{fault}");
    }
}
