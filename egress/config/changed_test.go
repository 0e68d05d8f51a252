package config

import (
	"slices"
	"strings"
	"testing"
)

const reloadedBorder = `
role = "border"
asn = 64500
router_id = "192.0.2.1"
[srv6]
locator = "2001:db8:b1::/48"
interfaces = ["eth0"]
[[reflector]]
name = "rr"
address = "2001:db8::53"
[[peer]]
name = "a"
number = 1
address = "2001:db8:a::1"
asn = 64496
`

func TestChangedNamesEachKey(t *testing.T) {
	parse := func(text string) *File {
		t.Helper()
		file, err := Source{Path: "test", Text: []byte(text)}.Parse()
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, test := range []struct {
		from, to string
		want     []string
	}{
		{"", "", nil},
		{"64500", "64501", []string{"asn"}},
		{`"eth0"`, `"eth0", "eth1"`, []string{"srv6.interfaces"}},
		{`"2001:db8:b1::/48"`, `"2001:db8:b2::/48"`, []string{"srv6.locator", "peer"}},
		{"[srv6]", "[log]\nlevel = \"debug\"\n[srv6]", []string{"log.level"}},
		{"[srv6]", "[bgp]\nhold_time = \"9s\"\n[srv6]", []string{"bgp.hold_time", "reflector", "peer"}},
		{`name = "a"`, `name = "b"`, []string{"peer"}},
	} {
		got := Changed(parse(reloadedBorder), parse(strings.Replace(reloadedBorder, test.from, test.to, 1)))
		if !slices.Equal(got, test.want) {
			t.Errorf("%q to %q: %q, want %q", test.from, test.to, got, test.want)
		}
	}
}
