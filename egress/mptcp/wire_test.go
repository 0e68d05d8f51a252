package mptcp

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// encodeEvent writes an event as the kernel does.
func encodeEvent(t testing.TB, e Event) []byte {
	t.Helper()
	n := netlink.NewAttributeEncoder()
	n.Uint32(evToken, uint32(e.Token))
	saddr, daddr := uint16(evSaddr6), uint16(evDaddr6)
	if e.Local.Addr().Is4() {
		saddr, daddr = evSaddr4, evDaddr4
	}
	if e.Local.IsValid() {
		n.Bytes(saddr, e.Local.Addr().AsSlice())
		n.Bytes(evSport, binary.BigEndian.AppendUint16(nil, e.Local.Port()))
		n.Bytes(daddr, e.Remote.Addr().AsSlice())
		n.Bytes(evDport, binary.BigEndian.AppendUint16(nil, e.Remote.Port()))
	}
	n.Uint8(evLocID, e.LocalID)
	n.Uint8(evRemID, e.RemoteID)
	if e.Backup {
		n.Uint8(evBackup, 1)
	}
	if e.ServerSide {
		n.Uint16(evFlags, evFlagServerSide)
	}
	n.Uint8(evError, uint8(e.Error))
	n.Int32(evIfIndex, int32(e.Interface))
	n.Uint32(evResetReason, e.ResetReason)
	data, err := n.Encode()
	must(t, err)
	return data
}

func TestParseEvent(t *testing.T) {
	full := lostB
	full.Backup, full.RemoteID, full.Interface, full.ResetReason = true, 4, 7, resetMiddlebox
	for name, e := range map[string]Event{
		"IPv6 with everything": full,
		"connection by flag":   created,
		"IPv4": {Kind: EventSubEstablished, Token: 0xfffffffe,
			Local: netip.MustParseAddrPort("192.0.2.1:443"), Remote: netip.MustParseAddrPort("198.51.100.2:65535")},
		"closed": {Kind: EventClosed, Token: 5},
	} {
		want := e
		if !want.Local.IsValid() {
			want.Local, want.Remote = netip.AddrPortFrom(netip.Addr{}, 0), netip.AddrPortFrom(netip.Addr{}, 0)
		}
		if got, err := parseEvent(uint8(e.Kind), encodeEvent(t, e)); err != nil || got != want {
			t.Errorf("%s: parsed %+v, %v, want %+v", name, got, err, want)
		}
	}
	noAddress := Event{Kind: EventCreated, Token: 5}
	if _, err := parseEvent(uint8(EventCreated), encodeEvent(t, noAddress)); err == nil {
		t.Error("a connection without addresses was accepted")
	}
	if _, err := parseEvent(uint8(EventClosed), []byte{1, 2, 3}); err == nil {
		t.Error("half an attribute was accepted")
	}
	messages := []genetlink.Message{
		{Header: genetlink.Header{Command: uint8(EventCreated)}, Data: encodeEvent(t, noAddress)},
		{Header: genetlink.Header{Command: uint8(EventClosed)}, Data: encodeEvent(t, Event{Kind: EventClosed, Token: 7})},
	}
	events, err := parseEvents(messages)
	if !errors.Is(err, ErrUndecodable) || len(events) != 1 || events[0].Token != 7 {
		t.Errorf("beside an event that is not understood there are %+v, %v", events, err)
	}
}

// Whatever comes, the state must hold together: events are all that the
// Manager gets from the kernel.
func FuzzParseEvent(f *testing.F) {
	for _, e := range []Event{created, settled, joinB, lostB, {Kind: EventClosed, Token: 1}} {
		f.Add(uint8(e.Kind), encodeEvent(f, e))
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		e, err := parseEvent(kind, data)
		if err != nil {
			return
		}
		state := newConnections()
		for _, e := range []Event{created, joinB, e, lostB, e} {
			state.apply(e, testTime)
		}
		if len(state.byToken) < len(state.byTuple) {
			t.Errorf("after %+v there are %d tuples for %d connections", e, len(state.byTuple), len(state.byToken))
		}
		for key, token := range state.byTuple {
			if c := state.byToken[token]; c == nil || tupleOf(c.Local, c.Remote) != key {
				t.Errorf("after %+v the tuple %v names connection %v", e, key, c)
			}
		}
	})
}

func FuzzParseDiag(f *testing.F) {
	f.Add(make([]byte, diagMessageLen), true)
	message := make([]byte, diagMessageLen, 200)
	message[0] = unix.AF_INET6
	n := netlink.NewAttributeEncoder()
	n.Bytes(diagInfo, make([]byte, 64))
	n.Nested(diagULPInfo, func(n *netlink.AttributeEncoder) error {
		n.Nested(ulpInfoMPTCP, func(n *netlink.AttributeEncoder) error {
			n.Uint32(subflowAttrTokenLocal, 1)
			return nil
		})
		return nil
	})
	attributes, err := n.Encode()
	must(f, err)
	f.Add(append(message, attributes...), false)
	f.Fuzz(func(t *testing.T, data []byte, mptcp bool) {
		protocol := uint32(unix.IPPROTO_TCP)
		if mptcp {
			protocol = unix.IPPROTO_MPTCP
		}
		s, err := parseDiag(data, protocol)
		if err == nil && (!s.local.IsValid() || !s.remote.IsValid()) {
			t.Errorf("%s gave a socket without addresses: %+v", hex.EncodeToString(data), s)
		}
	})
}

func TestEncodeCommandRefuses(t *testing.T) {
	for name, c := range map[string]Command{
		"an unknown kind":                  {Kind: 99},
		"an announcement without address":  {Kind: Announce, ID: 1},
		"a subflow without remote address": {Kind: DestroySubflow, Local: serverAddr},
	} {
		if _, _, err := encodeCommand(c); err == nil {
			t.Errorf("%s was encoded", name)
		}
	}
}

func TestEndpointRoundTrip(t *testing.T) {
	for _, want := range []Endpoint{
		{ID: 3, Addr: epeB, Signal: true},
		{ID: 255, Addr: v4B, Port: 8443, Interface: 4, Signal: true, Subflow: true, Backup: true, Fullmesh: true},
	} {
		n := netlink.NewAttributeEncoder()
		nestEndpoint(n, attrAddr, want)
		data, err := n.Encode()
		must(t, err)
		if got, err := decodeEndpoint(data); err != nil || got != want {
			t.Errorf("read back %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := decodeEndpoint(nil); err == nil {
		t.Error("an endpoint without address was accepted")
	}
}
