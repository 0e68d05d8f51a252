package rtnl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBatchIsReadAsWritten(t *testing.T) {
	var b Batch
	for range 2 {
		b.Reset()
		b.Begin(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, 1, 2, 3)
		b.Uint8(1, 8)
		b.Uint16(2, 1600)
		b.Uint32(3, 1<<30)
		b.String(4, "eth0")
		b.Bytes(5, netip.MustParseAddr("192.0.2.1").AsSlice())
		b.Nested(6, func() { b.Uint32(7, 9) })
		b.End()
		b.Begin(unix.RTM_DELROUTE, 0)
		b.End()
	}
	b.seal(40)
	messages, err := split(b.buf)
	if err != nil || len(messages) != 2 || b.Len() != 2 {
		t.Fatalf("two messages are read as %d, %v", len(messages), err)
	}
	first, second := messages[0], messages[1]
	if first.kind != unix.RTM_NEWROUTE || first.flags != unix.NLM_F_REQUEST|unix.NLM_F_CREATE || first.seq != 40 {
		t.Errorf("the first message's header is %+v", first)
	}
	if second.kind != unix.RTM_DELROUTE || second.flags != unix.NLM_F_REQUEST|unix.NLM_F_ACK || second.seq != 41 {
		t.Errorf("the last message's header is %+v, want one that asks for an answer", second)
	}
	if !bytes.Equal(first.body[:4], []byte{1, 2, 3, 0}) {
		t.Errorf("the fixed header is %v, want it padded to 4 bytes", first.body[:4])
	}
	values := make(map[uint16][]byte)
	for kind, value := range Attributes(first.body[4:]) {
		values[kind] = value
	}
	var inner uint32
	for kind, value := range Attributes(values[6]) {
		inner = uint32(kind)<<16 | Uint32(value)
	}
	if Uint8(values[1]) != 8 || Uint16(values[2]) != 1600 || Uint32(values[3]) != 1<<30 ||
		String(values[4]) != "eth0" || Addr(values[5]).String() != "192.0.2.1" || inner != 7<<16|9 {
		t.Errorf("the attributes are read as %v", values)
	}
}

func TestShortValuesAreZero(t *testing.T) {
	if Uint8(nil) != 0 || Uint16([]byte{1}) != 0 || Uint32([]byte{1, 2, 3}) != 0 || Addr([]byte{1}).IsValid() || String(nil) != "" {
		t.Error("a value that is too short is not read as zero")
	}
}

func TestKernelErrorIsRead(t *testing.T) {
	refusal := func(flags uint16, errno int32, rest ...byte) message {
		body := binary.NativeEndian.AppendUint32(nil, uint32(errno))
		body = append(body, make([]byte, unix.NLMSG_HDRLEN)...)
		return message{kind: unix.NLMSG_ERROR, flags: flags, body: append(body, rest...)}
	}
	words := append([]byte{10, 0, unix.NLMSGERR_ATTR_MSG, 0}, "no way\x00\x00"...)
	binary.NativeEndian.PutUint16(words, 11)
	binary.NativeEndian.PutUint16(words[2:], unix.NLMSGERR_ATTR_MSG)
	for name, c := range map[string]struct {
		message message
		want    string
	}{
		"success":                 {refusal(0, 0), ""},
		"a number":                {refusal(0, -int32(unix.EEXIST)), "file exists"},
		"a number and words":      {refusal(unix.NLM_F_ACK_TLVS, -int32(unix.EINVAL), words...), "no way (invalid argument)"},
		"words cut off":           {refusal(unix.NLM_F_ACK_TLVS, -int32(unix.EINVAL), words[:6]...), "invalid argument"},
		"a body without a number": {message{kind: unix.NLMSG_ERROR, body: []byte{1}}, ""},
	} {
		err := parseError(c.message)
		switch {
		case err == nil && c.want != "", err != nil && err.Error() != c.want:
			t.Errorf("%s is read as %v, want %q", name, err, c.want)
		case err != nil && !errors.Is(err, err.Errno):
			t.Errorf("%s: errors.Is does not find the number", name)
		}
	}
}

// FuzzSplit: what the kernel sends is trusted, but not to be of this kernel's version.
func FuzzSplit(f *testing.F) {
	var b Batch
	b.Begin(unix.RTM_NEWROUTE, 0, make([]byte, 12)...)
	b.Nested(1, func() { b.Uint32(2, 3) })
	b.End()
	f.Add(b.buf)
	f.Add(b.buf[:17])
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, datagram []byte) {
		messages, err := split(datagram)
		if err != nil {
			return
		}
		size := 0
		for _, m := range messages {
			size += unix.NLMSG_HDRLEN + len(m.body)
			parseError(m)
			for _, value := range Attributes(m.body) {
				if len(value) > len(m.body) {
					t.Fatalf("an attribute of %d bytes in a body of %d", len(value), len(m.body))
				}
			}
		}
		if size > len(datagram) {
			t.Fatalf("%d bytes of messages in a datagram of %d", size, len(datagram))
		}
	})
}
