// Command hikyaku-egress is the BGP, SRv6 and MPTCP control plane of hikyaku. It has the
// agents of border routers and content servers, flow statistics, and a view of the paths.
// Run it with --help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hikyaku/egress/agent"
	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

const usage = `Usage: hikyaku-egress COMMAND [OPTIONS]

The egress plane of hikyaku: uses all BGP paths out of an AS, by SRv6.

Commands:
  border   the agent of a border router
  server   the agent of a content server
  check    check the configuration and this machine, and name what to do
  flows    count what leaves by SRv6 SID and inner 5-tuple (SRv6 FlowStats)
  paths    show and drain the paths of a running agent
  status   show its sessions, refused routes, RPKI caches and problems
  show     show the routes of a running agent's paths, also those not used
  why      explain how packets to a client may leave
  reload   have a running agent read its configuration again
  version  print the version

hikyaku-egress COMMAND --help shows the options of each.
`

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// usageError is a mistake of the caller, as opposed to a failure of the program.
type usageError struct{ error }

// run executes one command and returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"border": runAgent(config.RoleBorder), "server": runAgent(config.RoleServer),
		"check": runCheck, "flows": runFlows, "paths": runPaths, "status": runStatus, "reload": runReload, "show": runShow, "why": runWhy,
		"version": printVersion, "--version": printVersion,
	}
	if len(args) == 0 {
		fmt.Fprint(errs, usage)
		return exitUsage
	}
	if args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
		fmt.Fprint(out, usage)
		return 0
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(errs, "error: there is no command %q\n\n%s", args[0], usage)
		return exitUsage
	}
	return report(command(ctx, args[1:], out, errs), args[0], errs)
}

// report prints an error with a hint where one is known, and gives the exit code.
func report(err error, command string, errs io.Writer) int {
	var wrong usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(errs, "error: %s\nhint: hikyaku-egress %s --help shows the options\n", err, command)
		return exitUsage
	}
	fmt.Fprintf(errs, "error: %s\n", err)
	if hint := hintFor(err); hint != "" {
		fmt.Fprintf(errs, "hint: %s\n", hint)
	}
	return exitFailure
}

// hintFor names the remedy for an error.
func hintFor(err error) string {
	var problems *config.Errors
	var dial *net.OpError
	var listen *agent.ListenError
	var file *fs.PathError
	errors.As(err, &file)
	switch {
	case errors.As(err, &problems):
		return "conf/egress-border.toml and conf/egress-server.toml explain every key"
	case errors.Is(err, kernel.ErrForeign):
		return "the agent never overwrites what others made; `ip route show table all` and `ip rule` show whose it is"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "is the agent running, and is `api.socket` the one that it has?"
	case errors.As(err, &listen):
		return hintForListening(listen)
	case errors.Is(err, unix.EADDRINUSE):
		return "another program has the port: give this one another"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return hintAddress
	case file != nil && strings.HasPrefix(file.Path, "/proc/sys/"):
		return hintForSysctl(err)
	case file != nil && errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("is the path %s right?", file.Path)
	case file != nil && errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("the user that this runs as may not use %s", file.Path)
	case errors.Is(err, fs.ErrPermission):
		return hintPrivileges
	}
	return ""
}

const (
	hintAddress    = "no interface of this host has the address, or not yet: `ip address` shows those that there are"
	hintPrivileges = "run as root, or with CAP_NET_ADMIN; ports below 1024 need CAP_NET_BIND_SERVICE, `flows` CAP_BPF and CAP_PERFMON"
)

func hintForListening(err *agent.ListenError) string {
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return hintAddress
	case errors.Is(err, fs.ErrPermission):
		return "ports below 1024 need CAP_NET_BIND_SERVICE"
	case errors.Is(err, unix.EADDRINUSE) && err.Key == "bgp.listen":
		return "another BGP daemon has the port: give `bgp.port` another number, or leave `bgp.listen` empty"
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Sprintf("another program has the port: give `%s` another one", err.Key)
	}
	return ""
}

func hintForSysctl(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "this kernel does not have it: is it built in, or its module loaded?"
	}
	return "sysctls of the network need CAP_NET_ADMIN and a /proc/sys that can be written (systemd: no ProtectKernelTunables)"
}

const agentUsage = `Usage: hikyaku-egress %[1]s --config FILE [--check | --dry-run]

%[2]s

Options:
  --config FILE  configuration in TOML; conf/egress-%[1]s.toml explains every key
  --check        check the configuration alone and exit; see also hikyaku-egress check
  --dry-run      speak BGP to learn, print the commands and announcements that would
                 follow, change nothing, and end when all neighbours have sent
                 everything, or after bgp.stale_time. It refuses to run beside an
                 agent: neighbours take only one session.

SIGTERM and SIGINT withdraw everything and remove it from the kernel. A crash or
kill -9 leaves the kernel as it is, and the next start goes on from there; a start
that fails leaves it as it was. SIGHUP reads the configuration again, as does
hikyaku-egress reload, which also prints why it is not taken.
`

var agentPurpose = map[config.Role]string{
	config.RoleBorder: `The agent of a border router: gives each egress peer an SRv6 SID and a routing
table with the peer's routes alone, and announces these to route reflectors.`,
	config.RoleServer: `The agent of a content server: learns from route reflectors which peers reach
which clients, and makes each a path that an address or a mark selects.`,
}

// runAgent returns the command of a role.
func runAgent(role config.Role) func(context.Context, []string, io.Writer, io.Writer) error {
	return func(ctx context.Context, args []string, out, errs io.Writer) error {
		flags := newFlags(string(role), fmt.Sprintf(agentUsage, role, agentPurpose[role]), out)
		file := flags.String("config", "", "")
		check := flags.Bool("check", false, "")
		dryRun := flags.Bool("dry-run", false, "")
		if err := parse(flags, args, 0); err != nil {
			return err
		}
		source, loaded, err := loadSource(*file, role)
		if err != nil {
			return err
		}
		if *check {
			fmt.Fprintf(out, "%s: the configuration is right\n", *file)
			return nil
		}
		if loaded, err = withAddedPeers(source, loaded); err != nil {
			return err
		}
		common := loaded.Common()
		level := new(slog.LevelVar)
		level.Set(agent.Levels[common.Log.Level])
		hangUps, end := catchHangUps()
		defer end()
		opts := agent.Options{
			Version: version(), Log: logger(common.Log.Format, level, errs), Level: level,
			Source: source, HangUps: hangUps,
		}
		slog.SetDefault(opts.Log)
		if *dryRun {
			opts.DryRun = out
		}
		if loaded.Border != nil {
			return agent.RunBorder(ctx, loaded.Border, opts)
		}
		return agent.RunServer(ctx, loaded.Server, opts)
	}
}

// withAddedPeers returns the configuration with the peers that were added by the API.
func withAddedPeers(source *config.Source, loaded *config.File) (*config.File, error) {
	if loaded.Border == nil {
		return loaded, nil
	}
	settings, err := api.LoadSettings(loaded.Border.State.Dir)
	if err != nil {
		return nil, err
	}
	source.Peers = settings.Peers
	return source.Parse()
}

// catchHangUps returns SIGHUPs. The signal also comes when a terminal is closed: the agent must
// not die of it, as it would then clean nothing up. end ends that.
func catchHangUps() (hangUps <-chan os.Signal, end func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// newFlags returns a flag set that prints its usage to out.
func newFlags(name, usage string, out io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() { fmt.Fprint(out, usage) }
	return flags
}

// parse reads options, and allows for so many arguments.
func parse(flags *flag.FlagSet, args []string, arguments int) error {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return usageError{err}
	case flags.NArg() > arguments:
		return usageError{fmt.Errorf("unexpected argument %q", flags.Arg(arguments))}
	}
	return nil
}

// load reads a configuration; an empty role takes either.
func load(file string, role config.Role) (*config.File, error) {
	_, loaded, err := loadSource(file, role)
	return loaded, err
}

// loadSource is load, and returns the text, too.
func loadSource(file string, role config.Role) (*config.Source, *config.File, error) {
	if file == "" {
		return nil, nil, usageError{errors.New("--config FILE is missing")}
	}
	source, err := config.ReadSource(file)
	if err != nil {
		return nil, nil, err
	}
	loaded, err := source.Parse()
	if err != nil {
		return nil, nil, err
	}
	if has := loaded.Common().Role; role != "" && has != role {
		return nil, nil, usageError{fmt.Errorf("%s is for a %s, not for a %s", file, has, role)}
	}
	return &source, loaded, nil
}

func logger(format config.LogFormat, level slog.Leveler, out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

func printVersion(_ context.Context, _ []string, out, _ io.Writer) error {
	_, err := fmt.Fprintln(out, "hikyaku-egress", version())
	return err
}

// release is set by the linker (scripts/egress.sh).
var release string

// version is that of the release and the revision that it was built from, as far as
// they are known.
func version() string {
	words := strings.Fields(release)
	if info, ok := debug.ReadBuildInfo(); ok {
		if release == "" && info.Main.Version != "" {
			words = append(words, info.Main.Version)
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				words = append(words, "("+s.Value[:min(len(s.Value), 12)]+")")
			}
		}
	}
	if len(words) == 0 {
		return "unknown"
	}
	return strings.Join(words, " ")
}
