package session

import (
	"errors"
	"fmt"
	"os"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// EndCause classifies the ends of sessions, for counting.
type EndCause string

// The causes of an end.
const (
	// EndHoldTimer: nothing came from the neighbour for the hold time (RFC 4271 §6.5), or
	// it took nothing for that long (RFC 9687).
	EndHoldTimer EndCause = "hold_timer"
	// EndUpdateError: an UPDATE that we refused (RFC 4271 §6.3). Its routes cannot be
	// determined (RFC 7606 §3) or a well-known attribute of it is unknown.
	EndUpdateError EndCause = "update_error"
	// EndMessageError: another message that we refused (RFC 4271 §6.1, §6.6).
	EndMessageError EndCause = "message_error"
	// EndNotification: the neighbour's NOTIFICATION, whatever it says (RFC 4271 §4.5).
	EndNotification EndCause = "notification"
	// EndConnection: the TCP connection was closed or broke, without a NOTIFICATION.
	EndConnection EndCause = "connection"
	// EndLocal: we ended it, as with a neighbour that is removed, or a reflector that
	// leaves too many routes unread.
	EndLocal EndCause = "local"
)

// EndCauses are all causes of an end.
var EndCauses = []EndCause{EndHoldTimer, EndUpdateError, EndMessageError, EndNotification, EndConnection, EndLocal}

// End is why a session ended.
type End struct {
	Cause EndCause
	// Reason says more, for people.
	Reason string
}

var (
	// errQuiet ends a session on which nothing came for the hold time.
	errQuiet = bgp.NewMessageError(bgp.BGP_ERROR_HOLD_TIMER_EXPIRED, 0, nil, "nothing came for the hold time")
	// errUntaken ends one whose neighbour took nothing for the hold time.
	errUntaken = errors.New("the neighbour took nothing for the hold time")
	// errUnread ends one for whose reflector too many routes wait.
	errUnread = errors.New("the reflector does not read")
	// errNotified is the error of a session that the neighbour has ended.
	errNotified = errors.New("the neighbour ended the session")
)

// unread is the error of a session whose reflector leaves too many routes unread.
func unread(waiting int) error { return fmt.Errorf("%w: %d routes wait for it", errUnread, waiting) }

// endOf is the end that a session's error means.
func endOf(err error) End {
	e := End{EndConnection, err.Error()}
	var refused *bgp.MessageError
	switch {
	case errors.As(err, &refused):
		e.Cause = CauseOfCode(refused.TypeCode)
	case errors.Is(err, errNotified):
		e.Cause = EndNotification
	case errors.Is(err, errUntaken):
		e.Cause = EndHoldTimer
	case errors.Is(err, errUnread):
		e.Cause = EndLocal
	}
	return e
}

// CauseOfCode is why a session ended on which we sent a NOTIFICATION (RFC 4271 §4.5).
func CauseOfCode(code uint8) EndCause {
	switch code {
	case bgp.BGP_ERROR_HOLD_TIMER_EXPIRED:
		return EndHoldTimer
	case bgp.BGP_ERROR_UPDATE_MESSAGE_ERROR:
		return EndUpdateError
	case bgp.BGP_ERROR_CEASE:
		return EndLocal
	}
	return EndMessageError
}

// timedOut reports whether a deadline of ours ended reading or writing. TCP's own timeout
// (ETIMEDOUT) is a connection that broke.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
