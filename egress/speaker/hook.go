package speaker

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"hikyaku/egress/speaker/session"
)

// downHook is a slog.Handler that passes GoBGP's log on, and waits for the one line that
// GoBGP writes the moment a session ends. GoBGP's watcher reports that only when all routes
// of the peer have gone through its tables. With 200,000 of them that is a second later:
// far too late to stop packets to a dead peer.
//
// Should a future GoBGP write the line otherwise, the watcher's report still
// comes; TestPeerDownIsAheadOfWithdrawals then fails.
type downHook struct {
	next slog.Handler
	down func(peer netip.Addr, fsm *fsmIdentity, why session.End)
	// made is called for each state machine that GoBGP makes, which gives every one a
	// logger of its own.
	made func(peer netip.Addr, fsm *fsmIdentity)
	peer netip.Addr
	fsm  *fsmIdentity
}

// fsmIdentity distinguishes a state machine from an earlier one of the same neighbour,
// which may still be ending when the neighbour is added again.
type fsmIdentity struct {
	// silent: the hold timer has expired, which the reason leaves out where a graceful
	// restart begins.
	silent atomic.Bool
}

const (
	peerDownMessage  = "Peer Down"
	holdTimerMessage = "hold timer expired"
	peerKey          = "Key"
	reasonKey        = "Reason"
)

// Enabled lets lines that the hook listens for through to Handle whatever the operator wants
// to read.
func (h downHook) Enabled(ctx context.Context, level slog.Level) bool {
	return level == slog.LevelInfo || level == slog.LevelWarn || h.next.Enabled(ctx, level)
}

func (h downHook) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == holdTimerMessage && h.fsm != nil {
		h.fsm.silent.Store(true)
	}
	if r.Message == peerDownMessage && h.fsm != nil {
		reason := ""
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == reasonKey {
				reason = a.Value.String()
			}
			return true
		})
		if h.fsm.silent.Swap(false) && reason == gobgpGracefulRestart {
			reason = gobgpHoldTimer
		}
		h.down(h.peer, h.fsm, endingByGoBGP(reason))
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h downHook) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key != peerKey {
			continue
		}
		if peer, err := netip.ParseAddr(a.Value.String()); err == nil {
			h.peer, h.fsm = peer, new(fsmIdentity)
			h.made(h.peer, h.fsm)
		}
	}
	h.next = h.next.WithAttrs(attrs)
	return h
}

func (h downHook) WithGroup(name string) slog.Handler {
	h.next = h.next.WithGroup(name)
	return h
}
