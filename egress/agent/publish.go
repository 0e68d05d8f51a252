package agent

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"hikyaku/egress/api"
)

// maxNamed is how many prefixes a change of routes names.
const maxNamed = 1000

// show publishes the state of paths and sessions where it has changed.
func (e *engine) show() {
	var changed bool
	e.locked(func() { changed = e.publish() })
	if changed {
		e.role.pathsChanged()
	}
}

// publish sends watchers the paths that have changed since the last time, and returns
// whether one has. Changed numbers of routes alone are no reason: watchers can ask for
// those, and would get them a thousand times.
func (e *engine) publish() (changed bool) {
	for _, path := range e.allPaths() {
		before, known := e.shown[path.Name]
		if known && sameState(before, path) {
			continue
		}
		if before.State != path.State || !known {
			e.since[path.Name] = time.Now()
			path.Since = e.since[path.Name]
		}
		changed = true
		e.shown[path.Name] = path
		e.hub.Publish(api.Event{Path: &path})
		e.log.Info("path has changed", "path", path.Name, "state", path.State, "reason", path.Reason)
	}
	e.logProblems()
	for name := range e.sessions.changed {
		for _, session := range e.sessionList() {
			if session.Name == name {
				e.hub.Publish(api.Event{Session: &session})
			}
		}
		delete(e.sessions.changed, name)
	}
	if ready := e.sessions.ready(); ready != e.ready {
		e.ready = ready
		e.hub.Publish(api.Event{Ready: &api.Readiness{Ready: ready}})
	}
	return changed
}

// logProblems logs each problem when it appears, and that it is over. A count that grows
// makes no other one of it.
func (e *engine) logProblems() {
	now := make(map[string]string)
	for _, problem := range e.role.problems() {
		key := withoutCounts(problem)
		_, known := e.troubles[key]
		if _, again := now[key]; !known && !again {
			e.log.Warn("problem", "problem", problem)
		}
		now[key] = problem
	}
	for key, problem := range e.troubles {
		if _, still := now[key]; !still {
			e.log.Info("a problem is over", "problem", problem)
		}
	}
	e.troubles = now
}

// withoutCounts leaves out of a sentence the words that are numbers.
func withoutCounts(problem string) string {
	words := slices.DeleteFunc(strings.Fields(problem), func(word string) bool {
		_, err := strconv.ParseUint(strings.Trim(word, "(),;"), 10, 64)
		return err == nil
	})
	return strings.Join(words, " ")
}

func sameState(a, b api.Path) bool {
	return a.State == b.State && a.Reason == b.Reason && a.SID == b.SID && a.IPv4SID == b.IPv4SID && a.MTU == b.MTU &&
		a.Backup == b.Backup && slices.Equal(a.Addresses, b.Addresses) && (a.Drain == nil) == (b.Drain == nil) && samePort(a.Port, b.Port)
}

func samePort(a, b *api.Port) bool {
	return a == b || (a != nil && b != nil && *a == *b)
}

// publishRoutes notifies watchers that answers to lookups may have changed.
func (e *engine) publishRoutes(path string, prefixes []netip.Prefix) {
	if len(prefixes) == 0 {
		return
	}
	if len(prefixes) > maxNamed {
		prefixes = nil
	}
	e.hub.Publish(api.Event{Routes: &api.RouteChange{Path: path, Prefixes: prefixes}})
}
