package speaker

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// backlog is UPDATE messages of an egress peer between who reads them and who works
// them off. The connection is read whatever the reader of events is doing, so that a
// peer that is lost is noticed at once and not behind what it had announced.
type backlog struct {
	mu sync.Mutex
	// pending is bodies, each behind its length in two bytes.
	pending []byte
	// bell has a value while there may be messages, room while there may be room.
	bell, room chan struct{}
}

// maxBacklog bounds what waits, in bytes, beyond which the peer must. A table of
// 200,000 routes has some 5 MB.
const maxBacklog = 8 << 20

func newBacklog() *backlog {
	return &backlog{bell: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// add appends a message. It waits for room until ctx ends.
func (b *backlog) add(ctx context.Context, body []byte) {
	for !b.append(body) {
		select {
		case <-b.room:
		case <-ctx.Done():
			return
		}
	}
	ring(b.bell)
}

func (b *backlog) append(body []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) >= maxBacklog {
		return false
	}
	b.pending = binary.BigEndian.AppendUint16(b.pending, uint16(len(body)))
	b.pending = append(b.pending, body...)
	return true
}

// take returns all that waits.
func (b *backlog) take() (pending []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pending, b.pending = b.pending, nil
	ring(b.room)
	return pending
}

func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// digest works off what an egress peer has sent until ctx ends. It fails where an
// UPDATE must end the session.
func (v *ownSession) digest(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.backlog.bell:
		}
		for pending := v.backlog.take(); len(pending) > 0 && ctx.Err() == nil; {
			body, rest, _ := cutLength16(pending)
			if err := v.update(ctx, body); err != nil {
				return err
			}
			pending = rest
		}
		v.reportUpdate(ctx, v.gathered.take())
	}
}

// originated is the messages that announce the AS's own prefixes to an egress peer,
// which hears of nothing else (RFC 7454 §6.2).
func (v *ownSession) originated() (messages []byte) {
	for _, prefix := range v.speaker.config.Originate {
		family := IPv6Unicast
		if prefix.Addr().Is4() {
			family = IPv4Unicast
		}
		if !slices.Contains(v.families, family) {
			continue
		}
		if prefix.Addr().Is4() != v.local.Is4() {
			v.log.Warn("own prefix not announced: the session's address cannot be its next hop",
				slog.String("prefix", prefix.String()), slog.String("address", v.local.String()))
			continue
		}
		message, err := v.origination(prefix, family)
		if err != nil { // not of a prefix that Start has let through
			v.log.Error("encoding own prefix", slog.String("prefix", prefix.String()), slog.Any("error", err))
			continue
		}
		messages = append(messages, message...)
	}
	return messages
}

// origination is the UPDATE for one of our own prefixes. The next hop is our end.
func (v *ownSession) origination(prefix netip.Prefix, family Family) ([]byte, error) {
	nlri, err := bgp.NewIPAddrPrefix(prefix)
	if err != nil {
		return nil, err
	}
	routes := []bgp.PathNLRI{{NLRI: nlri}}
	attributes := Attributes{ASPath: NewASPath(v.speaker.config.AS)}.gobgp()
	if family == IPv4Unicast {
		hop, err := bgp.NewPathAttributeNextHop(v.local)
		if err != nil {
			return nil, err
		}
		return bgp.NewBGPUpdateMessage(nil, append(attributes, hop), routes).Serialize()
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(family.gobgp(), routes, v.local)
	if err != nil {
		return nil, err
	}
	return bgp.NewBGPUpdateMessage(nil, append(attributes, reach), nil).Serialize()
}
