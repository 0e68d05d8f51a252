package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Socket says where and for whom the API listens.
type Socket struct {
	// Path of the Unix socket, at most 107 bytes. Its directory is made if it is
	// not there (0755). PATH.lock beside it reports whether somebody serves.
	Path string
	// Mode of the socket.
	Mode fs.FileMode
	// Group that the socket is given to, by name or number; "" leaves that of
	// the process.
	Group string
}

// Listen opens the socket. The socket of a crashed process is replaced; where
// another process serves, the error says so. Nobody but the owner can connect
// before mode and group are right. Closing the listener removes the socket.
func (s Socket) Listen() (net.Listener, error) {
	listener, err := s.listen()
	if err != nil {
		return nil, fmt.Errorf("opening the API's socket %s: %w", s.Path, err)
	}
	return listener, nil
}

func (s Socket) listen() (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
		return nil, err
	}
	lock, err := lockFile(s.Path + ".lock")
	if err != nil {
		return nil, err
	}
	listener, err := s.bind()
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &lockedListener{UnixListener: listener, lock: lock}, nil
}

// lockFile takes a lock that ends with the process, however it ends: unlike a
// socket's file it distinguishes a live agent from a dead one.
func lockFile(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return lock, nil
	}
	lock.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.New("another hikyaku-egress serves there: stop it, or set another `api.socket`")
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// bind makes the socket while the lock is held, so that whatever socket is there
// belongs to nobody alive.
func (s Socket) bind() (*net.UnixListener, error) {
	info, err := os.Lstat(s.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, errors.New("there is a file that is no socket: remove it, or set another `api.socket`")
	default:
		if err := os.Remove(s.Path); err != nil {
			return nil, err
		}
	}
	config := net.ListenConfig{Control: ownerOnly}
	listener, err := config.Listen(context.Background(), "unix", s.Path)
	if err != nil {
		return nil, err
	}
	if err := s.permit(); err != nil {
		listener.Close()
		return nil, err
	}
	return listener.(*net.UnixListener), nil
}

// ownerOnly sets the mode that the socket's file is born with. bind(2) takes it from the
// socket, so that there is no moment in which others can connect.
func ownerOnly(_, _ string, conn syscall.RawConn) error {
	var inner error
	err := conn.Control(func(fd uintptr) { inner = syscall.Fchmod(int(fd), 0o600) })
	return errors.Join(err, inner)
}

func (s Socket) permit() error {
	if s.Group != "" {
		gid, err := groupID(s.Group)
		if err != nil {
			return err
		}
		if err := os.Lchown(s.Path, -1, gid); err != nil {
			return err
		}
	}
	return os.Chmod(s.Path, s.Mode)
}

func groupID(group string) (int, error) {
	if id, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(id), nil
	}
	found, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("there is no group `%s`: make it, or set another `api.group`", group)
	}
	return strconv.Atoi(found.Gid)
}

// lockedListener gives the lock back after the socket is gone.
type lockedListener struct {
	*net.UnixListener
	lock *os.File
	once sync.Once
}

// Close removes the socket.
func (l *lockedListener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() { err = errors.Join(l.UnixListener.Close(), l.lock.Close()) })
	return err
}
