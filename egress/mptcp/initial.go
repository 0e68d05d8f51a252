package mptcp

import "time"

// newsApart is how far apart the news that a path is down and the news of what
// is BGP's best path instead may come.
const newsApart = time.Second

// initialWay follows the way of a connection's initial subflow, where that is
// BGP's best path.
type initialWay struct {
	path string
	// before is the path that it took until moved.
	before string
	moved  time.Time
	// lost: its path went down under it. Data in flight are lost, and whether plain routing
	// finds another way, and when, is not known.
	lost bool
}

// follow takes note of the path that plain packets to the client take now.
func (w *initialWay) follow(best string, paths []Path, now time.Time) {
	if best != w.path {
		w.before, w.path, w.moved = w.path, best, now
	}
	for _, path := range paths {
		if path.Name == w.before && path.State == PathDown && now.Sub(w.moved) < newsApart {
			w.lost = true
		}
	}
}
