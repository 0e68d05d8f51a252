package api

import (
	"context"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// maxStreams is the number of event streams that are open at once.
	maxStreams = 64
	// maxOfProcess is how many of them one process may have, so that there are some for
	// the others.
	maxOfProcess = 16
)

// streams counts the event streams that are open, by the process that asked for them.
type streams struct {
	mu   sync.Mutex
	open int
	of   map[int32]int
}

// begin counts a stream of a process, 0 for one that is not known. It fails with [errBusy].
// [streams.end] must follow where it does not.
func (s *streams) begin(process int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= maxStreams {
		return fmt.Errorf("%w: %d event streams are open already", errBusy, s.open)
	}
	if process != 0 && s.of[process] >= maxOfProcess {
		return fmt.Errorf("%w: process %d has %d event streams open already", errBusy, process, s.of[process])
	}
	if s.of == nil {
		s.of = make(map[int32]int)
	}
	s.open++
	s.of[process]++
	return nil
}

func (s *streams) end(process int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.of[process]--; s.of[process] == 0 {
		delete(s.of, process)
	}
}

// processKey is where a request's context has the process that sent it.
type processKey struct{}

// withProcess notes the process at the other end of a Unix socket.
func withProcess(ctx context.Context, conn net.Conn) context.Context {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return ctx
	}
	var peer *unix.Ucred
	err = raw.Control(func(fd uintptr) { peer, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || peer == nil {
		return ctx
	}
	return context.WithValue(ctx, processKey{}, peer.Pid)
}

// processOf is the process that sent a request, 0 where that is not known.
func processOf(ctx context.Context) int32 {
	process, _ := ctx.Value(processKey{}).(int32)
	return process
}
