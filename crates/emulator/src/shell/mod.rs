//! `hikyaku lab shell`: a network for experiments by hand.

mod banner;
mod child;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::link::privileges::is_program;
use crate::link::{LinkError, Netns};
use crate::topology::{Network, SpecError, TopologySpec};
use child::Child;

/// Arguments of `hikyaku lab shell`.
#[derive(Clone, Debug, clap::Args)]
pub struct ShellArgs {
    /// Name of a shipped topology (pair, dumbbell, epe, fleet, two-paths), or a TOML file
    pub topology: String,
    /// Node to open the shell in [default: the first]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Seed of the links' losses and jitter
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write one CSV line for each packet of each link into this directory: LINK.csv
    #[arg(long, value_name = "DIR")]
    pub packet_log: Option<PathBuf>,
    /// Command to run in place of a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The reason why no shell ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// The topology could not be read.
    #[error("opening a shell")]
    Spec(#[from] SpecError),
    /// The network could not be built.
    #[error("building topology `{topology}`")]
    Network {
        /// The topology's name, as on the command line.
        topology: String,
        /// The cause.
        #[source]
        source: LinkError,
    },
    /// The topology has no such node.
    #[error("opening a shell in node `{node}`: topology `{topology}` has only {nodes}")]
    NoNode {
        /// The node's name, as on the command line.
        node: String,
        /// The topology's name, as on the command line.
        topology: String,
        /// The nodes of the topology.
        nodes: String,
    },
    /// The shell or command could not be started or waited for.
    #[error("running `{}` inside a node", command.display())]
    Command {
        /// The program.
        command: OsString,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The directory of packet logs could not be created.
    #[error("creating {} for packet logs", directory.display())]
    PacketLog {
        /// The directory, as on the command line.
        directory: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A link failed, or a packet log could not be written.
    #[error("stopping the links")]
    Stop(#[source] LinkError),
    /// The output could not be written.
    #[error("writing the instructions for the network")]
    Write(#[from] io::Error),
}

/// Builds the network, starts its links, and runs a shell or a command inside a node. Then it
/// removes everything. Returns the exit status of the command, or 128 and the signal's number if a
/// signal ended it.
///
/// SIGINT, SIGTERM and SIGHUP are passed on to the command, except that a Ctrl-C of the terminal
/// reaches it anyway. A command that does not end within two seconds of SIGTERM or SIGHUP is
/// killed.
///
/// # Errors
/// If the topology is wrong or cannot be built, or the command cannot be run.
pub fn run(args: &ShellArgs, out: &mut dyn Write) -> Result<u8, ShellError> {
    let spec = TopologySpec::load(&args.topology)?;
    let node = choose_node(args, &spec)?;
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let program = args.command.first().unwrap_or(&shell);
    let failed = |source| ShellError::Command {
        command: program.clone(),
        source,
    };

    // Before anything is built, since the message of `ip netns exec` is less clear.
    if !is_program(program) {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    let child = Child::prepare().map_err(failed)?;
    let mut network = build(args, &spec)?;
    let netns = network
        .node(node)
        .ok_or_else(|| no_node(args, node, &spec))?;
    let mut command = netns.command(program);
    command.args(args.command.iter().skip(1));
    describe(&mut command, &network, args, node);
    if args.command.is_empty() {
        set_prompt(&mut command, program, node);
        banner::write(out, &spec, &network, node)?;
    }
    network
        .begin_changes()
        .map_err(|source| not_built(args, source))?;
    let status = child.run(&mut command).map_err(failed)?;
    for (name, report) in network.stop_links().map_err(ShellError::Stop)? {
        // A command has the output to itself.
        if args.command.is_empty() {
            banner::end(out, name, &report)?;
        }
    }
    Ok(status)
}

fn choose_node<'a>(args: &'a ShellArgs, spec: &'a TopologySpec) -> Result<&'a str, ShellError> {
    let Some(name) = &args.node else {
        // A topology has at least one node.
        return Ok(spec.nodes.first().map_or("", |node| node.name.as_str()));
    };
    match spec.nodes.iter().any(|node| node.name == *name) {
        true => Ok(name),
        false => Err(no_node(args, name, spec)),
    }
}

fn no_node(args: &ShellArgs, node: &str, spec: &TopologySpec) -> ShellError {
    let names: Vec<&str> = spec.nodes.iter().map(|node| node.name.as_str()).collect();
    ShellError::NoNode {
        node: node.to_owned(),
        topology: args.topology.clone(),
        nodes: names.join(", "),
    }
}

fn build(args: &ShellArgs, spec: &TopologySpec) -> Result<Network, ShellError> {
    if let Some(directory) = &args.packet_log {
        std::fs::create_dir_all(directory).map_err(|source| ShellError::PacketLog {
            directory: directory.clone(),
            source,
        })?;
    }
    let build = || {
        let mut network = Network::create(spec)?;
        if let Some(directory) = &args.packet_log {
            network.log_packets(directory);
        }
        network.start_links(args.seed)?;
        Ok(network)
    };
    build().map_err(|source| not_built(args, source))
}

fn not_built(args: &ShellArgs, source: LinkError) -> ShellError {
    ShellError::Network {
        topology: args.topology.clone(),
        source,
    }
}

/// Puts the command's node and each node's namespace into its environment: `NETNS_SERVER1`.
fn describe(command: &mut Command, network: &Network, args: &ShellArgs, node: &str) {
    command.env("HIKYAKU_LAB_TOPOLOGY", &args.topology);
    command.env("HIKYAKU_LAB_NODE", node);
    for (name, netns) in network.nodes() {
        let name = name.to_ascii_uppercase().replace('-', "_");
        command.env(format!("NETNS_{name}"), Netns::name(netns));
    }
}

/// Makes the prompt show the node.
fn set_prompt(command: &mut Command, shell: &OsStr, node: &str) {
    let mark = format!("[lab: {node}]");
    if Path::new(shell).file_name() == Some(OsStr::new("bash")) {
        // After the shell's start files, which set a prompt of their own.
        let once = format!("PS1=\"{mark} $PS1\"; unset PROMPT_COMMAND");
        command.env("PROMPT_COMMAND", once);
    } else {
        command.env("PS1", format!("{mark} $ "));
    }
}
