package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"hikyaku/egress/srv6"
)

const (
	borderExample = "../../conf/egress-border.toml"
	serverExample = "../../conf/egress-server.toml"
)

// decodeExample reads an example without the checks: keys that are needed are
// commented out there.
func decodeExample(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root, syntax := parseDocument(text)
	if syntax != nil {
		t.Fatal(syntax)
	}
	d := newDecoder(text)
	d.table(root, reflect.ValueOf(into).Elem(), "")
	for _, problem := range d.problems {
		t.Error(problem)
	}
}

func TestExamplesShowTheDefaults(t *testing.T) {
	// Begin with nothing, so that a key which the example lacks is noticed.
	var border Border
	decodeExample(t, borderExample, &border)
	if want := DefaultBorder(); !sameIgnoringEmpty(border, want) {
		t.Errorf("border:\n got %+v\nwant %+v", border, want)
	}
	var server Server
	decodeExample(t, serverExample, &server)
	if want := DefaultServer(); !sameIgnoringEmpty(server, want) {
		t.Errorf("server:\n got %+v\nwant %+v", server, want)
	}
}

// sameIgnoringEmpty compares, taking [] in a file for the nil slice that no key
// leaves.
func sameIgnoringEmpty[T any](a, b T) bool {
	emptyToNil(reflect.ValueOf(&a).Elem())
	return reflect.DeepEqual(a, b)
}

func emptyToNil(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Slice && v.Len() == 0:
		v.SetZero()
	case v.Kind() == reflect.Struct && !hasReader(v.Type()):
		for i := range v.NumField() {
			emptyToNil(v.Field(i))
		}
	}
}

func hasReader(t reflect.Type) bool {
	_, ok := readers[t]
	return ok
}

// uncommented returns an example with all keys in force. Password files are
// replaced by one that is there, and the group by one that everybody has.
func uncommented(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := regexp.MustCompile(`(?m)^#(\[|[a-z_0-9]+ = )`).ReplaceAllString(string(text), "$1")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out = regexp.MustCompile(`(?m)^password_file = .*$`).ReplaceAllString(out, `password_file = "`+password+`"`)
	return strings.Replace(out, `group = "hikyaku"`, `group = "root"`, 1)
}

func TestExamplesWithEveryKeyInForceAreValid(t *testing.T) {
	border := mustParse(t, uncommented(t, borderExample)).Border
	plain := defaultPeer()
	peer := border.Peers[0]
	if peer.Multihop != plain.Multihop || peer.MaxPrefixes != plain.MaxPrefixes ||
		!reflect.DeepEqual(peer.Families, plain.Families) || peer.TTLSecurity || peer.Passive {
		t.Errorf("the example's peer does not show the defaults: %+v", peer)
	}
	if peer.Port != border.BGP.Port || peer.HoldTime != border.BGP.HoldTime {
		t.Errorf("the example's session does not show the defaults: %+v", peer.Session)
	}
	server := mustParse(t, uncommented(t, serverExample)).Server
	if got := server.Paths[0]; got.Backup || got.RD.String() != "192.0.2.1:1" {
		t.Errorf("the example's path: %+v", got)
	}
}

// Derived values that the examples name must be those which are derived.
func TestExamplesNameDerivedValues(t *testing.T) {
	derived := regexp.MustCompile(`(?m)^(sid|table|rd|rt|mark) = .*\n`)
	for _, path := range []string{borderExample, serverExample} {
		full := uncommented(t, path)
		given, left := mustParse(t, full), mustParse(t, derived.ReplaceAllString(full, ""))
		if !reflect.DeepEqual(given, left) {
			t.Errorf("%s: with the keys %+v, without them %+v", path, given, left)
		}
	}
}

func TestExamplesHaveEveryKey(t *testing.T) {
	for path, zero := range map[string]any{borderExample: Border{}, serverExample: Server{}} {
		text := uncommented(t, path)
		var walk func(reflect.Type)
		walk = func(structure reflect.Type) {
			for i := range structure.NumField() {
				f := structure.Field(i)
				inner := f.Type
				if inner.Kind() == reflect.Slice && !hasReader(inner.Elem()) {
					inner = inner.Elem()
				}
				name := f.Tag.Get("toml")
				if !f.Anonymous && !regexp.MustCompile(`(?m)^(\[+`+name+`\]+|`+name+` = )`).MatchString(text) {
					t.Errorf("%s has no `%s` of %s", path, name, structure)
				}
				if inner.Kind() == reflect.Struct && !hasReader(inner) {
					walk(inner)
				}
			}
		}
		walk(reflect.TypeOf(zero))
	}
}

func mustParse(t *testing.T, text string) *File {
	t.Helper()
	file, err := Parse("test.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestValuesDerivedFromNumbers(t *testing.T) {
	border := mustParse(t, goodBorder).Border
	peer := border.Peers[1]
	if want := netip.MustParseAddr("2001:db8:b1:7::"); peer.SID != want {
		t.Errorf("SID %s, want %s", peer.SID, want)
	}
	if peer.Table != 10007 || peer.RD.String() != "192.0.2.1:7" || peer.RT.String() != "192.0.2.1:7" {
		t.Errorf("table %d, RD %s, RT %s", peer.Table, peer.RD, peer.RT)
	}
	if peer.Port != 179 || peer.HoldTime != border.BGP.HoldTime {
		t.Errorf("port %d, hold time %s", peer.Port, peer.HoldTime)
	}
	path := mustParse(t, goodServer).Server.Paths[1]
	if path.Table != 10002 || path.Mark != 0x680002 {
		t.Errorf("table %d, mark %#x", path.Table, path.Mark)
	}
	if path.RD != peer.RD || path.RT != peer.RT {
		t.Errorf("the server expects RD %s and RT %s, the border has %s and %s", path.RD, path.RT, peer.RD, peer.RT)
	}
	if want := (srv6.RouteDistinguisher{}); path.RD == want {
		t.Error("no RD was derived")
	}
}
