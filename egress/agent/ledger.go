package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hikyaku/egress/api"
	"hikyaku/egress/mptcp"
)

// ledger notes in the state directory the values that are set in the kernel for MPTCP, and
// those that were there before. Unlike routes, none of them can carry a mark of its owner.
// A value is noted before it is set, so that a start after a crash finds all that is to be
// put back. That holds whatever the configuration has become.
type ledger struct {
	file  string
	notes notes
}

// notes hold for one network namespace, and for one boot of the machine.
type notes struct {
	Boot      string `json:"boot"`
	Namespace uint64 `json:"namespace"`
	// Userspace: addresses were announced connection by connection.
	Userspace bool                    `json:"userspace"`
	Sysctls   map[mptcp.Sysctl]change `json:"sysctls"`
	// Subflows is the limit of the in-kernel path manager.
	Subflows  *change         `json:"subflows"`
	Endpoints []notedEndpoint `json:"endpoints"`
}

// change has a value that was set, and the one before.
type change struct {
	Before int `json:"before"`
	Set    int `json:"set"`
}

// notedEndpoint is enough to know an endpoint again.
type notedEndpoint struct {
	ID   uint8      `json:"id"`
	Addr netip.Addr `json:"addr"`
}

func note(e mptcp.Endpoint) notedEndpoint { return notedEndpoint{ID: e.ID, Addr: e.Addr} }

// ledgerFile is the name of the file in the state directory.
const ledgerFile = "mptcp.json"

// openLedger reads the notes of a former run in dir for the calling thread's network
// namespace.
func openLedger(dir string) (*ledger, error) {
	now, err := here()
	if err != nil {
		return nil, err
	}
	l := &ledger{file: filepath.Join(dir, ledgerFile)}
	text, err := os.ReadFile(l.file)
	if err == nil && len(text) > 0 { // empty: the power was lost, and all that was set
		err = json.Unmarshal(text, &l.notes)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading from %s what was set for MPTCP (remove it to leave that as it is): %w", l.file, err)
	}
	if l.notes.Boot != now.Boot || l.notes.Namespace != now.Namespace {
		l.notes = now // the former settings are gone
	}
	if l.notes.Sysctls == nil {
		l.notes.Sysctls = make(map[mptcp.Sysctl]change)
	}
	return l, nil
}

// here returns notes of nothing for the namespace.
func here() (notes, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return notes{}, fmt.Errorf("reading the machine's boot ID: %w", err)
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return notes{}, fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(socket)
	// Unlike the inode of the namespace, its cookie is never used again.
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 5.14
		var info unix.Stat_t
		if err = unix.Stat("/proc/thread-self/ns/net", &info); err == nil {
			cookie = info.Ino
		}
	}
	if err != nil {
		return notes{}, fmt.Errorf("identifying the network namespace: %w", err)
	}
	return notes{Boot: strings.TrimSpace(string(boot)), Namespace: cookie}, nil
}

// save notes the values that are set, which the kernel does not outlive either: they need
// not be on the disk.
func (l *ledger) save() error {
	n := &l.notes
	if len(n.Sysctls) == 0 && n.Subflows == nil && len(n.Endpoints) == 0 && !n.Userspace {
		if err := os.Remove(l.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the notes of what was set for MPTCP: %w", err)
		}
		return nil
	}
	text, err := json.MarshalIndent(n, "", "  ")
	if err == nil {
		err = api.ReplaceFile(l.file, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("noting in %s what is set for MPTCP: %w", l.file, err)
	}
	return nil
}

// setSysctl sets a sysctl, unless it is as wanted.
func (l *ledger) setSysctl(s mptcp.Sysctl, want int) error {
	// Else a crash between the next note and its change would leave values of a former run
	// that pass for somebody else's.
	if err := l.putBackOther(s, want); err != nil {
		return err
	}
	now, err := s.Read()
	if err != nil || now == want {
		return err
	}
	l.notes.Sysctls[s] = change{Before: now, Set: want}
	if err := l.save(); err != nil {
		return err
	}
	return s.Write(want)
}

// putBackOther puts a sysctl back that a former run has set to something else.
func (l *ledger) putBackOther(s mptcp.Sysctl, want int) error {
	if l.notes.Sysctls[s].Set == want {
		return nil
	}
	return l.putBackSysctl(s)
}

// putBackSysctl gives a sysctl its former value, unless somebody else has set it since.
func (l *ledger) putBackSysctl(s mptcp.Sysctl) error {
	c, noted := l.notes.Sysctls[s]
	if !noted {
		return nil
	}
	now, err := s.Read()
	if err == nil && now == c.Set {
		err = s.Write(c.Before)
	}
	if err != nil {
		return fmt.Errorf("putting back what was there before: %w", err)
	}
	delete(l.notes.Sysctls, s)
	return l.save()
}

// setSubflows sets the in-kernel path manager's limit of subflows.
func (l *ledger) setSubflows(c *mptcp.Client, want int) error {
	if noted := l.notes.Subflows; noted != nil && noted.Set != want {
		if err := l.putBackSubflows(c); err != nil {
			return err
		}
	}
	limits, err := c.Limits()
	if err != nil || limits.Subflows == uint32(want) {
		return err
	}
	l.notes.Subflows = &change{Before: int(limits.Subflows), Set: want}
	if err := l.save(); err != nil {
		return err
	}
	limits.Subflows = uint32(want)
	return c.SetLimits(limits)
}

func (l *ledger) putBackSubflows(c *mptcp.Client) error {
	noted := l.notes.Subflows
	if noted == nil {
		return nil
	}
	limits, err := c.Limits()
	if err == nil && limits.Subflows == uint32(noted.Set) {
		limits.Subflows = uint32(noted.Before)
		err = c.SetLimits(limits)
	}
	if err != nil {
		return fmt.Errorf("putting back what was there before: %w", err)
	}
	l.notes.Subflows = nil
	return l.save()
}

// setEndpoints gives paths their endpoints, and deletes those that a former run has
// made for other addresses.
func (l *ledger) setEndpoints(c *mptcp.Client, paths []mptcp.Path) error {
	have, err := c.Endpoints()
	if err != nil {
		return err
	}
	for _, e := range have {
		configured := slices.ContainsFunc(paths, func(p mptcp.Path) bool { return slices.Contains(p.Addresses, e.Addr) })
		if !configured && e.Port == 0 && slices.Contains(l.notes.Endpoints, note(e)) {
			paths = append(slices.Clip(paths), mptcp.Path{Addresses: []netip.Addr{e.Addr}, State: mptcp.PathDown})
		}
	}
	plan := mptcp.PlanEndpoints(have, paths)
	noteErr := l.noteEndpoints(slices.Concat(l.notes.Endpoints, after(have, nil, paths), after(nil, plan, nil)))
	var done []mptcp.EndpointOp
	errs := []error{noteErr}
	for _, op := range plan {
		if op.Kind == mptcp.EndpointAdd && noteErr != nil {
			continue // nobody would take it away after a crash
		}
		if err := c.ApplyEndpoint(op); err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, op)
	}
	return errors.Join(append(errs, l.noteEndpoints(after(have, done, paths)))...)
}

// after returns which endpoints of paths there are once operations are done.
func after(have []mptcp.Endpoint, done []mptcp.EndpointOp, paths []mptcp.Path) []notedEndpoint {
	is := map[notedEndpoint]bool{}
	for _, e := range have {
		if e.Port == 0 && slices.ContainsFunc(paths, func(p mptcp.Path) bool { return slices.Contains(p.Addresses, e.Addr) }) {
			is[note(e)] = true
		}
	}
	for _, op := range done {
		is[note(op.Endpoint)] = op.Kind != mptcp.EndpointDelete
	}
	maps.DeleteFunc(is, func(_ notedEndpoint, there bool) bool { return !there })
	return slices.Collect(maps.Keys(is))
}

func (l *ledger) noteEndpoints(now []notedEndpoint) error {
	slices.SortFunc(now, func(a, b notedEndpoint) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.ID, b.ID))
	})
	now = slices.Compact(now)
	if slices.Equal(now, l.notes.Endpoints) {
		return nil
	}
	l.notes.Endpoints = now
	return l.save()
}

// noteUserspace notes whether addresses are announced connection by connection.
func (l *ledger) noteUserspace(are bool) error {
	if l.notes.Userspace == are {
		return nil
	}
	l.notes.Userspace = are
	return l.save()
}

// putBackKernel undoes the settings of the in-kernel path manager.
func (l *ledger) putBackKernel() error {
	if len(l.notes.Endpoints) == 0 && l.notes.Subflows == nil {
		return nil
	}
	c, err := mptcp.Dial()
	if err != nil {
		return err
	}
	return errors.Join(l.setEndpoints(c, nil), l.putBackSubflows(c), c.Close())
}

// putBack undoes everything.
func (l *ledger) putBack() error {
	err := l.putBackKernel()
	for _, s := range slices.Collect(maps.Keys(l.notes.Sysctls)) {
		err = errors.Join(err, l.putBackSysctl(s))
	}
	l.notes.Userspace = false
	return errors.Join(err, l.save())
}
