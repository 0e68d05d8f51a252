// Package rtnl exchanges batches of rtnetlink messages with the kernel.
//
// The netlink libraries send one request and wait for its answer. Loading hundreds of
// thousands of routes that way costs two system calls and two wake-ups for each. Here many
// messages go in one call and only the last asks for an acknowledgement. The kernel still
// answers each that failed.
package rtnl

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Batch is a sequence of messages under construction. The zero value is empty.
type Batch struct {
	buf []byte
	// starts holds the offset of each message.
	starts []int
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.buf = b.buf[:0]
	b.starts = b.starts[:0]
}

// Len returns the number of messages.
func (b *Batch) Len() int { return len(b.starts) }

// Message returns a message, with its header as it is before the batch is sent.
func (b *Batch) Message(n int) []byte {
	if n+1 < len(b.starts) {
		return b.buf[b.starts[n]:b.starts[n+1]]
	}
	return b.buf[b.starts[n]:]
}

// Begin starts a message with its fixed header. [Batch.End] must follow.
func (b *Batch) Begin(kind, flags uint16, header ...byte) {
	b.starts = append(b.starts, len(b.buf))
	b.buf = append(b.buf, make([]byte, unix.NLMSG_HDRLEN)...)
	head := b.last()
	binary.NativeEndian.PutUint16(head[4:], kind)
	binary.NativeEndian.PutUint16(head[6:], flags|unix.NLM_F_REQUEST)
	b.buf = append(b.buf, header...)
	b.pad()
}

// End closes the message that Begin started.
func (b *Batch) End() {
	head := b.last()
	binary.NativeEndian.PutUint32(head, uint32(len(head)))
}

// Bytes appends an attribute.
func (b *Batch) Bytes(kind uint16, value []byte) {
	b.attribute(kind, len(value))
	b.buf = append(b.buf, value...)
	b.pad()
}

// String appends an attribute with its closing zero.
func (b *Batch) String(kind uint16, value string) {
	b.attribute(kind, len(value)+1)
	b.buf = append(append(b.buf, value...), 0)
	b.pad()
}

// Uint8 appends an attribute.
func (b *Batch) Uint8(kind uint16, value uint8) {
	b.attribute(kind, 1)
	b.buf = append(b.buf, value)
	b.pad()
}

// Uint16 appends an attribute in the machine's byte order.
func (b *Batch) Uint16(kind uint16, value uint16) {
	b.attribute(kind, 2)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, value)
	b.pad()
}

// Uint32 appends an attribute in the machine's byte order.
func (b *Batch) Uint32(kind uint16, value uint32) {
	b.attribute(kind, 4)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, value)
}

// Raw appends bytes as they are, such as a header inside an attribute.
func (b *Batch) Raw(value []byte) {
	b.buf = append(b.buf, value...)
	b.pad()
}

// Nested appends an attribute that holds the output of fill.
func (b *Batch) Nested(kind uint16, fill func()) {
	start := len(b.buf)
	b.attribute(kind|unix.NLA_F_NESTED, 0)
	fill()
	binary.NativeEndian.PutUint16(b.buf[start:], uint16(len(b.buf)-start))
}

func (b *Batch) attribute(kind uint16, size int) {
	b.buf = binary.NativeEndian.AppendUint16(b.buf, uint16(unix.SizeofRtAttr+size))
	b.buf = binary.NativeEndian.AppendUint16(b.buf, kind)
}

// pad aligns to 4 bytes, as each part of a netlink message is.
func (b *Batch) pad() {
	for len(b.buf)%unix.NLMSG_ALIGNTO != 0 {
		b.buf = append(b.buf, 0)
	}
}

func (b *Batch) last() []byte { return b.buf[b.starts[len(b.starts)-1]:] }

// seal numbers the messages from first on and asks for the last one's acknowledgement.
func (b *Batch) seal(first uint32) {
	for i, start := range b.starts {
		binary.NativeEndian.PutUint32(b.buf[start+8:], first+uint32(i))
	}
	head := b.last()
	flags := binary.NativeEndian.Uint16(head[6:])
	binary.NativeEndian.PutUint16(head[6:], flags|unix.NLM_F_ACK)
}
