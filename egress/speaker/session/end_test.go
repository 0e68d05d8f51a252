package session

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

func TestEnds(t *testing.T) {
	timeout := func(err error) error { return fmt.Errorf("sending: %w", &net.OpError{Op: "write", Err: err}) }
	for _, c := range []struct {
		name string
		got  End
		want EndCause
	}{
		{"TCP's own timeout", endOf(timeout(syscall.ETIMEDOUT)), EndConnection},
		{"a neighbour that takes nothing", endOf(fmt.Errorf("sending routes: %w", errUntaken)), EndHoldTimer},
		{"a message of the wrong type", endOf(bgp.NewMessageError(bgp.BGP_ERROR_FSM_ERROR, 0, nil, "")), EndMessageError},
	} {
		if c.got.Cause != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got.Cause, c.want)
		}
	}
}
