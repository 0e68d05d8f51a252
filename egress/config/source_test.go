package config

import (
	"errors"
	"strings"
	"testing"
)

func TestFurtherPeersAreCheckedWithTheFile(t *testing.T) {
	right := map[string]any{
		"number": float64(2), "address": "2001:db8:b::1", "asn": float64(64497), "families": []any{"ipv6"}, "communities": []any{"64500:1"},
	}
	with := func(key string, value any) map[string]any {
		changed := map[string]any{key: value}
		for k, v := range right {
			if _, given := changed[k]; !given {
				changed[k] = v
			}
		}
		return changed
	}
	for _, test := range []struct {
		name, peer string
		keys       map[string]any
		want       string
	}{
		{"right", "b", right, ""},
		{"in the file", "a", right, "it is in the file, too"},
		{"a number twice", "b", with("number", float64(1)), "`b`, added by the API: number 1 of"},
		{"an address twice", "b", with("address", "2001:db8:a::1"), "address 2001:db8:a::1"},
		{"an unknown key", "b", with("nummer", float64(1)), "unknown key `nummer`"},
		{"no whole number", "b", with("number", 1.5), "`number`"},
		{"a table", "b", with("number", map[string]any{"a": "b"}), "`number` is a table"},
		{"a wrong name", "b c", right, "letters, digits"},
		{"a name of TOML", "b\"]\n[log]", right, "letters, digits"},
		{"too few keys", "b", map[string]any{}, "`address` is missing"},
	} {
		source := Source{Path: "test", Text: []byte(reloadedBorder), Peers: map[string]map[string]any{test.peer: test.keys}}
		file, err := source.Parse()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want == "":
			if p := file.Border.Peers; len(p) != 2 || p[1].Name != "b" || p[1].ASN != 64497 || p[1].Table != 10002 {
				t.Errorf("%s: the peers are %+v", test.name, p)
			}
		case err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "line "):
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		case errors.Is(err, ErrInFile) != (test.peer == "a"):
			t.Errorf("%s: ErrInFile is %v", test.name, errors.Is(err, ErrInFile))
		}
	}
}
