package config

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// PrefixRange is an entry of a prefix list: prefixes within one, with lengths from Min to
// Max.
type PrefixRange struct {
	Prefix   netip.Prefix
	Min, Max uint8
}

// ParsePrefixRange reads the text form: a prefix, which stands for itself alone, and after
// it `ge` and `le` with the lengths of those within it.
func ParsePrefixRange(text string) (PrefixRange, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return PrefixRange{}, fmt.Errorf("`%s` is no prefix such as `2001:db8::/32 le 48`", text)
	}
	prefix, err := parsePrefix(words[0])
	if err != nil {
		return PrefixRange{}, err
	}
	bits, longest := uint8(prefix.Bits()), uint8(prefix.Addr().BitLen())
	r := PrefixRange{prefix, bits, bits}
	for words = words[1:]; len(words) > 0; words = words[2:] {
		if len(words) < 2 {
			return r, fmt.Errorf("`%s` ends with `%s`; expected `ge` or `le` with a length", text, words[0])
		}
		length, err := strconv.ParseUint(words[1], 10, 8)
		if err != nil || uint8(length) < bits || uint8(length) > longest {
			return r, fmt.Errorf("`%s %s` of `%s`: a length from %d to %d is needed", words[0], words[1], text, bits, longest)
		}
		switch words[0] {
		case "ge":
			if r.Min = uint8(length); r.Max == bits {
				r.Max = longest
			}
		case "le":
			r.Max = uint8(length)
		default:
			return r, fmt.Errorf("`%s` has `%s`; expected `ge` or `le`", text, words[0])
		}
	}
	if r.Min > r.Max {
		return r, fmt.Errorf("`%s` matches no length: `ge` is above `le`", text)
	}
	return r, nil
}

// ASPathPattern is a regular expression for an AS_PATH.
type ASPathPattern struct {
	text       string
	expression *regexp.Regexp
}

// boundary is what `_` stands for: the ends of an AS number.
const boundary = `(?:^|[ ,{}()]|$)`

// ParseASPathPattern reads a regular expression (RE2), in which `_` stands for the ends of
// an AS number, as in other routers.
func ParseASPathPattern(text string) (ASPathPattern, error) {
	expression, err := regexp.Compile(strings.ReplaceAll(text, "_", boundary))
	if err != nil {
		return ASPathPattern{}, fmt.Errorf("`%s` is no regular expression: %s", text, err)
	}
	return ASPathPattern{text, expression}, nil
}

// String returns the text form.
func (p ASPathPattern) String() string { return p.text }

// Matches reports whether a path in its text form has a match.
func (p ASPathPattern) Matches(path string) bool { return p.expression.MatchString(path) }

// CommunityPattern matches communities of one kind.
type CommunityPattern struct {
	text string
	// size is 4, 8 or 12 bytes: a community, an extended or a large one.
	size       int
	bits, mask [12]byte
}

// String returns the text form.
func (p CommunityPattern) String() string { return p.text }

// Matches reports whether it matches a community as on the wire. Its size is 4 bytes, 8 of an
// extended one, or 12 of a large one.
func (p CommunityPattern) Matches(community []byte) bool {
	if len(community) != p.size {
		return false
	}
	for i, b := range community {
		if (b^p.bits[i])&p.mask[i] != 0 {
			return false
		}
	}
	return true
}

// extendedKinds are the types of extended communities that have names (RFC 4360 §4, §5):
// their second byte.
var extendedKinds = map[string]byte{"rt": 2, "soo": 3}

// ParseCommunityPattern reads the text form, in which `*` stands for any number. Examples are
// `64500:100`, the large community `64500:1:2`, and the extended one `rt:64500:100`. An
// extended one may also be written as `0x` and 16 digits.
func ParseCommunityPattern(text string) (CommunityPattern, error) {
	wrong := fmt.Errorf("reading a community from `%s`: expected `64500:100`, `64500:1:2`, `rt:64500:100`, "+
		"`soo:64500:100` or 0x and 16 hexadecimal digits; `*` stands for any number", text)
	p := CommunityPattern{text: text}
	if digits, ok := strings.CutPrefix(text, "0x"); ok {
		value, err := strconv.ParseUint(digits, 16, 64)
		if err != nil || len(digits) != 16 {
			return p, wrong
		}
		p.size = 8
		binary.BigEndian.PutUint64(p.bits[:], value)
		binary.BigEndian.PutUint64(p.mask[:], ^uint64(0))
		return p, nil
	}
	parts := strings.Split(text, ":")
	kind, extended := extendedKinds[parts[0]]
	var ok bool
	switch {
	case extended && len(parts) == 3:
		ok = p.extended(kind, parts[1], parts[2])
	case len(parts) == 2:
		p.size = 4
		ok = p.number(0, 2, parts[0]) && p.number(2, 2, parts[1])
	case len(parts) == 3:
		p.size = 12
		ok = p.number(0, 4, parts[0]) && p.number(4, 4, parts[1]) && p.number(8, 4, parts[2])
	}
	if !ok {
		return p, wrong
	}
	return p, nil
}

// extended takes the parts of an extended community. Its form depends on the first: an AS
// number of two bytes, one of four (RFC 5668 §2), or an address (RFC 4360 §3.2). Any one
// stands for an AS number of two bytes.
func (p *CommunityPattern) extended(kind byte, first, second string) bool {
	p.size = 8
	p.bits[1], p.mask[0], p.mask[1] = kind, 0xff, 0xff
	address, err := netip.ParseAddr(first)
	switch {
	case err == nil && address.Is4():
		p.bits[0] = 1
		copy(p.bits[2:], address.AsSlice())
		copy(p.mask[2:], []byte{0xff, 0xff, 0xff, 0xff})
		return p.number(6, 2, second)
	case p.number(2, 2, first):
		return p.number(4, 4, second)
	default:
		p.bits[0] = 2
		return p.number(2, 4, first) && p.number(6, 2, second)
	}
}

// number takes a number of so many bytes, or any.
func (p *CommunityPattern) number(at, size int, text string) bool {
	if text == "*" {
		return true
	}
	n, err := strconv.ParseUint(text, 10, 8*size)
	if err != nil {
		return false
	}
	for i := range size {
		p.bits[at+i], p.mask[at+i] = byte(n>>(8*(size-1-i))), 0xff
	}
	return true
}
