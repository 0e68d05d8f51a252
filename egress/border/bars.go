package border

import "net/netip"

// bars are the changes of what best paths must not use: GoBGP selects them by a policy of its
// own.
type bars struct {
	// pending has prefixes whose refusal differs from what GoBGP knows; nil where there are
	// no best paths.
	pending map[netip.Prefix]bool
}

// refused reports whether the peer announces the route and the import policy refuses it.
func (r route) refused() bool { return r.want != nil && r.verdict.Refuses() }

// bar notes that a route's refusal may have changed.
func (b *bars) bar(prefix netip.Prefix, was, now route) {
	if b.pending == nil || was.refused() == now.refused() {
		return
	}
	if _, known := b.pending[prefix]; known {
		delete(b.pending, prefix) // it is as before
		return
	}
	b.pending[prefix] = now.refused()
}

// step has the changes, at most limit of them.
func (b *bars) step(peer string, limit int) *Bar {
	bar := &Bar{Peer: peer}
	for prefix, refused := range b.pending {
		if limit--; limit < 0 {
			break
		}
		if refused {
			bar.Barred = append(bar.Barred, prefix)
		} else {
			bar.Free = append(bar.Free, prefix)
		}
		delete(b.pending, prefix)
	}
	return bar
}
