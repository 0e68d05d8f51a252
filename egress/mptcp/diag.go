package mptcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ReadConnections reads all MPTCP connections and their subflows of the calling
// thread's network namespace from the kernel, as `ss -M` and `ss -ti` show
// them. Announcements are not among them: see [Client.Announced]. The two
// dumps are not atomic: subscribe to events before, where those are followed.
func ReadConnections() ([]Connection, error) {
	d, err := dialDiag()
	if err != nil {
		return nil, err
	}
	defer d.close()
	return d.connections()
}

// diag is a socket of NETLINK_SOCK_DIAG.
type diag struct{ conn *netlink.Conn }

func dialDiag() (*diag, error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, fmt.Errorf("opening socket diagnostics: %w", err)
	}
	return &diag{conn}, nil
}

func (d *diag) close() { _ = d.conn.Close() } // nothing was written, nothing can be lost

func (d *diag) connections() ([]Connection, error) {
	byToken := make(map[Token]*Connection)
	var order []Token
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := d.dump(family, unix.IPPROTO_MPTCP)
		if err != nil {
			return nil, fmt.Errorf("reading MPTCP sockets: %w", err)
		}
		for _, s := range sockets {
			if s.token == 0 || byToken[s.token] != nil {
				continue
			}
			byToken[s.token] = &Connection{Token: s.token, Local: s.local, Remote: s.remote, ServerSide: true}
			order = append(order, s.token)
		}
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := d.dump(family, unix.IPPROTO_TCP)
		if err != nil {
			return nil, fmt.Errorf("reading MPTCP subflows: %w", err)
		}
		for _, s := range sockets {
			if c := byToken[s.token]; c != nil && s.token != 0 {
				c.adopt(s)
			}
		}
	}
	found := make([]Connection, 0, len(order))
	for _, token := range order {
		found = append(found, *byToken[token])
	}
	return found, nil
}

func (c *Connection) adopt(s diagSocket) {
	c.Subflows = append(c.Subflows, Subflow{
		Local: s.local, Remote: s.remote, LocalID: s.localID, RemoteID: s.remoteID,
		PeerBackup:  s.flags&subflowBackupRemote != 0,
		LocalBackup: s.flags&subflowBackupLocal != 0,
		confirmed:   true,
	})
	c.Established = c.Established || s.flags&subflowFullyEstablished != 0
	// The kernel does not report who opened a connection, but who asked for
	// MPTCP on its first subflow.
	if s.flags&subflowRequestCapable != 0 {
		c.ServerSide = false
	}
}

// Numbers of include/uapi/linux/inet_diag.h and mptcp.h.
const (
	sockDiagByFamily = 20
	diagReqProtocol  = 3
	diagInfo         = 2
	diagULPInfo      = 19
	ulpInfoMPTCP     = 3

	diagRequestLen = 56
	diagMessageLen = 72

	subflowAttrTokenLocal = 2
	subflowAttrFlags      = 8
	subflowAttrIDRemote   = 9
	subflowAttrIDLocal    = 10

	subflowRequestCapable   = 1 << 1
	subflowBackupRemote     = 1 << 4
	subflowBackupLocal      = 1 << 5
	subflowFullyEstablished = 1 << 6

	// mptcp_info: six u8, padding, u32 flags, u32 token.
	infoFlagsOffset = 8
	infoTokenOffset = 12
	infoFallback    = 1 << 0
)

// liveStates are those in which data can still be sent.
const liveStates = 1<<tcpEstablished | 1<<tcpFinWait1 | 1<<tcpFinWait2 | 1<<tcpCloseWait

const (
	tcpEstablished = 1
	tcpFinWait1    = 4
	tcpFinWait2    = 5
	tcpCloseWait   = 8
)

// diagSocket is one answer: an MPTCP socket, or a TCP socket with token 0 where
// it is no subflow.
type diagSocket struct {
	local, remote     netip.AddrPort
	token             Token
	localID, remoteID uint8
	flags             uint32
}

func (d *diag) dump(family uint8, protocol uint32) ([]diagSocket, error) {
	request := make([]byte, diagRequestLen)
	request[0] = family
	request[1] = unix.IPPROTO_TCP
	request[2] = 1 << (diagInfo - 1)
	binary.NativeEndian.PutUint32(request[4:], liveStates)
	e := netlink.NewAttributeEncoder()
	if protocol > 255 {
		e.Uint32(diagReqProtocol, protocol)
	}
	attributes, err := e.Encode()
	if err != nil {
		return nil, err
	}
	messages, err := d.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump},
		Data:   append(request, attributes...),
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("%w; CONFIG_INET_MPTCP_DIAG and CONFIG_INET_TCP_DIAG are needed", err)
	}
	if err != nil {
		return nil, err
	}
	sockets := make([]diagSocket, 0, len(messages))
	for _, m := range messages {
		s, err := parseDiag(m.Data, protocol)
		if err != nil {
			return nil, err
		}
		sockets = append(sockets, s)
	}
	return sockets, nil
}

// parseDiag decodes a struct inet_diag_msg and the attributes behind it. The
// protocol decides their meaning: a TCP socket's info is a struct tcp_info.
func parseDiag(b []byte, protocol uint32) (diagSocket, error) {
	if len(b) < diagMessageLen {
		return diagSocket{}, fmt.Errorf("decoding a socket: %d bytes, %d needed", len(b), diagMessageLen)
	}
	var s diagSocket
	size := 16
	if b[0] == unix.AF_INET {
		size = 4
	}
	local, _ := netip.AddrFromSlice(b[8 : 8+size])
	remote, _ := netip.AddrFromSlice(b[24 : 24+size])
	s.local = netip.AddrPortFrom(local, binary.BigEndian.Uint16(b[4:]))
	s.remote = netip.AddrPortFrom(remote, binary.BigEndian.Uint16(b[6:]))
	d, err := netlink.NewAttributeDecoder(b[diagMessageLen:])
	if err != nil {
		return s, fmt.Errorf("decoding a socket: %w", err)
	}
	for d.Next() {
		switch {
		case d.Type() == diagInfo && protocol == unix.IPPROTO_MPTCP:
			s.decodeInfo(d.Bytes())
		case d.Type() == diagULPInfo && protocol == unix.IPPROTO_TCP:
			d.Nested(s.decodeULP)
		}
	}
	return s, d.Err()
}

// decodeInfo reads the token of a struct mptcp_info. A connection that fell
// back to TCP has no paths to manage and is passed over.
func (s *diagSocket) decodeInfo(info []byte) {
	if len(info) < infoTokenOffset+4 {
		return
	}
	if binary.NativeEndian.Uint32(info[infoFlagsOffset:])&infoFallback == 0 {
		s.token = Token(binary.NativeEndian.Uint32(info[infoTokenOffset:]))
	}
}

func (s *diagSocket) decodeULP(d *netlink.AttributeDecoder) error {
	for d.Next() {
		if d.Type() == ulpInfoMPTCP {
			d.Nested(s.decodeSubflow)
		}
	}
	return nil
}

func (s *diagSocket) decodeSubflow(d *netlink.AttributeDecoder) error {
	for d.Next() {
		switch d.Type() {
		case subflowAttrTokenLocal:
			s.token = Token(d.Uint32())
		case subflowAttrFlags:
			s.flags = d.Uint32()
		case subflowAttrIDRemote:
			s.remoteID = d.Uint8()
		case subflowAttrIDLocal:
			s.localID = d.Uint8()
		}
	}
	return nil
}
