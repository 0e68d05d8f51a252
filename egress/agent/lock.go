package agent

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hikyaku/egress/config"
)

// lockName is an abstract socket's: there is one in each network namespace, and the
// kernel gives it back however the process ends.
const lockName = "@hikyaku-egress/agent"

// lockNamespace makes sure that this is the only agent of its network namespace. What two
// agents put into the kernel looks the same, so that each would remove the other's. The
// lock ends when it is closed; until then later agents find by it which one runs.
func lockNamespace(role config.Role, c *config.Common) (net.Listener, error) {
	lock, err := net.Listen("unix", lockName)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%s runs in this network namespace already, and there can be one: "+
			"stop it, or give this one a namespace of its own", lockHolder())
	}
	if err != nil {
		return nil, fmt.Errorf("locking the network namespace against a second agent: %w", err)
	}
	self := fmt.Sprintf("the %s agent of process %d with api.socket %s", role, os.Getpid(), c.API.Socket)
	go func() {
		for {
			conn, err := lock.Accept()
			if err != nil {
				return
			}
			conn.SetDeadline(time.Now().Add(time.Second))
			fmt.Fprintln(conn, self)
			conn.Close()
		}
	}()
	return lock, nil
}

// lockHolder asks for the holder of the lock.
func lockHolder() string {
	const unknown = "another hikyaku-egress agent"
	conn, err := net.DialTimeout("unix", lockName, time.Second)
	if err != nil {
		return unknown
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	line, err := bufio.NewReaderSize(conn, 1024).ReadSlice('\n')
	if err != nil {
		return unknown
	}
	return strings.TrimSpace(string(line))
}
