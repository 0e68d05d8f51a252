package config

import (
	"io/fs"
	"net/netip"
	"time"
)

// Role says which agent a file is for.
type Role string

// The roles.
const (
	RoleBorder Role = "border"
	RoleServer Role = "server"
)

// Common has the keys that the files of both roles have.
type Common struct {
	// Role is the agent that the file is for. Needed.
	Role Role `toml:"role"`
	// ASN is the own AS. Needed.
	ASN uint32 `toml:"asn"`
	// RouterID is the BGP identifier (RFC 6286), an IPv4 address which nobody
	// else in the AS has. Needed.
	RouterID netip.Addr `toml:"router_id"`
	BGP      BGP        `toml:"bgp"`
	// Reflectors are the own AS's route reflectors. At least one is needed.
	Reflectors []Reflector `toml:"reflector"`
	API        API         `toml:"api"`
	State      State       `toml:"state"`
	Log        Log         `toml:"log"`
	Flows      Flows       `toml:"flows"`
}

// BGP holds the settings that all sessions have in common.
type BGP struct {
	// Listen holds the addresses that passive sessions are accepted on.
	// Default none.
	Listen []netip.Addr `toml:"listen"`
	// Port is where this agent listens, and where sessions that do not say
	// otherwise connect to. Default 179.
	Port uint16 `toml:"port"`
	// HoldTime is the time without a message after which a session is down
	// (RFC 4271 §4.2); keepalives go out at a third of it. In whole seconds, at
	// least 3s. Default 90s.
	HoldTime time.Duration `toml:"hold_time"`
	// ConnectRetry is the time between attempts to connect. Default 5s.
	ConnectRetry time.Duration `toml:"connect_retry"`
	// StaleTime is how long routes are kept after the last reflector was lost. State that a
	// former run left in the kernel is kept until sessions have sent their End-of-RIB (RFC
	// 4724 §4), at most for this time. Default 60s.
	StaleTime time.Duration `toml:"stale_time"`
	// RestartTime is how long neighbours keep this agent's routes while it
	// restarts (RFC 4724); they also keep those of a machine that is dead. In
	// whole seconds, at most 4095s; 0: not at all. Default 0s.
	RestartTime time.Duration `toml:"restart_time"`
}

// Session is one BGP session. Zero values of Port and HoldTime stand for those
// of [BGP], and are replaced by them when the file is read.
type Session struct {
	// Name is for people, logs and the API. Needed.
	Name string `toml:"name"`
	// Address of the neighbour; a link-local one has a zone. Needed.
	Address netip.Addr `toml:"address"`
	// Port to connect to. Default `bgp.port`.
	Port uint16 `toml:"port"`
	// LocalAddress is the source of the session. Default the kernel's choice.
	LocalAddress netip.Addr `toml:"local_address"`
	// Passive sessions wait for the neighbour to connect. Default false.
	Passive bool `toml:"passive"`
	// PasswordFile holds the TCP MD5 password (RFC 2385), see [ReadPassword].
	// Default none.
	PasswordFile string `toml:"password_file"`
	// HoldTime as in [BGP]. Default `bgp.hold_time`.
	HoldTime time.Duration `toml:"hold_time"`
}

// Reflector is a session with a route reflector of the own AS (iBGP; VPNv6 and
// VPNv4 routes).
type Reflector struct {
	Session
}

// API is the local HTTP API.
type API struct {
	// Socket is the path of the Unix socket. Default
	// "/run/hikyaku-egress/api.sock".
	Socket string `toml:"socket"`
	// Mode of the socket, three octal digits as text. Default "0660".
	Mode fs.FileMode `toml:"mode"`
	// Group that the socket is given to, by name or number. Default "", that of
	// the process.
	Group string `toml:"group"`
	// Metrics is the address of an HTTP listener with /metrics alone, for
	// Prometheus. The socket serves them, too. Default none.
	Metrics netip.AddrPort `toml:"metrics"`
}

// State is the place of the data that outlive the process.
type State struct {
	// Dir holds drains and policies that were set through the API, and what
	// was there before a server set MPTCP's state. Made if it is not there.
	// Default "/var/lib/hikyaku-egress".
	Dir string `toml:"dir"`
}

// LogFormat is the form of log lines.
type LogFormat string

// The forms of log lines, those of log/slog.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// Level is a log level.
type Level string

// The log levels.
const (
	LevelError Level = "error"
	LevelWarn  Level = "warn"
	LevelInfo  Level = "info"
	LevelDebug Level = "debug"
)

// Log says which lines are logged, to standard error.
type Log struct {
	// Level is the least level that is logged. Default "info".
	Level Level `toml:"level"`
	// Format of the lines. Default "text".
	Format LogFormat `toml:"format"`
}

// The modes of FlowStats.
const (
	LargestMaxFlows = 1 << 23
	ShortestIdle    = time.Second
)

// Flows configures `hikyaku-egress flows` (SRv6 FlowStats).
type Flows struct {
	// Interfaces whose outgoing packets are counted. Default srv6.interface of a
	// server. A border has none: it takes SRv6 off, so that a packet that leaves it has no
	// SID to be counted by.
	Interfaces []string `toml:"interfaces"`
	// Interval between two readings. Default 100ms, at least 10ms.
	Interval time.Duration `toml:"interval"`
	// MaxFlows are kept apart at a time; each takes 128 bytes of locked memory.
	// Further ones are counted together, per SID. Default 131072, 1024 to
	// [LargestMaxFlows].
	MaxFlows uint32 `toml:"max_flows"`
	// Idle flows lose their place after this time. Default 60s, at least
	// [ShortestIdle] and Interval.
	Idle time.Duration `toml:"idle"`
	// Plain counts packets without SRv6, too. Default false.
	Plain bool `toml:"plain"`
	// JSON is where differences are written as JSON lines: "off", "stdout" or a
	// file, which is opened anew on SIGHUP. Default "off".
	JSON Output `toml:"json"`
	// CSV is the same as comma-separated values. Default "off".
	CSV Output `toml:"csv"`
	// Metrics is the address of an HTTP listener with /metrics. Default none.
	Metrics netip.AddrPort `toml:"metrics"`
}

// Output is "off", "stdout" or the path of a file.
type Output string

// The outputs that are no files.
const (
	OutputOff    Output = "off"
	OutputStdout Output = "stdout"
)

// File returns the path of the file, or "" where the output is none.
func (o Output) File() string {
	if o == OutputOff || o == OutputStdout {
		return ""
	}
	return string(o)
}

// Drop is the fate of a packet that must not take a path, by the kernel's
// route types.
type Drop string

// The ways to drop.
const (
	// DropUnreachable answers with ICMP, local senders get EHOSTUNREACH.
	DropUnreachable Drop = "unreachable"
	// DropProhibit answers with ICMP, local senders get EACCES.
	DropProhibit Drop = "prohibit"
	// DropBlackhole says nothing; local senders get EINVAL.
	DropBlackhole Drop = "blackhole"
)

// Tables is a range of routing tables, written "10000-10999".
type Tables struct {
	// First is the table of number 0, which is not used.
	First uint32
	// Last belongs to the range.
	Last uint32
}

// Contains reports whether a table is in the range.
func (t Tables) Contains(table uint32) bool { return t.First <= table && table <= t.Last }

// Toggle is on, off, or as the kernel allows.
type Toggle string

// The values of a toggle.
const (
	ToggleAuto Toggle = "auto"
	ToggleOn   Toggle = "on"
	ToggleOff  Toggle = "off"
)
