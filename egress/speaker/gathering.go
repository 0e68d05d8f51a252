package speaker

import (
	"bytes"
	"encoding/binary"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// gathering makes one update of UPDATE messages that follow each other and say the same
// of other routes: gobgpd sends each of its 800,000 routes in a message of its own, whose
// attributes would be read as often, and whose events handed over one by one.
type gathering struct {
	from source
	// waiting may still grow; nil for none.
	waiting *routeUpdate
	// like is the last update that others may be like, without its routes, and shape
	// what they have in common with it, empty for none.
	like  routeUpdate
	shape []byte
	spare []byte // for the next shape
}

// maxGathered bounds the routes of what waits.
const maxGathered = 1024

// add takes the body of an UPDATE. It returns what waited, when this does not join it. It
// fails as [parseUpdate] does.
func (g *gathering) add(body []byte) (done *routeUpdate, err error) {
	shape, routes, ok := appendShape(g.spare[:0], body)
	g.spare = shape
	if !ok || !bytes.Equal(shape, g.shape) {
		done = g.take()
		return done, g.begin(body, ok)
	}
	if g.waiting == nil || len(g.waiting.reach)+len(g.waiting.unreach) >= maxGathered {
		done = g.take()
		like := g.like
		g.waiting = &like
	}
	return done, g.waiting.join(shape, routes)
}

// take ends the wait for more.
func (g *gathering) take() *routeUpdate {
	done := g.waiting
	g.waiting = nil
	return done
}

// begin reads a message that is unlike the last one. shaped: its shape is in spare.
func (g *gathering) begin(body []byte, shaped bool) error {
	g.shape, g.spare = g.spare, g.shape[:0]
	// What is decoded of it may outlive the buffer.
	u, err := parseUpdate(bytes.Clone(body), g.from)
	if err != nil {
		return err
	}
	g.waiting = &u
	if !shaped || !u.repeatable() {
		g.shape = g.shape[:0]
	}
	g.like = u
	g.like.reach, g.like.unreach = nil, nil
	return nil
}

// repeatable tells whether all that there is to say of an update is its routes, which are
// in one field.
func (u *routeUpdate) repeatable() bool {
	return len(u.faults) == 0 && u.endOfRIB == 0 && len(u.plain) == 0 && (len(u.reach) > 0) != (len(u.unreach) > 0)
}

// The first bytes of a shape.
const (
	shapeKind   = 0 // the type of the attribute that has the routes
	shapeFamily = 4 // behind its flags, and the length of what is before it
)

// appendShape appends what two messages have in common that differ in nothing but the
// routes of one multiprotocol attribute, and returns these apart. A message without such
// an attribute has no shape.
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

// routesAt is where a multiprotocol attribute has its routes, 0 where there are none.
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
func (u *routeUpdate) join(shape, routes []byte) error {
	family, _ := u.family(shape[shapeFamily:])
	list := &u.unreach
	if bgp.BGPAttrType(shape[shapeKind]) == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI {
		list = &u.reach
	}
	more, err := parseRoutes(*list, routes, family)
	if err == nil {
		*list = more
	}
	return err
}
