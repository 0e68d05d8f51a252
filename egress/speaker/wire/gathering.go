package wire

import (
	"bytes"
	"encoding/binary"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Gatherer joins consecutive UPDATE messages that have the same attributes for different
// routes. gobgpd sends each of its 800,000 routes in a message of its own. Without it the
// attributes would be decoded, and events be sent, as often.
type Gatherer struct {
	from Source
	// waiting may still grow; nil for none.
	waiting *Update
	// like is the last update that others may resemble, without its routes.
	like Update
	// shape is the part of a message that is common to all like it, empty for none.
	shape []byte
	spare []byte // for the next shape
}

// NewGatherer returns one for messages of this kind of neighbour.
func NewGatherer(from Source) *Gatherer { return &Gatherer{from: from} }

// maxGathered bounds the routes of a waiting update.
const maxGathered = 1024

// Add takes the body of an UPDATE. It returns the waiting update, when this one does not
// join it. It fails as [ParseUpdate] does.
func (g *Gatherer) Add(body []byte) (done *Update, err error) {
	shape, routes, ok := appendShape(g.spare[:0], body)
	g.spare = shape
	if !ok || !bytes.Equal(shape, g.shape) {
		done = g.Take()
		return done, g.begin(body, ok)
	}
	if g.waiting == nil || len(g.waiting.Reach)+len(g.waiting.Unreach) >= maxGathered {
		done = g.Take()
		like := g.like
		g.waiting = &like
	}
	return done, g.waiting.join(shape, routes)
}

// Take returns the waiting update, nil for none.
func (g *Gatherer) Take() *Update {
	done := g.waiting
	g.waiting = nil
	return done
}

// begin parses a message that is unlike the last one. shaped: its shape is in spare.
func (g *Gatherer) begin(body []byte, shaped bool) error {
	g.shape, g.spare = g.spare, g.shape[:0]
	// Decoded attributes may outlive the buffer.
	u, err := ParseUpdate(bytes.Clone(body), g.from)
	if err != nil {
		return err
	}
	g.waiting = &u
	if !shaped || !u.repeatable() {
		g.shape = g.shape[:0]
	}
	g.like = u
	g.like.Reach, g.like.Unreach = nil, nil
	return nil
}

// repeatable reports whether an update has nothing but routes, which are in one field.
func (u *Update) repeatable() bool {
	return len(u.Faults) == 0 && u.EndOfRIB == 0 && len(u.Plain) == 0 && (len(u.Reach) > 0) != (len(u.Unreach) > 0)
}

// The first bytes of a shape.
const (
	shapeKind   = 0 // the type of the attribute that has the routes
	shapeFamily = 4 // behind its flags, and the length of the part before it
)

// appendShape appends the shape of a message, and returns its routes. The shape is the part
// that a message shares with those that differ only in the routes of one multiprotocol
// attribute. A message without such an attribute has no shape.
func appendShape(shape, body []byte) (_, routes []byte, ok bool) {
	withdrawn, rest, ok := cutLength16(body)
	if !ok || len(withdrawn) > 0 {
		return shape, nil, false
	}
	attributes, nlri, ok := cutLength16(rest)
	if !ok || len(nlri) > 0 {
		return shape, nil, false
	}
	for b := attributes; len(b) > 0; {
		raw, value, ok := cutAttribute(b)
		if !ok {
			break
		}
		head := routesAt(bgp.BGPAttrType(raw[1]), value)
		if head == 0 {
			b = b[len(raw):]
			continue
		}
		before := attributes[:len(attributes)-len(b)]
		shape = append(shape, raw[1], raw[0])
		shape = binary.BigEndian.AppendUint16(shape, uint16(len(before)))
		shape = append(append(append(shape, value[:head]...), before...), b[len(raw):]...)
		return shape, value[head:], head < len(value)
	}
	return shape, nil, false
}

// routesAt is the offset of a multiprotocol attribute's routes, 0 where there are none.
func routesAt(kind bgp.BGPAttrType, value []byte) int {
	switch {
	case kind == bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI && len(value) > 3:
		return 3
	case kind == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI && len(value) > 5 && len(value) > 5+int(value[3]):
		return 5 + int(value[3])
	}
	return 0
}

// join adds the routes of a message of the same shape. It fails with [errUpdate].
func (u *Update) join(shape, routes []byte) error {
	family, _ := u.family(shape[shapeFamily:])
	list := &u.Unreach
	if bgp.BGPAttrType(shape[shapeKind]) == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI {
		list = &u.Reach
	}
	more, err := u.parseRoutes(*list, routes, family)
	if err == nil {
		*list = more
	}
	return err
}
