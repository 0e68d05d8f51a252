package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"hikyaku/egress/srv6"
)

// reader reads the text of a scalar.
type reader struct {
	kinds    []unstable.Kind
	expected string
	read     func(text string) (any, error)
}

// readers has one for each type that a key's value can have. It is never
// written to.
var readers = map[reflect.Type]reader{
	reflect.TypeFor[string]():                  stringReader("a string", func(text string) (string, error) { return text, nil }),
	reflect.TypeFor[bool]():                    {[]unstable.Kind{unstable.Bool}, "true or false", func(text string) (any, error) { return text == "true", nil }},
	reflect.TypeFor[uint8]():                   numberReader(8),
	reflect.TypeFor[uint16]():                  numberReader(16),
	reflect.TypeFor[uint32]():                  numberReader(32),
	reflect.TypeFor[time.Duration]():           stringReader(durationForm, parseDuration),
	reflect.TypeFor[netip.Addr]():              stringReader("an address such as \"2001:db8::1\"", parseAddr),
	reflect.TypeFor[netip.Prefix]():            stringReader("a prefix such as \"2001:db8::/32\"", parsePrefix),
	reflect.TypeFor[netip.AddrPort]():          stringReader("ADDRESS:PORT such as \"127.0.0.1:9100\"", parseAddrPort),
	reflect.TypeFor[fs.FileMode]():             stringReader("octal digits as a string, such as \"0660\"", parseMode),
	reflect.TypeFor[Tables]():                  stringReader("a range as a string, such as \"10000-10999\"", parseTables),
	reflect.TypeFor[Community]():               stringReader("a community such as \"64500:100\"", ParseCommunity),
	reflect.TypeFor[srv6.RouteDistinguisher](): stringReader("a route distinguisher such as \"192.0.2.1:7\"", srv6.ParseRouteDistinguisher),
	reflect.TypeFor[srv6.RouteTarget]():        stringReader("a route target such as \"192.0.2.1:7\"", srv6.ParseRouteTarget),
	reflect.TypeFor[MTU]():                     {[]unstable.Kind{unstable.Integer, unstable.String}, "\"auto\" or a number of bytes", parseMTU},
	reflect.TypeFor[Output]():                  stringReader("\"off\", \"stdout\" or a file", parseOutput),
	reflect.TypeFor[Role]():                    enumReader(RoleBorder, RoleServer),
	reflect.TypeFor[LogFormat]():               enumReader(LogText, LogJSON),
	reflect.TypeFor[Level]():                   enumReader(LevelError, LevelWarn, LevelInfo, LevelDebug),
	reflect.TypeFor[Drop]():                    enumReader(DropUnreachable, DropProhibit, DropBlackhole),
	reflect.TypeFor[Toggle]():                  enumReader(ToggleAuto, ToggleOn, ToggleOff),
	reflect.TypeFor[Family]():                  enumReader(FamilyIPv6, FamilyIPv4),
	reflect.TypeFor[PrefixRange]():             stringReader("a prefix such as \"2001:db8::/32 le 48\"", ParsePrefixRange),
	reflect.TypeFor[ASPathPattern]():           stringReader("a regular expression such as \"_64496$\"", ParseASPathPattern),
	reflect.TypeFor[CommunityPattern]():        stringReader("a community such as \"64500:100\"", ParseCommunityPattern),
	reflect.TypeFor[MaxPrefixAction]():         enumReader(MaxPrefixRefuse, MaxPrefixWarn, MaxPrefixTeardown),
	reflect.TypeFor[LocalRole]():               enumReader(RoleNone, RoleProvider, RoleCustomer, RolePeer, RoleRouteServer, RoleRouteServerClient),
	reflect.TypeFor[RouteSource]():             enumReader(RoutesBySession, RoutesByBMP, RoutesByAddPath),
	reflect.TypeFor[Rate]():                    stringReader(rateForm, parseRate),
	reflect.TypeFor[Price]():                   {[]unstable.Kind{unstable.Integer, unstable.Float}, "a price such as 0.45", parsePrice},
	reflect.TypeFor[PortKind]():                enumReader(PortPeering, PortTransit),
	reflect.TypeFor[Billing]():                 enumReader(BillingFlat, BillingPercentile),
	reflect.TypeFor[MPTCPMode]():               enumReader(MPTCPOff, MPTCPKernel, MPTCPUserspace),
}

func stringReader[T any](expected string, read func(string) (T, error)) reader {
	return reader{[]unstable.Kind{unstable.String}, expected, func(text string) (any, error) { return read(text) }}
}

func enumReader[T ~string](values ...T) reader {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strconv.Quote(string(value))
	}
	expected := "one of " + strings.Join(quoted, ", ")
	return stringReader(expected, func(text string) (T, error) {
		if !slices.Contains(values, T(text)) {
			return "", fmt.Errorf("%q is unknown; expected %s", text, expected)
		}
		return T(text), nil
	})
}

func numberReader(bits int) reader {
	expected := fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<bits-1)
	return reader{[]unstable.Kind{unstable.Integer}, expected, func(text string) (any, error) {
		n, err := strconv.ParseUint(strings.TrimPrefix(strings.ReplaceAll(text, "_", ""), "+"), 0, bits)
		if err != nil {
			return nil, fmt.Errorf("%s is out of range; expected %s", text, expected)
		}
		return n, nil
	}}
}

const durationForm = "a number and one of ns, us, ms, s, m, h, d as a string, such as \"15s\""

var (
	durationText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h|d)$`)
	numberText   = regexp.MustCompile(`^[0-9]+(?:\.[0-9]+)?$`)
)

// parseDuration reads what the edge server's configuration has for durations,
// too.
func parseDuration(text string) (time.Duration, error) {
	wrong := func(why string) (time.Duration, error) {
		return 0, fmt.Errorf("reading a duration from `%s`: %s; expected %s", text, why, durationForm)
	}
	match := durationText.FindStringSubmatch(text)
	switch {
	case match == nil && numberText.MatchString(text):
		return wrong("the unit is missing")
	case match == nil:
		return wrong("not a decimal number with a unit")
	}
	unit, days := match[2], time.Duration(1)
	if unit == "d" {
		unit, days = "h", 24
	}
	duration, err := time.ParseDuration(match[1] + unit)
	if err != nil || duration > 100*365*24*time.Hour/days {
		return wrong("too large")
	}
	return duration * days, nil
}

func parseAddr(text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Is4In6() {
		return netip.Addr{}, fmt.Errorf("`%s` is no IPv6 or IPv4 address", text)
	}
	return address, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("`%s` is no prefix such as 2001:db8::/32", text)
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, fmt.Errorf("`%s` has bits set after its length: write %s", text, prefix.Masked())
	}
	return prefix, nil
}

func parseAddrPort(text string) (netip.AddrPort, error) {
	if text == "" {
		return netip.AddrPort{}, nil
	}
	address, err := netip.ParseAddrPort(text)
	if err != nil || address.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("`%s` is no ADDRESS:PORT such as 127.0.0.1:9100", text)
	}
	return address, nil
}

func parseMode(text string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("`%s` is no mode; expected three octal digits, such as `0660`", text)
	}
	return fs.FileMode(mode), nil
}

func parseTables(text string) (Tables, error) {
	first, last, found := strings.Cut(text, "-")
	low, errLow := strconv.ParseUint(first, 10, 32)
	high, errHigh := strconv.ParseUint(last, 10, 32)
	if !found || errLow != nil || errHigh != nil || low > high {
		return Tables{}, fmt.Errorf("`%s` is no range of tables; expected FIRST-LAST, such as `10000-10999`", text)
	}
	return Tables{uint32(low), uint32(high)}, nil
}

func parseMTU(text string) (any, error) {
	if text == "auto" {
		return MTU(0), nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < minMTU || n > 65535 {
		return nil, fmt.Errorf("`%s` is no MTU; expected \"auto\" or a number from %d to 65535 "+
			"(IPv6's smallest MTU and %d bytes of SRv6)", text, minMTU, EncapOverhead)
	}
	return MTU(n), nil
}

const minMTU = 1280 + EncapOverhead

func parseOutput(text string) (Output, error) {
	if text == "" {
		return "", errors.New("nothing is named; expected \"off\", \"stdout\" or a file")
	}
	return Output(text), nil
}
