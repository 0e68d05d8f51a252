//! `hikyaku serve`.

mod log;
mod notify;
mod upgrade;

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use hikyaku_edge::config::ListenAddress;
use hikyaku_edge::tls::Source;
use hikyaku_edge::{Config, Order, Origin, Server, Successor};
use tokio::signal::unix::{Signal, SignalKind, signal};

use log::Log;
use upgrade::After;

/// Options of `hikyaku serve`; each overrides its key in the configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Directory of the files to serve.
    root: Option<PathBuf>,
    /// Upstream server that answers the requests, instead of files: http://HOST:PORT, https://HOST,
    /// h2c://HOST:PORT or unix:/PATH. May be given several times, for servers that answer the same
    /// requests.
    #[arg(long, value_name = "URL", conflicts_with = "root")]
    upstream: Vec<String>,
    /// Address to serve on, TCP and UDP; may be given several times. A port alone stands for all
    /// addresses, IPv6 and IPv4.
    #[arg(long, value_name = "[ADDR:]PORT")]
    listen: Vec<ListenAddress>,
    /// PEM file of the certificate chain. Default: a self-signed certificate. May be given several
    /// times, for keys of different kinds.
    #[arg(long, value_name = "PEM", requires = "key")]
    cert: Vec<PathBuf>,
    /// PEM file of the certificate's private key; once for each --cert.
    #[arg(long, value_name = "PEM", requires = "cert")]
    key: Vec<PathBuf>,
    /// Address of the admin page, API and metrics.
    #[arg(long, value_name = "ADDR:PORT")]
    admin: Option<ListenAddress>,
    /// Configuration file (TOML); `hikyaku config` prints every key.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory for the measurements of clients; without it they are lost at the end.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Set a configuration key, such as policy.version=h2; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write the self-signed certificate to this file, for clients to trust.
    #[arg(long, value_name = "PEM", conflicts_with = "cert")]
    write_cert: Option<PathBuf>,
}

impl ServeArgs {
    /// Reads the configuration from the file and the options.
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let mut config = Config::load(self.config.as_deref(), &self.set)?;
        if let Some(root) = &self.root {
            config.root = Some(root.clone());
            config.upstream = None;
        }
        if !self.upstream.is_empty() {
            config.upstream = Some(self.upstream.clone().into());
            config.root = None;
        }
        if !self.listen.is_empty() {
            config.listen.clone_from(&self.listen);
        }
        if !self.cert.is_empty() {
            config.tls.cert.clone_from(&self.cert);
            config.tls.key.clone_from(&self.key);
        }
        if let Some(admin) = &self.admin {
            config.admin.listen.0 = Some(admin.clone());
        }
        if let Some(state) = &self.state {
            config.state.dir = Some(state.clone());
        }
        Ok(config)
    }
}

/// Checks what the log of a configuration shows.
pub(crate) fn check_level(config: &Config) -> anyhow::Result<()> {
    log::filter(&config.log.level).map(drop)
}

/// The time for which the end waits for disks that do not answer.
const BLOCKED: Duration = Duration::from_secs(1);

/// Serves until a signal ends the server.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    hikyaku_edge::set_commit(crate::version::COMMIT);
    let origin = Origin::of_process()?;
    let reporter = origin.reporter();
    let served = run_from(args, origin);
    if let (Some(reporter), Err(error)) = (reporter, &served) {
        reporter.failed(format!("{error:#}"));
    }
    served
}

fn run_from(args: &ServeArgs, origin: Origin) -> anyhow::Result<()> {
    let config = args.config()?;
    let log = Log::start(&config.log.level)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting threads")?;
    let served = runtime.block_on(serve(args, config, origin, &log));
    runtime.shutdown_timeout(BLOCKED);
    served
}

async fn serve(args: &ServeArgs, config: Config, origin: Origin, log: &Log) -> anyhow::Result<()> {
    // Registered before anything is served, so that no signal is missed.
    let mut signals = Signals::new().context("handling signals")?;
    let server = Server::start_from(config, origin)?;
    if let Some(path) = &args.write_cert {
        std::fs::write(path, server.certificate().pem())
            .with_context(|| format!("writing the certificate to {}", path.display()))?;
    }
    log.print(&greeting(&server));
    notify::ready("serving");
    loop {
        let watching = notify::watch(server.pulse());
        let successor = work(args, &server, log, &mut signals).await;
        if let Some(watching) = watching {
            watching.abort();
        }
        let Some(successor) = successor else {
            return stop(server, &mut signals).await;
        };
        if let After::Left = upgrade::leave(&server, successor, &mut signals).await {
            server.end().await;
            return Ok(());
        }
        server.take_back().await?;
        tracing::error!("the new process has died: this one serves again");
        notify::main_process(std::process::id());
        notify::ready("serving again: the process of an upgrade has died");
    }
}

/// Does what signals and the admin API ask for, until the server is to stop or, as the result says, another
/// process serves.
async fn work(
    args: &ServeArgs,
    server: &Server,
    log: &Log,
    signals: &mut Signals,
) -> Option<Successor> {
    loop {
        let (event, demand) = tokio::select! {
            event = signals.next() => (event, None),
            Some(demand) = server.next_demand() => (Event::of(demand.order()), Some(demand)),
        };
        let outcome = match event {
            Event::End => return None,
            Event::Reload => reload(args, server, log).map(|()| None),
            Event::Upgrade => upgrade::begin(server).await.map(Some),
        };
        let (successor, answer) = match outcome {
            Ok(successor) => (successor, Ok(())),
            Err(why) => (None, Err(why)),
        };
        if let Some(demand) = demand {
            demand.answer(answer);
        }
        if successor.is_some() {
            return successor;
        }
    }
}

async fn stop(server: Server, signals: &mut Signals) -> anyhow::Result<()> {
    notify::stopping();
    tracing::info!("stopping: requests in flight are answered; a second signal stops at once");
    tokio::select! {
        cut = server.stop() => match cut {
            0 => tracing::info!("stopped; every request was answered"),
            cut => tracing::warn!("stopped; {cut} connections were cut after timeouts.drain"),
        },
        () = signals.end() => tracing::warn!("stopped at once"),
    }
    Ok(())
}

/// Reads the configuration again. The error is the reason of a refusal.
fn reload(args: &ServeArgs, server: &Server, log: &Log) -> Result<(), String> {
    notify::reloading();
    match try_reload(args, server, log) {
        Ok(()) => {
            tracing::info!("configuration reloaded");
            notify::ready("serving");
            Ok(())
        }
        Err(error) => {
            let why = format!("{error:#}");
            tracing::error!("configuration refused, the former stays in force: {why}");
            notify::ready("serving by the former configuration: a new one was refused");
            Err(format!(
                "configuration refused, the former stays in force: {why}"
            ))
        }
    }
}

fn try_reload(args: &ServeArgs, server: &Server, log: &Log) -> anyhow::Result<()> {
    let read = || {
        let config = args.config()?;
        let filter = log::filter(&config.log.level)?;
        Ok::<_, anyhow::Error>((config, filter))
    };
    let (config, filter) = read().inspect_err(|_| server.count_refused_reload())?;
    server.reload(config)?;
    log.set_level(filter)
}

enum Event {
    Reload,
    Upgrade,
    End,
}

impl Event {
    const fn of(order: Order) -> Self {
        match order {
            Order::Reload => Self::Reload,
            Order::Upgrade => Self::Upgrade,
        }
    }
}

struct Signals {
    hangup: Signal,
    upgrade: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.hangup.recv() => Event::Reload,
            _ = self.upgrade.recv() => Event::Upgrade,
            _ = self.interrupt.recv() => Event::End,
            _ = self.terminate.recv() => Event::End,
        }
    }

    /// Waits for a signal that ends the server.
    async fn end(&mut self) {
        while let Event::Reload | Event::Upgrade = self.next().await {}
    }
}

/// Sites that are named at the start.
const SITES: usize = 8;

/// The addresses of the server, and commands to try next.
fn greeting(server: &Server) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "  {label:<12} {value}");
    };
    for address in server.addresses() {
        let mptcp = if server.mptcp() { ", MPTCP" } else { "" };
        line(
            "serving",
            format!("{address} (TCP{mptcp}: HTTP/1.1 and 2; UDP: HTTP/3)"),
        );
    }
    for address in server.cleartext() {
        match server.serves_in_clear() {
            true => line("in the clear", format!("{address} (TCP: HTTP/1.1 and 2)")),
            false => line(
                "redirecting",
                format!("{address} (HTTP in the clear) to https"),
            ),
        }
    }
    let host = server.host();
    let (scheme, port) = match (server.addresses(), server.cleartext()) {
        ([], [first, ..]) => ("http", first.port()),
        (served, _) => ("https", served.first().map_or(0, SocketAddr::port)),
    };
    let url = format!("{scheme}://{host}:{port}/");
    line("open", url.clone());
    match &server.sites()[..] {
        [] => {}
        sites if sites.len() <= SITES => line("sites", sites.join(", ")),
        sites => {
            let (shown, others) = sites.split_at(SITES);
            let shown = shown.join(", ");
            line("sites", format!("{shown} and {} others", others.len()));
        }
    }
    if let Some(admin) = server.admin() {
        line("admin", format!("http://{admin}/"));
    }
    if !server.addresses().is_empty() {
        describe_certificate(server, &mut line);
    }
    line(
        "state",
        server.store().map_or_else(
            || "in memory: measurements are lost at the end (--state DIR keeps them)".to_owned(),
            |path| path.display().to_string(),
        ),
    );
    let resolve = match &*host {
        "localhost" => String::new(),
        host => format!("--resolve {host}:{port}:127.0.0.1 "),
    };
    line("try", format!("curl -k {resolve}{url}"));
    // The program as it was called, since a fresh build is not on the PATH.
    let called = std::env::args_os().next();
    let program = called.unwrap_or_else(|| "hikyaku".into());
    let program = program.display();
    if scheme == "https" {
        line(
            "",
            format!("{program} get --insecure {resolve}--repeat 3 {url}"),
        );
    }
    if let Some(admin) = server.admin() {
        line("", format!("{program} explain 127.0.0.1 --admin {admin}"));
    }
    format!("hikyaku {}\n{text}", env!("CARGO_PKG_VERSION"))
}

/// The server's certificate, by which its own clients know it.
fn describe_certificate(server: &Server, line: &mut impl FnMut(&str, String)) {
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
        Source::Acme { names, .. } => {
            let names = names.join(", ");
            match server.certificate().is_self_signed() {
                true => format!("by ACME for {names}; self-signed until there is one"),
                false => format!("by ACME for {names}"),
            }
        }
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
}
