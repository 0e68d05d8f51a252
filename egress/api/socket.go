package api

import (
	"io/fs"
	"net"
)

// Socket says where and for whom the API listens.
type Socket struct {
	// Path of the Unix socket. Its directory is made if it is not there (0755).
	Path string
	// Mode of the socket.
	Mode fs.FileMode
	// Group that the socket is given to, by name or number; "" leaves that of
	// the process.
	Group string
}

// Listen opens the socket. What a crashed process left is replaced; where
// another process serves, the error says so. Nobody can connect before mode and
// group are right. Closing the listener removes the socket.
func (s Socket) Listen() (net.Listener, error) { panic("not yet") }
