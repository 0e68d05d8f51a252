package bmp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"

	"hikyaku/egress/speaker/wire"
)

// errMessage is the error of a message that cannot be understood. The connection must end,
// since the routes that it meant are unknown.
var errMessage = errors.New("malformed BMP message")

// maxMessage bounds a message in bytes. The longest has two OPENs of 65,535 bytes (RFC 8654)
// besides headers.
const maxMessage = 1 << 18

// next reads a message into buffer, which it may replace by a longer one. The body is valid
// until the next call.
func next(r *bufio.Reader, buffer *[]byte) (kind uint8, body []byte, err error) {
	var head [bmp.BMP_HEADER_SIZE]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	var h bmp.BMPHeader
	if err := h.DecodeFromBytes(head[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: version %d instead of 3", errMessage, head[0])
	}
	if h.Length < bmp.BMP_HEADER_SIZE || h.Length > maxMessage {
		return 0, nil, fmt.Errorf("%w: a length of %d bytes", errMessage, h.Length)
	}
	n := int(h.Length) - bmp.BMP_HEADER_SIZE
	if n > len(*buffer) {
		*buffer = make([]byte, n)
	}
	if _, err := io.ReadFull(r, (*buffer)[:n]); err != nil {
		return 0, nil, fmt.Errorf("in a message of %d bytes: %w", h.Length, err)
	}
	return h.Type, (*buffer)[:n], nil
}

// cutPeer reads the header that names a peer (RFC 7854 §4.2).
func cutPeer(body []byte) (h bmp.BMPPeerHeader, rest []byte, err error) {
	if err := h.DecodeFromBytes(body); err != nil {
		return h, nil, fmt.Errorf("%w: %w", errMessage, err)
	}
	return h, body[bmp.BMP_PEER_HEADER_SIZE:], nil
}

// cutBGP reads a BGP message of a type.
func cutBGP(b []byte, kind uint8) (body, rest []byte, err error) {
	if len(b) < bgp.BGP_HEADER_LENGTH {
		return nil, nil, fmt.Errorf("%w: %d bytes where a BGP message is due", errMessage, len(b))
	}
	n := int(binary.BigEndian.Uint16(b[16:]))
	if n < bgp.BGP_HEADER_LENGTH || n > len(b) || b[18] != kind {
		return nil, nil, fmt.Errorf("%w: a BGP message of type %d with %d bytes, of which there are %d", errMessage, b[18], n, len(b))
	}
	return b[bgp.BGP_HEADER_LENGTH:n], b[n:], nil
}

// peerUp has the content of a Peer Up message (RFC 7854 §4.10) that counts here.
type peerUp struct {
	local netip.Addr
	// capabilities are those that both ends have sent.
	sent, received []bgp.ParameterCapabilityInterface
}

func parsePeerUp(body []byte, ipv6 bool) (up peerUp, err error) {
	const ports = 4
	if len(body) < 16+ports {
		return up, fmt.Errorf("%w: Peer Up of %d bytes", errMessage, len(body))
	}
	up.local, _ = netip.AddrFromSlice(body[:16])
	if !ipv6 {
		up.local, _ = netip.AddrFromSlice(body[12:16])
	}
	sent, rest, err := cutBGP(body[16+ports:], bgp.BGP_MSG_OPEN)
	if err != nil {
		return up, err
	}
	received, _, err := cutBGP(rest, bgp.BGP_MSG_OPEN)
	if err != nil {
		return up, err
	}
	if up.sent, err = capabilities(sent); err != nil {
		return up, err
	}
	up.received, err = capabilities(received)
	return up, err
}

// capabilities reads those of an OPEN.
func capabilities(body []byte) (list []bgp.ParameterCapabilityInterface, err error) {
	var open bgp.BGPOpen
	if err := open.DecodeFromBytes(body); err != nil {
		return nil, fmt.Errorf("%w: OPEN: %w", errMessage, err)
	}
	for _, p := range open.OptParams {
		if c, ok := p.(*bgp.OptionParameterCapability); ok {
			list = append(list, c.Capability...)
		}
	}
	return list, nil
}

// families are those of ours that both ends of the session have.
func (up peerUp) families(ours []wire.Family) []wire.Family {
	return wire.SharedFamilies(wire.SharedFamilies(ours, up.sent), up.received)
}

// downReasons describe why the router's session ended (RFC 7854 §4.9).
var downReasons = map[uint8]string{
	bmp.BMP_PEER_DOWN_REASON_LOCAL_BGP_NOTIFICATION:  "the router ended it with a NOTIFICATION",
	bmp.BMP_PEER_DOWN_REASON_LOCAL_NO_NOTIFICATION:   "the router ended it",
	bmp.BMP_PEER_DOWN_REASON_REMOTE_BGP_NOTIFICATION: "the peer ended it with a NOTIFICATION",
	bmp.BMP_PEER_DOWN_REASON_REMOTE_NO_NOTIFICATION:  "the peer ended it",
	bmp.BMP_PEER_DOWN_REASON_PEER_DE_CONFIGURED:      "the router monitors it no more",
}
