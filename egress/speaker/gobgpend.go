package speaker

import (
	"strings"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/session"
)

// endRemoved is the end of a removed neighbour's session.
var endRemoved = session.End{Cause: EndLocal, Reason: "neighbour removed"}

// GoBGP's names for the ends of sessions.
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

// endingByGoBGP is the meaning of GoBGP's reason.
func endingByGoBGP(reason string) session.End {
	e := session.End{Cause: EndConnection, Reason: reason}
	switch reason {
	case gobgpHoldTimer:
		e.Cause = EndHoldTimer
	case gobgpHardReset:
		e.Cause = EndNotification
	case gobgpAdminDown, gobgpDying:
		e.Cause = EndLocal
	case gobgpRemoved, gobgpDeleted:
		return endRemoved
	}
	if strings.HasPrefix(reason, gobgpReceived) {
		e.Cause = EndNotification
	}
	if sent, ok := strings.CutPrefix(reason, gobgpSent); ok {
		e.Cause = EndMessageError
		for _, code := range []uint8{bgp.BGP_ERROR_HOLD_TIMER_EXPIRED, bgp.BGP_ERROR_UPDATE_MESSAGE_ERROR, bgp.BGP_ERROR_CEASE} {
			if strings.HasPrefix(sent, codeText(code)) {
				e.Cause = session.CauseOfCode(code)
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
