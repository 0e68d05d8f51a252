package rtr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"
	"unicode/utf8"

	"hikyaku/egress/rpki"
)

// kind is the type of a PDU (RFC 8210 §5).
type kind uint8

const (
	serialNotify  kind = 0
	serialQuery   kind = 1
	resetQuery    kind = 2
	cacheResponse kind = 3
	ipv4Prefix    kind = 4
	ipv6Prefix    kind = 6
	endOfData     kind = 7
	cacheReset    kind = 8
	routerKey     kind = 9
	errorReport   kind = 10
)

// Codes of error reports (RFC 8210 §12).
const (
	corruptData                = 0
	noDataAvailable            = 2
	unsupportedVersion         = 4
	unsupportedPDU             = 5
	withdrawalOfUnknown        = 6
	duplicateAnnouncement      = 7
	unexpectedVersion          = 8
	headerLength               = 8
	maxPDU                     = 64 << 10 // of a router key or an error report
	newestVersion              = 1
	announcement          byte = 1
)

// pdu is a PDU that a cache sends, decoded.
type pdu struct {
	version uint8
	kind    kind
	session uint16 // or the code of an error report
	serial  uint32
	// vrp and announced are those of a prefix.
	vrp       rpki.VRP
	announced bool
	// Intervals of End of Data of version 1.
	refresh, retry, expire time.Duration
	text                   string // of an error report
}

// protocolError is a fault of the cache, with its code for an error report.
type protocolError struct {
	code   uint16
	reason string
	pdu    []byte // that it is in
}

func (e protocolError) Error() string { return e.reason }

func faulty(code uint16, raw []byte, reason string, args ...any) error {
	return protocolError{code, fmt.Sprintf(reason, args...), raw}
}

// readPDU reads one PDU. It fails with a [protocolError] where that is malformed.
func readPDU(r io.Reader) (pdu, error) {
	raw := make([]byte, headerLength, 64)
	if _, err := io.ReadFull(r, raw); err != nil {
		return pdu{}, err
	}
	length := binary.BigEndian.Uint32(raw[4:])
	if length < headerLength || length > maxPDU {
		return pdu{}, faulty(corruptData, raw, "a PDU of %d bytes", length)
	}
	raw = append(raw, make([]byte, length-headerLength)...)
	if _, err := io.ReadFull(r, raw[headerLength:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return pdu{}, err
	}
	return parsePDU(raw)
}

// parsePDU decodes a whole PDU.
func parsePDU(raw []byte) (pdu, error) {
	if len(raw) < headerLength {
		return pdu{}, faulty(corruptData, raw, "a PDU of %d bytes", len(raw))
	}
	p := pdu{version: raw[0], kind: kind(raw[1]), session: binary.BigEndian.Uint16(raw[2:])}
	if p.kind == errorReport {
		return p, p.parseError(raw)
	}
	if p.version > newestVersion {
		return p, faulty(unexpectedVersion, raw, "a PDU of version %d", p.version)
	}
	want := map[kind]int{
		serialNotify: 12, cacheResponse: headerLength, ipv4Prefix: 20, ipv6Prefix: 32,
		endOfData: 12 + 12*int(p.version), cacheReset: headerLength, routerKey: len(raw),
	}
	length, known := want[p.kind]
	switch {
	case !known || p.kind == routerKey && p.version == 0:
		return p, faulty(unsupportedPDU, raw, "a PDU of type %d", p.kind)
	case len(raw) != length:
		return p, faulty(corruptData, raw, "a PDU of type %d with %d bytes instead of %d", p.kind, len(raw), length)
	}
	body := raw[headerLength:]
	switch p.kind {
	case serialNotify, endOfData:
		p.serial = binary.BigEndian.Uint32(body)
		if len(body) > 4 {
			p.refresh, p.retry, p.expire = seconds(body[4:]), seconds(body[8:]), seconds(body[12:])
		}
	case ipv4Prefix, ipv6Prefix:
		return p, p.parsePrefix(raw, body)
	}
	return p, nil
}

func seconds(b []byte) time.Duration { return time.Duration(binary.BigEndian.Uint32(b)) * time.Second }

// parsePrefix reads an IPv4 or IPv6 prefix (RFC 8210 §5.6, §5.7).
func (p *pdu) parsePrefix(raw, body []byte) error {
	address, _ := netip.AddrFromSlice(body[4 : len(body)-4])
	vrp, err := rpki.NewVRP(netip.PrefixFrom(address, int(body[1])), body[2], binary.BigEndian.Uint32(body[len(body)-4:]))
	if err != nil {
		return faulty(corruptData, raw, "%s", err)
	}
	p.vrp, p.announced = vrp, body[0]&announcement != 0
	return nil
}

// parseError reads an error report (RFC 8210 §5.11). Nobody answers a malformed one.
func (p *pdu) parseError(raw []byte) error {
	body := raw[headerLength:]
	if len(body) < 4 {
		return errors.New("a malformed error report")
	}
	enclosed := uint64(binary.BigEndian.Uint32(body))
	if uint64(len(body)) < 4+enclosed+4 {
		return nil // it has no text
	}
	text := body[4+enclosed+4:]
	text = text[:min(uint64(len(text)), uint64(binary.BigEndian.Uint32(body[4+enclosed:])))]
	if utf8.Valid(text) {
		p.text = string(text)
	}
	return nil
}

// appendQuery appends a Serial Query (RFC 8210 §5.3).
func appendSerialQuery(b []byte, version uint8, session uint16, serial uint32) []byte {
	b = binary.BigEndian.AppendUint16(append(b, version, byte(serialQuery)), session)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 12), serial)
}

// appendResetQuery appends a Reset Query (RFC 8210 §5.4).
func appendResetQuery(b []byte, version uint8) []byte {
	return binary.BigEndian.AppendUint32(append(b, version, byte(resetQuery), 0, 0), headerLength)
}

// appendErrorReport appends an error report (RFC 8210 §5.11).
func appendErrorReport(b []byte, version uint8, e protocolError) []byte {
	b = binary.BigEndian.AppendUint16(append(b, version, byte(errorReport)), e.code)
	b = binary.BigEndian.AppendUint32(b, uint32(headerLength+4+len(e.pdu)+4+len(e.reason)))
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(e.pdu))), e.pdu...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(e.reason))), e.reason...)
}
