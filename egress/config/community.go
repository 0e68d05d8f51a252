package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Community is a BGP community: two numbers of 16 bits (RFC 1997), or three of
// 32 bits (large, RFC 8092).
type Community struct {
	Large bool
	// Parts are two, or three of a large one.
	Parts [3]uint32
}

// String returns the text form, "64500:100" or "64500:1:2".
func (c Community) String() string {
	if c.Large {
		return fmt.Sprintf("%d:%d:%d", c.Parts[0], c.Parts[1], c.Parts[2])
	}
	return fmt.Sprintf("%d:%d", c.Parts[0], c.Parts[1])
}

// ParseCommunity reads the text form.
func ParseCommunity(text string) (Community, error) {
	wrong := fmt.Errorf("reading a community from `%s`: expected two numbers up to 65535 such as "+
		"`64500:100`, or three up to 4294967295 such as `64500:1:2`", text)
	parts := strings.Split(text, ":")
	bits := 16
	switch len(parts) {
	case 2:
	case 3:
		bits = 32
	default:
		return Community{}, wrong
	}
	c := Community{Large: bits == 32}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, bits)
		if err != nil {
			return Community{}, wrong
		}
		c.Parts[i] = uint32(n)
	}
	return c, nil
}
