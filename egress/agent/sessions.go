package agent

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/speaker"
)

// sessions has the states of the BGP sessions.
type sessions struct {
	byName map[string]*session
	// changed holds names whose state the watchers do not know yet.
	changed map[string]bool
}

type session struct {
	api.Session
	// missing are the families whose End-of-RIB is awaited.
	missing []speaker.Family
	// ended is how the last session has ended, without why there is no new one.
	ended string
	// never: there is not going to be a session.
	never bool
}

const (
	kindPeer      = "peer"
	kindReflector = "reflector"
	// kindRouter is a router or reflector that sends the routes of egress peers by ADD-PATH.
	kindRouter = "router"
)

func newSessions(c *config.Common, now time.Time) *sessions {
	s := &sessions{byName: make(map[string]*session), changed: make(map[string]bool)}
	for _, r := range c.Reflectors {
		s.add(r.Name, kindReflector, r.Address, c.ASN, now)
	}
	return s
}

func (s *sessions) add(name, kind string, address netip.Addr, as uint32, now time.Time) {
	s.byName[name] = &session{Session: api.Session{
		Name: name, Kind: kind, Address: address, ASN: as, Since: now,
		Error: notYet,
	}}
}

// up reports whether a session is up.
func (s *sessions) up(name string) bool {
	state := s.byName[name]
	return state != nil && state.Up
}

// remove forgets a session.
func (s *sessions) remove(name string) {
	delete(s.byName, name)
	delete(s.changed, name)
}

const notYet = "the session has not come up yet"

// refuse says that there is no session, and that none is awaited.
func (s *sessions) refuse(name, reason string) {
	if state := s.byName[name]; state != nil {
		state.never, state.Error = true, reason
	}
}

// handle follows the events that concern sessions.
func (s *sessions) handle(event speaker.Event, now time.Time) {
	switch e := event.(type) {
	case speaker.PeerUp:
		if state := s.byName[e.Peer]; state != nil {
			state.Up, state.Since, state.EndOfRIB, state.Error = true, now, false, ""
			state.missing = slices.Clone(e.Families)
			s.changed[e.Peer] = true
		}
	case speaker.PeerDown:
		if state := s.byName[e.Peer]; state != nil {
			state.Up, state.Since, state.EndOfRIB = false, now, false
			state.ended = strings.TrimSpace("the session ended: " + e.Reason)
			state.Error = state.ended
			*endsBy(&state.Ends, e.Cause)++
			s.changed[e.Peer] = true
		}
	case speaker.NoSession:
		if state := s.byName[e.Peer]; state != nil && !state.Up {
			if state.ended == "" {
				state.Error = notYet + ": " + e.Reason
			} else {
				state.Error = state.ended + "; no new one: " + e.Reason
			}
			s.changed[e.Peer] = true
		}
	case speaker.Faulty:
		if state := s.byName[e.Peer]; state != nil {
			state.Faults.Withdrawn += e.Withdrawn
			state.Faults.Discarded += e.Discarded
		}
	case speaker.EndOfRIB:
		if state := s.byName[e.Peer]; state != nil {
			state.missing = slices.DeleteFunc(state.missing, func(f speaker.Family) bool { return f == e.Family })
			state.EndOfRIB = state.Up && len(state.missing) == 0
			s.changed[e.Peer] = true
		}
	}
}

// leaveOut counts a session as ended that is a router's, and goes on there.
func (s *sessions) leaveOut(name, reason string, now time.Time) {
	if state := s.byName[name]; state != nil {
		missing := state.missing
		s.handle(speaker.PeerDown{Peer: name, Cause: speaker.EndLocal, Reason: reason}, now)
		state.missing = missing
	}
}

// takeIn counts such a session as up again.
func (s *sessions) takeIn(name string, now time.Time) {
	if state := s.byName[name]; state != nil {
		s.handle(speaker.PeerUp{Peer: name, Families: state.missing}, now)
		state.EndOfRIB = len(state.missing) == 0
	}
}

// endsBy is the counter for a cause.
func endsBy(ends *api.Ends, cause speaker.EndCause) *uint64 {
	switch cause {
	case speaker.EndHoldTimer:
		return &ends.HoldTimer
	case speaker.EndUpdateError:
		return &ends.UpdateError
	case speaker.EndMessageError:
		return &ends.MessageError
	case speaker.EndNotification:
		return &ends.Notification
	case speaker.EndLocal:
		return &ends.Local
	}
	return &ends.Connection
}

// ready reports whether a session is up and all that are have sent everything once.
func (s *sessions) ready() bool {
	up := 0
	for _, state := range s.byName {
		if state.Up {
			up++
			if !state.EndOfRIB {
				return false
			}
		}
	}
	return up > 0
}

// complete reports whether every session is up and has sent everything.
func (s *sessions) complete() bool {
	for _, state := range s.byName {
		if !state.EndOfRIB && !state.never {
			return false
		}
	}
	return true
}

// sentAll reports whether a session is up and has sent everything.
func (s *sessions) sentAll(name string) bool {
	state := s.byName[name]
	return state != nil && state.EndOfRIB
}

// list returns all sessions by name; routes gives their numbers of routes.
func (s *sessions) list(routes func(api.Session) api.Routes) []api.Session {
	all := make([]api.Session, 0, len(s.byName))
	for _, state := range s.byName {
		one := state.Session
		if one.Up {
			one.Routes = routes(one)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b api.Session) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// reason is why a session is down.
func (s *sessions) reason(name string) string {
	if state := s.byName[name]; state != nil {
		return state.Error
	}
	return ""
}
