package mptcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// PathManager is the value of net.mptcp.pm_type. It is read by each connection
// when it begins and stays with it.
type PathManager int

const (
	// InKernel: endpoints and limits of the namespace rule all connections.
	InKernel PathManager = 0
	// UserSpace: a [Manager] decides for each connection.
	UserSpace PathManager = 1
)

// Settings are the sysctls under net.mptcp which matter here. They belong to
// the calling thread's network namespace.
type Settings struct {
	PathManager PathManager
	// AddAddrTimeout is after how many seconds an announcement without echo is
	// repeated, at most three times; 0 is never. The kernel's default of 120
	// makes one lost packet cost two minutes of the second path.
	AddAddrTimeout int
	// StaleLossCount is after how many retransmission time-outs without progress a subflow
	// is passed over and its data move to others; 0 is never. Leave the kernel's default of
	// 4. With 1 or 2 one transfer in seven stuck for more than 30 s when its path went
	// silent (6.18). The kernel then finds no alternative, for it counts the idle subflow's
	// time-outs, too. A silent loss costs 200 to 860 ms, as MPTCP's own timer never waits
	// less than 200 ms. To be faster, set [Routes].Avoid.
	StaleLossCount int
}

// Sysctl is one of net.mptcp's, without that prefix. It belongs to the calling
// thread's network namespace.
type Sysctl string

// The sysctls that an agent sets.
const (
	SysctlPathManager    Sysctl = "pm_type"
	SysctlAddAddrTimeout Sysctl = "add_addr_timeout"
	sysctlStaleLossCount Sysctl = "stale_loss_cnt"
)

const sysctlFolder = "/proc/sys/net/mptcp/"

// ReadSettings reads the settings. It returns [ErrUnsupported] where the
// kernel has no MPTCP or it is switched off (net.mptcp.enabled=0).
func ReadSettings() (Settings, error) {
	enabled, err := Sysctl("enabled").Read()
	if errors.Is(err, fs.ErrNotExist) || (err == nil && enabled == 0) {
		return Settings{}, ErrUnsupported
	}
	if err != nil {
		return Settings{}, err
	}
	var s Settings
	var pathManager int
	for _, f := range []struct {
		sysctl Sysctl
		value  *int
	}{
		{SysctlPathManager, &pathManager},
		{SysctlAddAddrTimeout, &s.AddAddrTimeout},
		{sysctlStaleLossCount, &s.StaleLossCount},
	} {
		if *f.value, err = f.sysctl.Read(); err != nil {
			return Settings{}, err
		}
	}
	s.PathManager = PathManager(pathManager)
	return s, nil
}

// Read reads the sysctl.
func (s Sysctl) Read() (int, error) {
	text, err := os.ReadFile(sysctlFolder + string(s))
	if err != nil {
		return 0, fmt.Errorf("reading net.mptcp.%s: %w", s, err)
	}
	value, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading net.mptcp.%s: %w", s, err)
	}
	return value, nil
}

// Write sets the sysctl. Of [SysctlPathManager] each connection keeps the value that was
// set when it began.
func (s Sysctl) Write(value int) error {
	// No O_TRUNC or O_CREAT: it is a file of proc.
	file, err := os.OpenFile(sysctlFolder+string(s), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("setting net.mptcp.%s to %d: %w", s, value, err)
	}
	_, err = file.WriteString(strconv.Itoa(value))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("setting net.mptcp.%s to %d: %w", s, value, err)
	}
	return nil
}
