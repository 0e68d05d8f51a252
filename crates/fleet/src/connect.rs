//! Connections to what the configuration names.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, TlsCertificates, Value, cmd,
};
use tokio::time::timeout;

use crate::config::FleetConfig;
use crate::fault::{Fault, FaultKind};
use crate::link::{Link, bytes, list};
use crate::store_url::{Place, Secret, StoreUrl};

/// Ports where a URL has none.
const STORE_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Who logs in where.
#[derive(Clone, Copy)]
struct Login<'a> {
    user: Option<&'a str>,
    password: Option<&'a Secret>,
    database: i64,
}

/// Connects anew. All of it takes `connect_timeout` for each URL at most.
pub(crate) async fn dial(config: &FleetConfig) -> Result<Link, Fault> {
    let password = config
        .password()
        .map_err(|text| Fault::new(FaultKind::Config, text))?;
    let dialer = Dialer {
        config,
        password,
        roots: roots(config)?,
    };
    match &config.sentinel {
        Some(name) => dialer.by_sentinels(name).await,
        None if config.cluster => dialer.cluster().await,
        None => dialer.single(&config.store[0], STORE_PORT).await,
    }
}

/// Roots that the configuration names.
fn roots(config: &FleetConfig) -> Result<Option<Vec<u8>>, Fault> {
    let Some(path) = &config.ca_file else {
        return Ok(None);
    };
    fs::read(path).map(Some).map_err(|error| {
        let path = path.display();
        Fault::new(
            FaultKind::Config,
            format!("`fleet.ca_file`, {path}, can't be read: {error}"),
        )
    })
}

struct Dialer<'a> {
    config: &'a FleetConfig,
    password: Option<Secret>,
    roots: Option<Vec<u8>>,
}

impl Dialer<'_> {
    /// The login at a store that `url` names itself.
    fn login<'a>(&'a self, url: &'a StoreUrl) -> Login<'a> {
        Login {
            user: self.config.user.as_deref().or(url.user.as_deref()),
            password: self.password.as_ref().or(url.password.as_ref()),
            database: url.database.unwrap_or(0),
        }
    }

    async fn single(&self, url: &StoreUrl, port: u16) -> Result<Link, Fault> {
        let connection = self.connection(url, port, self.login(url)).await?;
        Ok(Link::Single(connection))
    }

    async fn cluster(&self) -> Result<Link, Fault> {
        let place = self.config.place();
        let fault = |error: RedisError| Fault::of(&error, &place, self.config.timeout);
        let nodes: Vec<ConnectionInfo> = self
            .config
            .store
            .iter()
            .map(|url| info(url, STORE_PORT, self.login(url)).map_err(fault))
            .collect::<Result<_, _>>()?;
        let mut builder = ClusterClientBuilder::new(nodes)
            .connection_timeout(self.config.connect_timeout)
            .response_timeout(self.config.timeout)
            .retries(1);
        if let Some(roots) = &self.roots {
            builder = builder.certs(certificates(roots));
        }
        let client = builder.build().map_err(fault)?;
        let connection = self.in_time(&place, client.get_async_connection()).await?;
        Ok(Link::Cluster(Arc::new(connection)))
    }

    /// Asks one sentinel after the other for the primary's address.
    async fn by_sentinels(&self, name: &str) -> Result<Link, Fault> {
        let mut last = None;
        for sentinel in &self.config.store {
            match self.primary(sentinel, name).await {
                Ok(primary) => {
                    let login = Login {
                        user: self.config.user.as_deref(),
                        password: self.password.as_ref(),
                        database: sentinel.database.unwrap_or(0),
                    };
                    let connection = self.connection(&primary, STORE_PORT, login).await?;
                    return Ok(Link::Single(connection));
                }
                Err(fault) => last = Some(fault),
            }
        }
        Err(last.unwrap_or_else(|| Fault::new(FaultKind::Sentinel, "there is no sentinel")))
    }

    async fn primary(&self, sentinel: &StoreUrl, name: &str) -> Result<StoreUrl, Fault> {
        let login = Login {
            user: sentinel.user.as_deref(),
            password: sentinel.password.as_ref(),
            database: 0,
        };
        let mut connection = self.connection(sentinel, SENTINEL_PORT, login).await?;
        let mut ask = cmd("SENTINEL");
        ask.arg("get-master-addr-by-name").arg(name);
        let place = sentinel.to_string();
        let answer = connection.send_packed_command(&ask).await;
        let answer = answer.map_err(|error| Fault::of(&error, &place, self.config.timeout))?;
        if let Some(fault) = Fault::among([&answer], &place) {
            return Err(fault);
        }
        self.primary_of(&answer, sentinel).ok_or_else(|| {
            Fault::new(
                FaultKind::Sentinel,
                format!(
                    "the sentinel at {place} knows no primary `{name}`: correct `fleet.sentinel`, or have it \
                     watched"
                ),
            )
        })
    }

    fn primary_of(&self, answer: &Value, sentinel: &StoreUrl) -> Option<StoreUrl> {
        let [host, port] = list(answer) else {
            return None;
        };
        let text = |value| std::str::from_utf8(bytes(value)?).ok();
        Some(StoreUrl {
            place: Place::Net {
                host: text(host)?.to_owned(),
                port: Some(text(port)?.parse().ok()?),
                tls: self.config.is_tls(),
            },
            user: None,
            password: None,
            database: sentinel.database,
        })
    }

    async fn connection(
        &self,
        url: &StoreUrl,
        port: u16,
        login: Login<'_>,
    ) -> Result<MultiplexedConnection, Fault> {
        let place = url.to_string();
        let fault = |error: RedisError| Fault::of(&error, &place, self.config.timeout);
        let info = info(url, port, login).map_err(fault)?;
        let client = match (&self.roots, info.addr()) {
            (Some(roots), ConnectionAddr::TcpTls { .. }) => {
                Client::build_with_tls(info, certificates(roots))
            }
            _ => Client::open(info),
        };
        let client = client.map_err(fault)?;
        let limits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.config.connect_timeout))
            .set_response_timeout(Some(self.config.timeout));
        let connection = client.get_multiplexed_async_connection_with_config(&limits);
        self.in_time(&place, connection).await
    }

    async fn in_time<T>(
        &self,
        place: &str,
        connection: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, Fault> {
        // The login has no limit of its own, and neither has the search for a cluster's nodes.
        let limit: Duration = self.config.connect_timeout;
        match timeout(limit, connection).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) if !error.is_timeout() => Err(Fault::of(&error, place, limit)),
            Ok(Err(_)) | Err(_) => Err(self.slow(place, limit)),
        }
    }

    /// A store without TLS waits for the end of what it takes for a command.
    fn slow(&self, place: &str, limit: Duration) -> Fault {
        match self.config.is_tls() {
            false => Fault::slow(place, limit),
            true => Fault::slow_or_plain(place, limit),
        }
    }
}

fn certificates(roots: &[u8]) -> TlsCertificates {
    TlsCertificates {
        client_tls: None,
        root_cert: Some(roots.to_vec()),
    }
}

fn info(url: &StoreUrl, default_port: u16, login: Login<'_>) -> Result<ConnectionInfo, RedisError> {
    let address = match &url.place {
        Place::Unix(path) => ConnectionAddr::Unix(path.clone()),
        Place::Unreadable(error) => {
            let why = error.to_string();
            return Err((ErrorKind::InvalidClientConfig, "no URL", why).into());
        }
        Place::Net { host, port, tls } => {
            let (host, port) = (host.clone(), port.unwrap_or(default_port));
            match tls {
                false => ConnectionAddr::Tcp(host, port),
                true => ConnectionAddr::TcpTls {
                    host,
                    port,
                    insecure: false,
                    tls_params: None,
                },
            }
        }
    };
    let mut settings = RedisConnectionInfo::default().set_db(login.database);
    if let Some(user) = login.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = login.password {
        settings = settings.set_password(password.reveal());
    }
    Ok(address
        .into_connection_info()?
        .set_tcp_settings(TcpSettings::default().set_nodelay(true))
        .set_redis_settings(settings))
}
