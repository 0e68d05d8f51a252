package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// maxBody is the size of a request's body in bytes; 1000 prefixes take less.
const maxBody = 128 << 10

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *ClientPrefix) UnmarshalText(text []byte) error {
	prefix, err := parseClient(string(text))
	*c = ClientPrefix(prefix)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (c ClientPrefix) MarshalText() ([]byte, error) { return netip.Prefix(c).MarshalText() }

func parseClient(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%w: %q is no address and no prefix", ErrInvalid, text)
	}
	if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), nil
}

// readBody decodes a JSON body into a value. A field that the value has no place for is
// refused, since a misspelt field would otherwise mean its default.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fmt.Errorf("%w: the body must be JSON: send `Content-Type: application/json`", ErrInvalid)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return fmt.Errorf("%w: the body has more than %d bytes", ErrInvalid, maxBody)
	case err != nil:
		return fmt.Errorf("%w: reading the body: %w", ErrInvalid, err)
	case hasNull(body):
		return fmt.Errorf("%w: the body has `null`: leave out what has no value", ErrInvalid)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: reading the body: %w", ErrInvalid, inWords(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the JSON value in the body", ErrInvalid)
	}
	return nil
}

// inWords names a value of a wrong type by its field in JSON, without the names of Go's types.
func inWords(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return err
	}
	field := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
	return fmt.Errorf("`%s` has %s, which does not fit", field, wrong.Value)
}

// hasNull reports whether `null` stands anywhere in JSON, which decoding would take for the zero
// value.
func hasNull(body []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(body))
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if token == nil {
			return true
		}
	}
}

var (
	policyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	className  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	modes      = []Mode{Adaptive, Plain, Steered, Aggregated}
)

// check returns a fault of a policy by itself. The backend checks whether its paths exist.
func (p *Policy) check() error {
	if !policyName.MatchString(p.Name) {
		return fmt.Errorf("%w: `name` %q is not 1 to 64 letters, digits, `.`, `_` and `-`", ErrInvalid, p.Name)
	}
	if !slices.Contains(modes, p.Mode) {
		return fmt.Errorf("%w: `mode` is %q, expected one of %q", ErrInvalid, p.Mode, modes)
	}
	if slices.Contains(p.ASNs, 0) {
		return fmt.Errorf("%w: `asns` has 0, which is no AS (RFC 7607)", ErrInvalid)
	}
	for _, class := range p.Classes {
		if !className.MatchString(class) {
			return fmt.Errorf("%w: `classes` has %q, which is not 1 to 64 letters, digits, `.`, `_` and `-`", ErrInvalid, class)
		}
	}
	for _, path := range p.Backup {
		if len(p.Paths) > 0 && !slices.Contains(p.Paths, path) {
			return fmt.Errorf("%w: `backup` has %q, which is not among `paths`", ErrConflict, path)
		}
	}
	return nil
}

func (c *Connection) check() error {
	if c.Token == 0 && (!c.Local.IsValid() || !c.Remote.IsValid()) {
		return fmt.Errorf("%w: name the connection by `token`, or by `local` and `remote`", ErrInvalid)
	}
	if c.Mode != "" && !slices.Contains(modes, c.Mode) {
		return fmt.Errorf("%w: `mode` is %q, expected one of %q", ErrInvalid, c.Mode, modes)
	}
	if c.Class != "" && !className.MatchString(c.Class) {
		return fmt.Errorf("%w: `class` is %q, which is not 1 to 64 letters, digits, `.`, `_` and `-`", ErrInvalid, c.Class)
	}
	if len(c.Order) > maxOrder {
		return fmt.Errorf("%w: `order` has %d subflows, at most %d are taken", ErrInvalid, len(c.Order), maxOrder)
	}
	for _, s := range c.Order {
		if !s.Local.IsValid() || !s.Remote.IsValid() {
			return fmt.Errorf("%w: each subflow of `order` needs `local` and `remote`", ErrInvalid)
		}
	}
	return nil
}

// maxOrder is the largest number of subflows in [Connection.Order].
const maxOrder = 16
