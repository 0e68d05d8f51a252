//! `hikyaku demo`: clients on unlike networks load a page, live.

mod bridge;
mod networks;
mod page;
mod report;
mod unprivileged;
mod visitors;

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use hikyaku_emulator::interrupt;
use hikyaku_emulator::link::scratch::Scratch;
use hikyaku_emulator::link::{LinkError, privileges};
use hikyaku_emulator::topology::{Network, TopologySpec};
use hikyaku_units::duration;

use networks::{NETWORKS, SERVER};

/// The port of the server and of its admin page, within the network of the demo.
const PORT: u16 = 8443;
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8440);
/// The server's start.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two reports.
const REPORT: Duration = Duration::from_secs(20);

/// Options of `hikyaku demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Directory of the files to serve. Default: a page of twelve images, made for the demo.
    root: Option<PathBuf>,
    /// Address of the dashboard.
    #[arg(long, value_name = "ADDR:PORT", default_value_t = ADMIN)]
    admin: SocketAddr,
    /// Clients on each of the networks, 1 to 40.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=40))]
    clients: u8,
    /// Share of the clients that are held back, to compare the others with.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    holdback: f64,
    /// Set a configuration key of the server, such as policy.min_samples=8; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// End after this time; by default the demo ends by Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Draws the losses of the links.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The socket of the dashboard is standard input: this is the process within the user namespace.
    #[arg(long, hide = true)]
    listener_on_stdin: bool,
}

/// Runs the demo until its time is over, or somebody ends it.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    // Bound first: a port that is taken is an error before anything is built.
    let listener = match args.listener_on_stdin {
        true => unprivileged::listener()?,
        false => TcpListener::bind(args.admin)
            .with_context(|| format!("listening on {} for the dashboard", args.admin))?,
    };
    if let Err(error) = privileges::check() {
        if !args.listener_on_stdin && unprivileged::is_possible() {
            return Err(unprivileged::again(listener));
        }
        return Err(without_links(error));
    }
    interrupt::clean_up_when_asked_to_end()?;
    let scratch = Scratch::create(false)?;
    let root = match &args.root {
        Some(root) => root.clone(),
        None => page::make(scratch.path()).context("making the page")?,
    };
    let spec = TopologySpec::parse("demo", &networks::topology(args.clients))?;
    let mut network = Network::create(&spec)?;
    network.start_links(args.seed)?;
    let shown = show(args, listener, &Arc::new(network), &root, scratch.path());
    if let Err(error) = &shown {
        let _ = writeln!(io::stderr(), "error: {error:#}");
    }
    // Threads still use the network, and would not let it go.
    interrupt::clean_up();
    std::process::exit(i32::from(shown.is_err()));
}

/// Shows the clients until the time is over.
fn show(
    args: &DemoArgs,
    listener: TcpListener,
    network: &Arc<Network>,
    root: &Path,
    scratch: &Path,
) -> anyhow::Result<()> {
    let out = &mut io::stdout();
    let mut server = serve(args, network, root, scratch)?;
    let address = listener.local_addr()?;
    bridge::open(listener, Arc::clone(network), ADMIN)?;
    introduce(args, address, out)?;
    let news = visitors::start(network, args.clients, scratch)?;
    let begun = Instant::now();
    let mut due = begun + REPORT;
    while args.duration.is_none_or(|time| begun.elapsed() < time) {
        if let Ok(line) = news.recv_timeout(Duration::from_millis(200)) {
            writeln!(out, "{line}")?;
        }
        if let Some(status) = server.try_wait()? {
            bail!("the server has ended ({status}): {}", said(scratch));
        }
        if Instant::now() >= due {
            due = Instant::now() + REPORT;
            report::write(network, out)?;
        }
    }
    report::write(network, out)
}

/// Adds the user's other ways where links cannot be emulated.
fn without_links(error: LinkError) -> anyhow::Error {
    anyhow::Error::new(error).context(
        "emulating the networks of the demo (without them, `hikyaku lab sim` shows the choices in simulation, and \
         `hikyaku serve` serves your own browser)",
    )
}

/// Starts the server within its node, and waits until it answers.
fn serve(args: &DemoArgs, network: &Network, root: &Path, scratch: &Path) -> anyhow::Result<Child> {
    let node = network.node(SERVER).context("the server's node")?;
    let log = File::create(log_of(scratch)).context("making the server's log")?;
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command
        .arg("serve")
        .arg(root)
        .args(["--listen", &PORT.to_string(), "--admin", &ADMIN.to_string()])
        .args(["--set", "log.access=off", "--set", "policy.min_samples=4"])
        .args(["--set", &format!("policy.holdback={}", args.holdback)]);
    for set in &args.set {
        command.args(["--set", set]);
    }
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let mut server = node.spawn(&mut command)?.context("starting the server")?;
    let begun = Instant::now();
    while bridge::connect(network, ADMIN).is_err() {
        if let Some(status) = server.try_wait()? {
            bail!("the server does not start ({status}): {}", said(scratch));
        }
        if begun.elapsed() > PATIENCE {
            bail!("the server does not answer: {}", said(scratch));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(server)
}

fn log_of(scratch: &Path) -> PathBuf {
    scratch.join("server.log")
}

/// The end of what the server has said.
fn said(scratch: &Path) -> String {
    let log = std::fs::read_to_string(log_of(scratch)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

fn introduce(args: &DemoArgs, admin: SocketAddr, out: &mut dyn Write) -> io::Result<()> {
    let clients = usize::from(args.clients) * NETWORKS.len();
    writeln!(
        out,
        "{clients} emulated clients on {} networks load a page from one server, again and again. Programs, kernel and \
         packets are real; the links between them are emulated on this machine.",
        NETWORKS.len()
    )?;
    writeln!(out)?;
    for (index, network) in NETWORKS.iter().enumerate() {
        writeln!(
            out,
            "  {:<18} {}.0/24  {}",
            network.name,
            networks::subnet(index),
            network.about()
        )?;
    }
    let held = (args.holdback * 100.0).round();
    writeln!(out)?;
    writeln!(
        out,
        "{held} % of the clients are held back: they get what an ordinary server gives, to compare with."
    )?;
    writeln!(out, "Dashboard: http://{admin}/    End: Ctrl-C")?;
    writeln!(out)
}
