package config

import (
	"strings"
	"testing"
)

func TestProblemsAreFramed(t *testing.T) {
	text := strings.NewReplacer(
		"asn = 64500", "\tasn = 0 # Ü",
		`"rr1"`, `"é"`,
		"number = 7", "number = 1",
		`interfaces = ["eth0"]`, "",
	).Replace(goodBorder)
	text = strings.ReplaceAll(text, "\n", "\r\n")
	_, err := Parse("/etc/e.toml", []byte(text))
	if err == nil {
		t.Fatal("accepted")
	}
	const want = `in /etc/e.toml:
line 2, column 8
  |
2 |  asn = 0 # Ü
  |        ^
AS 0 is reserved and can't be anybody's

line 5, column 2
  |
5 | [srv6]
  |  ^^^^
` + "`interfaces` is missing: name those that packets of content servers come in by" + `

line 10, column 8
   |
10 | name = "é"
   |        ^^^
` + "`name` is `é`: it must be 1 to 64 letters, digits, `.`, `_` and `-`, and begin with a letter or digit" + `

line 21, column 10
   |
21 | number = 1
   |          ^
` + "number 1 of `transit-b` is that of `transit-a`, too: give each its own"
	if got := err.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTextThatIsNoTOML(t *testing.T) {
	cases := []struct{ name, text, want string }{
		{"an open string", "role = \"border\nasn = 1\n",
			"in f:\nline 1, column 15\n  |\n1 | role = \"border\n  |               ^\n" +
				"this is no TOML: basic strings cannot have new lines"},
		{"a key twice", "role = \"border\"\nasn = 1\nasn = 2\n",
			"in f:\nline 3, column 1\n  |\n3 | asn = 2\n  | ^\nthis is no TOML: key asn is already defined"},
		{"a table twice", "[log]\n[log]\n",
			"in f:\nline 2, column 2\n  |\n2 | [log]\n  |  ^\nthis is no TOML: table log already exists"},
		{"no TOML at all", "asn: 1\n",
			"in f:\nline 1, column 4\n  |\n1 | asn: 1\n  |    ^\nthis is no TOML: expected '=' after key"},
		{"an empty file", "",
			"in f:\n`role` is missing: say `role = \"border\"` or `role = \"server\"`"},
	}
	for _, c := range cases {
		_, err := Parse("f", []byte(c.text))
		if err == nil {
			t.Errorf("%s: accepted", c.name)
		} else if err.Error() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, err, c.want)
		}
	}
}

// An operator's file is not hostile, but a panic at start is a bad answer to a
// typo.
func FuzzParse(f *testing.F) {
	for _, text := range []string{goodBorder, goodServer, "role = 'border'\n[peer]\n[[peer.x]]", "a.b = {c.d = [[1], {}]}", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("f", text)
		if err == nil && (file.Border == nil) == (file.Server == nil) {
			t.Errorf("%q is of no role or of both", text)
		}
		if err != nil && err.Error() == "" {
			t.Errorf("%q is refused without a reason", text)
		}
	})
}
