package kernel

import (
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// Numbers of the generic netlink family "SEG6" (linux/seg6_genl.h).
const (
	seg6FamilyName       = "SEG6"
	seg6FamilyVersion    = 1
	seg6CommandSetTunsrc = 3
	seg6CommandGetTunsrc = 4
	seg6AttributeDst     = 1
)

// tunnelSourceConn reads and sets the tunnel source. The family's number is asked
// for once.
type tunnelSourceConn struct {
	conn   *rtnl.Conn
	mu     sync.Mutex
	family uint16
}

func (t *tunnelSourceConn) set(source TunnelSource) error {
	family, err := t.resolve()
	if err != nil {
		return err
	}
	var b rtnl.Batch
	b.Begin(family, 0, seg6CommandSetTunsrc, seg6FamilyVersion, 0, 0)
	b.Bytes(seg6AttributeDst, source.AsSlice())
	b.End()
	return only(t.conn.Do(&b))
}

// TunnelSource reads the outer source address of SRv6 encapsulation: the zero value
// where none is set or the kernel has no SRv6.
func (a *Applier) TunnelSource() (TunnelSource, error) { return a.seg6.get() }

// get returns the zero value where none is set or the kernel has no SRv6.
func (t *tunnelSourceConn) get() (source TunnelSource, err error) {
	family, err := t.resolve()
	if err != nil {
		return TunnelSource{}, nil // no SRv6, so nothing of ours: [Probe] reports why
	}
	var b rtnl.Batch
	b.Begin(family, unix.NLM_F_ACK, seg6CommandGetTunsrc, seg6FamilyVersion, 0, 0)
	b.End()
	err = t.conn.Query(&b, func() {}, func(_ uint16, body []byte) error {
		for kind, value := range rtnl.Attributes(body[min(4, len(body)):]) {
			if kind == seg6AttributeDst {
				source.Addr = rtnl.Addr(value)
			}
		}
		return nil
	})
	if err != nil {
		return TunnelSource{}, fmt.Errorf("reading the SRv6 tunnel source: %w", err)
	}
	if source.Addr == netip.IPv6Unspecified() {
		source.Addr = netip.Addr{}
	}
	return source, nil
}

func (t *tunnelSourceConn) resolve() (uint16, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.family != 0 {
		return t.family, nil
	}
	family, err := genericFamily(t.conn, seg6FamilyName)
	if err != nil {
		return 0, fmt.Errorf("finding the kernel's SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL): %w", err)
	}
	t.family = family
	return family, nil
}

// genericFamily asks for the number of a generic netlink family.
func genericFamily(conn *rtnl.Conn, name string) (family uint16, err error) {
	var b rtnl.Batch
	b.Begin(unix.GENL_ID_CTRL, unix.NLM_F_ACK, unix.CTRL_CMD_GETFAMILY, 1, 0, 0)
	b.String(unix.CTRL_ATTR_FAMILY_NAME, name)
	b.End()
	err = conn.Query(&b, func() {}, func(_ uint16, body []byte) error {
		for kind, value := range rtnl.Attributes(body[min(4, len(body)):]) {
			if kind == unix.CTRL_ATTR_FAMILY_ID {
				family = rtnl.Uint16(value)
			}
		}
		return nil
	})
	return family, err
}
