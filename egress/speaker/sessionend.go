package speaker

import (
	"errors"
	"os"
	"strings"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// EndCause is why a session ended, for who counts ends.
type EndCause string

// The causes of an end.
const (
	// EndHoldTimer: nothing came from the neighbour for the hold time (RFC 4271 §6.5), or
	// it took nothing for that long (RFC 9687).
	EndHoldTimer EndCause = "hold_timer"
	// EndUpdateError: an UPDATE that we refused (RFC 4271 §6.3), since its routes cannot
	// be told (RFC 7606 §3) or nobody knows a well-known attribute of it.
	EndUpdateError EndCause = "update_error"
	// EndMessageError: another message that we refused (RFC 4271 §6.1, §6.6).
	EndMessageError EndCause = "message_error"
	// EndNotification: the neighbour's NOTIFICATION, whatever it says (RFC 4271 §4.5).
	EndNotification EndCause = "notification"
	// EndConnection: the TCP connection was closed or broke, without a word.
	EndConnection EndCause = "connection"
	// EndLocal: we ended it, as with a neighbour that is removed, or a reflector that
	// leaves too many routes unread.
	EndLocal EndCause = "local"
)

// EndCauses are all causes of an end.
var EndCauses = []EndCause{EndHoldTimer, EndUpdateError, EndMessageError, EndNotification, EndConnection, EndLocal}

// ending is why a session ended, for who counts and for who reads.
type ending struct {
	cause  EndCause
	reason string
}

// endRemoved is the end of a removed neighbour's session.
var endRemoved = ending{EndLocal, "neighbour removed"}

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

// endingBy is what the error of a session of ours means.
func endingBy(err error) ending {
	e := ending{EndConnection, err.Error()}
	var refused *bgp.MessageError
	switch {
	case errors.As(err, &refused):
		e.cause = causeOfCode(refused.TypeCode)
	case errors.Is(err, errNotified):
		e.cause = EndNotification
	case errors.Is(err, errUntaken):
		e.cause = EndHoldTimer
	case errors.Is(err, errUnread):
		e.cause = EndLocal
	}
	return e
}

// causeOfCode is why a session ended on which we sent a NOTIFICATION (RFC 4271 §4.5).
func causeOfCode(code uint8) EndCause {
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

// What GoBGP calls the ends of sessions.
const (
	gobgpHoldTimer       = "hold-timer-expired"
	gobgpGracefulRestart = "graceful-restart" // says nothing of why
	gobgpSent            = "notification-sent "
	gobgpReceived        = "notification-received "
	gobgpHardReset       = "hard-reset" // a NOTIFICATION received, too (RFC 8538 §3.1)
	gobgpAdminDown       = "admin-down"
	gobgpDying           = "dying"
	// A neighbour that was removed, by the log line and by the watcher's report.
	gobgpRemoved, gobgpDeleted = "unknown", ""
)

// endingByGoBGP is what GoBGP's reason means.
func endingByGoBGP(reason string) ending {
	e := ending{EndConnection, reason}
	switch reason {
	case gobgpHoldTimer:
		e.cause = EndHoldTimer
	case gobgpHardReset:
		e.cause = EndNotification
	case gobgpAdminDown, gobgpDying:
		e.cause = EndLocal
	case gobgpRemoved, gobgpDeleted:
		return endRemoved
	}
	if strings.HasPrefix(reason, gobgpReceived) {
		e.cause = EndNotification
	}
	if sent, ok := strings.CutPrefix(reason, gobgpSent); ok {
		e.cause = EndMessageError
		for _, code := range []uint8{bgp.BGP_ERROR_HOLD_TIMER_EXPIRED, bgp.BGP_ERROR_UPDATE_MESSAGE_ERROR, bgp.BGP_ERROR_CEASE} {
			if strings.HasPrefix(sent, codeText(code)) {
				e.cause = causeOfCode(code)
			}
		}
	}
	return e
}

// codeText is how GoBGP's text of a NOTIFICATION begins: "code 3(".
func codeText(code uint8) string {
	text := bgp.NewNotificationErrorCode(code, 0).String()
	return text[:strings.IndexByte(text, '(')+1]
}

// timedOut tells whether a deadline of ours ended reading or writing. TCP's own timeout
// (ETIMEDOUT) is a connection that broke.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
