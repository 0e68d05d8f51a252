package mptcp

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// How soon and how often lost sockets are opened anew. The last constant is the time
// without a loss after which the next one begins with the shortest wait.
const (
	reopenFirst  = 100 * time.Millisecond
	reopenLast   = 10 * time.Second
	reopenForget = time.Minute
)

// ErrLost: the kernel could not be asked when the Manager ended, so that connections do not
// have the state that was set last. See [TakeBack].
var ErrLost = errors.New("MPTCP connections could not be managed to the end")

// namespaceID identifies a network namespace while it lives.
type namespaceID struct{ device, inode uint64 }

func namespaceOfThread() (namespaceID, error) {
	var info unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &info); err != nil {
		return namespaceID{}, fmt.Errorf("finding out the network namespace: %w", err)
	}
	return namespaceID{uint64(info.Dev), info.Ino}, nil
}

// namespace is the kernel's side for one network namespace.
type namespace struct {
	*Client
	*diag
}

func (n namespace) Connections() ([]Connection, error) { return n.diag.connections() }

func (n namespace) Close() error {
	n.diag.close()
	return n.Client.Close()
}

// openKernel opens the sockets that a Manager needs in the calling thread's network
// namespace. It must be the namespace that is named: another one's connections are not
// ours.
func openKernel(home namespaceID) (eventSource, commander, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := namespaceOfThread()
	if err != nil {
		return nil, nil, err
	}
	if here != home {
		return nil, nil, errors.New("this thread has another network namespace than the Manager")
	}
	client, err := Dial()
	if err != nil {
		return nil, nil, err
	}
	sockets, err := dialDiag()
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	kernel := namespace{client, sockets}
	listener, err := Listen()
	if err != nil {
		return nil, nil, errors.Join(err, kernel.Close())
	}
	return listener, kernel, nil
}

// lose closes the kernel's connections to the Manager, which are not reliable any more.
// Until they are opened anew, MPTCP connections are left as they are, and settings and
// hints are only remembered.
func (m *Manager) lose(cause error) {
	m.log.Error("MPTCP connections are not managed for now", "error", cause)
	m.troubles.lose(cause)
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = m.source.Close(), m.kernel.Close() // they failed already
	m.kernel = nil
}

// reopen tries to go on, and reports whether it does.
func (m *Manager) reopen() bool {
	source, kernel, err := m.open()
	if err == nil {
		m.mu.Lock()
		m.source, m.kernel = source, kernel
		if err = m.resync(); err != nil {
			_, _ = source.Close(), kernel.Close() // the error that counts is the first
			m.kernel = nil
		}
		m.mu.Unlock()
	}
	m.troubles.lose(err)
	if err == nil {
		m.log.Info("MPTCP connections are managed again")
	}
	return err == nil
}
