package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

func TestLoadByRole(t *testing.T) {
	border, server := write(t, goodBorder, 0o600), write(t, goodServer, 0o600)
	if b, err := LoadBorder(border); err != nil || b.Role != RoleBorder || len(b.Peers) != 2 {
		t.Errorf("a border's file as such: %+v, %v", b, err)
	}
	if s, err := LoadServer(server); err != nil || s.Role != RoleServer || len(s.Paths) != 2 {
		t.Errorf("a server's file as such: %+v, %v", s, err)
	}
	_, err := LoadBorder(server)
	wantError(t, "a server's file as a border's", err, server+" has `role = \"server\"`: start it with `hikyaku-egress server`, or give another file")
	_, err = LoadServer(border)
	wantError(t, "a border's file as a server's", err, border+" has `role = \"border\"`: start it with `hikyaku-egress border`, or give another file")
	_, err = Load("/nonexistent")
	wantError(t, "no file", err, "reading the configuration from /nonexistent: open /nonexistent: no such file or directory")
	for _, path := range []string{border, server} {
		file, err := Load(path)
		if err != nil || file.Common().ASN != 64500 {
			t.Errorf("%s: %+v, %v", path, file, err)
		}
	}
}

func wantError(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("%s: got %v, want %s", name, err, want)
	}
}

func TestReadPassword(t *testing.T) {
	cases := []struct {
		name, text string
		mode       os.FileMode
		want, err  string
	}{
		{"a line", "s3cret\n", 0o600, "s3cret", ""},
		{"without line end", "s3cret", 0o640, "s3cret", ""},
		{"with DOS line end", "s3cret\r\n", 0o600, "s3cret", ""},
		{"with a comment below", "s3cret\nfor rr1\n", 0o600, "s3cret", ""},
		{"empty", "\n", 0o600, "", "reading the BGP password: the first line of FILE has 0 bytes, TCP MD5 takes 1 to 80"},
		{"too long", strings.Repeat("x", 81), 0o600, "", "reading the BGP password: the first line of FILE has 81 bytes, TCP MD5 takes 1 to 80"},
		{"for everybody's eyes", "s3cret\n", 0o644, "", "reading the BGP password: everybody may use FILE: run `chmod o= FILE`"},
	}
	for _, c := range cases {
		path := write(t, c.text, c.mode)
		got, err := ReadPassword(path)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if c.err == "" && err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if c.err != "" {
			wantError(t, c.name, err, strings.ReplaceAll(c.err, "FILE", path))
		}
	}
}

func TestDurations(t *testing.T) {
	cases := map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "15s": 15 * time.Second, "1.5s": 1500 * time.Millisecond,
		"10m": 10 * time.Minute, "1h": time.Hour, "1d": 24 * time.Hour, "7ns": 7, "3us": 3000,
	}
	for text, want := range cases {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "s", "1", "-1s", "1e3s", "1h30m", "99999999999999999999s", "1 s", ".5s"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestCommunities(t *testing.T) {
	for _, text := range []string{"64500:100", "0:0", "65535:65535", "4200000000:1:4294967295"} {
		if c, err := ParseCommunity(text); err != nil || c.String() != text {
			t.Errorf("%s: %s, %v", text, c, err)
		}
	}
	for _, text := range []string{"", "1", "65536:1", "1:2:3:4", "1:-2", "1:4294967296:1", "a:b"} {
		if c, err := ParseCommunity(text); err == nil {
			t.Errorf("%q is %s", text, c)
		}
	}
}
