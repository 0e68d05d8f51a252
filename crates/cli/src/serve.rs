//! `hikyaku serve`.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use hikyaku_edge::tls::Source;
use hikyaku_edge::{Config, Server};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// Options of `hikyaku serve`; each overrides its key in the configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Directory whose files are served.
    root: Option<PathBuf>,
    /// Server that requests are passed to, instead of serving files:
    /// http://HOST:PORT, https://HOST or h2c://HOST:PORT.
    #[arg(long, value_name = "URL", conflicts_with = "root")]
    upstream: Option<String>,
    /// Address to serve on, TCP and UDP; may be given several times. `[::]` takes IPv4, too.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// PEM file of the certificate chain; self-signed if not given. May be given several times, for
    /// keys of different kinds.
    #[arg(long, value_name = "PEM", requires = "key")]
    cert: Vec<PathBuf>,
    /// PEM file of the certificate's private key; as often as --cert.
    #[arg(long, value_name = "PEM", requires = "cert")]
    key: Vec<PathBuf>,
    /// Address of the admin page, API and metrics.
    #[arg(long, value_name = "ADDR:PORT")]
    admin: Option<SocketAddr>,
    /// Configuration file (TOML); conf/edge.toml shows every key.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory where what is learnt of clients is kept; otherwise it is lost at the end.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Sets a configuration key, such as policy.version=h2; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Writes the self-signed certificate to this file, for clients to trust.
    #[arg(long, value_name = "PEM", conflicts_with = "cert")]
    write_cert: Option<PathBuf>,
}

impl ServeArgs {
    /// The configuration, as the file and the options say it now.
    fn config(&self) -> anyhow::Result<Config> {
        let mut config = Config::load(self.config.as_deref(), &self.set)?;
        if let Some(root) = &self.root {
            config.root = Some(root.clone());
            config.upstream = None;
        }
        if let Some(upstream) = &self.upstream {
            config.upstream = Some(upstream.clone());
            config.root = None;
        }
        if !self.listen.is_empty() {
            config.listen.clone_from(&self.listen);
        }
        if !self.cert.is_empty() {
            config.tls.cert.clone_from(&self.cert);
            config.tls.key.clone_from(&self.key);
        }
        if let Some(admin) = self.admin {
            config.admin.listen.0 = Some(admin);
        }
        if let Some(state) = &self.state {
            config.state.dir = Some(state.clone());
        }
        Ok(config)
    }
}

type LevelHandle = reload::Handle<EnvFilter, Registry>;

/// Serves until a signal ends it.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let config = args.config()?;
    let level = start_log(&config.log.level)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting threads")?;
    runtime.block_on(serve(args, config, &level))
}

async fn serve(args: &ServeArgs, config: Config, level: &LevelHandle) -> anyhow::Result<()> {
    // Before anything is served, so that none is missed.
    let mut signals = Signals::new().context("handling signals")?;
    let server = Server::start(config)?;
    if let Some(path) = &args.write_cert {
        std::fs::write(path, server.certificate().pem())
            .with_context(|| format!("writing the certificate to {}", path.display()))?;
    }
    write!(io::stderr(), "{}", greeting(&server))?;
    while let Some(Event::Reload) = signals.next().await {
        match reload(args, &server, level) {
            Ok(()) => tracing::info!("configuration reloaded"),
            Err(error) => {
                tracing::error!("configuration refused, the former stays in force: {error:#}");
            }
        }
    }
    tracing::info!("stopping: requests in flight are answered; a second signal stops at once");
    tokio::select! {
        cut = server.stop() => match cut {
            0 => tracing::info!("stopped; every request was answered"),
            cut => tracing::warn!("stopped; {cut} connections were cut after timeouts.drain"),
        },
        _ = signals.end() => tracing::warn!("stopped at once"),
    }
    Ok(())
}

fn reload(args: &ServeArgs, server: &Server, level: &LevelHandle) -> anyhow::Result<()> {
    let read = || {
        let config = args.config()?;
        let filter = filter(&config.log.level)?;
        Ok::<_, anyhow::Error>((config, filter))
    };
    let (config, filter) = read().inspect_err(|_| server.count_refused_reload())?;
    server.reload(config)?;
    level.reload(filter).context("changing the log level")
}

enum Event {
    Reload,
    End,
}

struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            _ = self.hangup.recv() => Some(Event::Reload),
            _ = self.interrupt.recv() => Some(Event::End),
            _ = self.terminate.recv() => Some(Event::End),
        }
    }

    /// Waits for a signal that ends the server.
    async fn end(&mut self) {
        while let Some(Event::Reload) = self.next().await {}
    }
}

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    level.parse().with_context(|| {
        format!("reading log.level `{level}`: expected error, warn, info, debug or a filter")
    })
}

fn start_log(level: &str) -> anyhow::Result<LevelHandle> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    tracing_subscriber::registry()
        .with(filter)
        .with(
            fmt::layer()
                .with_writer(io::stderr)
                .with_ansi(io::stderr().is_terminal())
                .with_target(false),
        )
        .try_init()
        .context("starting the log")?;
    Ok(handle)
}

/// Where to look, and what to try next.
fn greeting(server: &Server) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "  {label:<12} {value}");
    };
    let port = server.addresses().first().map_or(0, SocketAddr::port);
    for address in server.addresses() {
        let mptcp = if server.mptcp() { ", MPTCP" } else { "" };
        line(
            "serving",
            format!("{address} (TCP{mptcp}: HTTP/1.1 and 2; UDP: HTTP/3)"),
        );
    }
    line("open", format!("https://localhost:{port}/"));
    if let Some(admin) = server.admin() {
        line("admin", format!("http://{admin}/"));
    }
    let kind = match server.certificate().source() {
        Source::Files(pairs) => {
            let certs: Vec<_> = pairs.iter().map(|pair| pair.cert.display()).collect();
            certs
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        }
        Source::SelfSigned { .. } => "self-signed".to_owned(),
    };
    line("certificate", kind);
    for certificate in server.certificate().descriptions() {
        line(
            "",
            format!("{}, SHA-256 {}", certificate.key, certificate.fingerprint),
        );
        line(
            "",
            format!("public key (SPKI) SHA-256 {}", certificate.spki),
        );
    }
    line(
        "state",
        server.store().map_or_else(
            || "in memory: what is learnt is lost at the end (--state DIR keeps it)".to_owned(),
            |path| path.display().to_string(),
        ),
    );
    line("try", format!("curl -k https://localhost:{port}/"));
    // As it was called: what was just built is not on anybody's PATH.
    let called = std::env::args_os().next();
    let program = called.unwrap_or_else(|| "hikyaku".into());
    let program = program.display();
    line(
        "",
        format!("{program} get --insecure --repeat 3 https://localhost:{port}/"),
    );
    if let Some(admin) = server.admin() {
        line("", format!("{program} explain 127.0.0.1 --admin {admin}"));
    }
    format!("hikyaku {}\n{text}", env!("CARGO_PKG_VERSION"))
}
