package session

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/wire"
)

// readMessage reads a message that must be of one type.
func readMessage(r io.Reader, want byte) ([]byte, error) {
	kind, body, err := nextMessage(r, make([]byte, wire.MaxMessage))
	if err != nil {
		return nil, err
	}
	if kind == bgp.BGP_MSG_NOTIFICATION {
		return nil, notified(body)
	}
	if kind != want {
		return nil, bgp.NewMessageError(bgp.BGP_ERROR_FSM_ERROR, 0, nil, fmt.Sprintf("message of type %d instead of %d", kind, want))
	}
	return body, nil
}

// nextMessage reads a message into buffer, which is as long as one may be. KEEPALIVE has
// a header alone, and OPEN never comes where more than wire.MaxMessage bytes may (RFC 8654 §4).
func nextMessage(r io.Reader, buffer []byte) (kind byte, body []byte, err error) {
	header := buffer[:wire.HeaderLength]
	if _, err := io.ReadFull(r, header); err != nil {
		return 0, nil, err
	}
	for _, b := range header[:16] {
		if b != 0xff {
			return 0, nil, bgp.NewMessageError(bgp.BGP_ERROR_MESSAGE_HEADER_ERROR, bgp.BGP_ERROR_SUB_CONNECTION_NOT_SYNCHRONIZED, nil,
				"a message does not begin with 16 bytes of ones")
		}
	}
	n := int(binary.BigEndian.Uint16(header[16:]))
	kind = header[18]
	if n < wire.HeaderLength || n > len(buffer) || kind == bgp.BGP_MSG_KEEPALIVE && n > wire.HeaderLength {
		return 0, nil, bgp.NewMessageError(bgp.BGP_ERROR_MESSAGE_HEADER_ERROR, bgp.BGP_ERROR_SUB_BAD_MESSAGE_LENGTH, header[16:18],
			fmt.Sprintf("a message of %d bytes", n))
	}
	if _, err := io.ReadFull(r, buffer[wire.HeaderLength:n]); err != nil {
		return 0, nil, err
	}
	return kind, buffer[wire.HeaderLength:n], nil
}

// hasMessage reports whether the next message can be read without waiting.
func hasMessage(r *bufio.Reader) bool {
	if r.Buffered() < wire.HeaderLength {
		return false
	}
	header, err := r.Peek(wire.HeaderLength)
	return err == nil && r.Buffered() >= int(binary.BigEndian.Uint16(header[16:]))
}

// notified is the neighbour's reason to end the session.
func notified(body []byte) error {
	if len(body) < 2 {
		return errNotified
	}
	return fmt.Errorf("%w: %s", errNotified, bgp.NewNotificationErrorCode(body[0], body[1]))
}
