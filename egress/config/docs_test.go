package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const guide = "../../docs/egress-deploy.md"

// samples returns the guide's blocks of a language.
func samples(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		out = append(out, match[1])
	}
	if len(out) == 0 {
		t.Fatalf("%s has no sample of %s", guide, language)
	}
	return out
}

func TestTheGuidesConfigurationsAreValid(t *testing.T) {
	roles := map[Role]bool{}
	var border *Border
	var server *Server
	for _, text := range samples(t, "toml") {
		file := mustParse(t, text)
		roles[file.Common().Role] = true
		if file.Border != nil {
			border = file.Border
		} else {
			server = file.Server
		}
	}
	if !roles[RoleBorder] || !roles[RoleServer] {
		t.Fatalf("the guide shows the roles %v", roles)
	}
	if border.Peers[0].RD != server.Paths[0].RD || border.Peers[0].RT != server.Paths[0].RT {
		t.Errorf("the guide's server waits for %s, its border announces %s", server.Paths[0].RD, border.Peers[0].RD)
	}
	if !server.SRv6.Locators[0].Contains(border.Peers[0].SID) {
		t.Errorf("the guide's server refuses the SID %s of its border", border.Peers[0].SID)
	}
}

// checker is a program that says whether a file is right.
type checker struct {
	program string
	args    []string // then comes the file
	right   func(status error, output string) bool
}

func TestTheGuidesOtherConfigurationsAreValid(t *testing.T) {
	silent := func(status error, output string) bool { return status == nil && !strings.Contains(output, "%") }
	checkers := map[string]checker{
		"frr":   {"vtysh", []string{"-C", "-f"}, silent},
		"gobgp": {"gobgpd", []string{"-d", "-f"}, func(status error, _ string) bool { return status == nil }},
		"nft":   {"nft", []string{"-c", "-f"}, silent},
		"bird":  {"bird", []string{"-p", "-c"}, func(status error, _ string) bool { return status == nil }},
	}
	for language, check := range checkers {
		t.Run(language, func(t *testing.T) {
			program, err := exec.LookPath(check.program)
			if err != nil {
				t.Skipf("SKIPPED: the guide's samples of %s are not tried: %v", language, err)
			}
			for _, text := range samples(t, language) {
				try(t, program, check, text)
			}
			if out, right := run(t, program, check, "this is nonsense\n"); right {
				t.Errorf("%s takes nonsense, so nothing was tested: %s", program, out)
			}
		})
	}
}

func try(t *testing.T, program string, check checker, text string) {
	t.Helper()
	if out, right := run(t, program, check, text); !right {
		t.Errorf("%s refuses a sample of the guide:\n%s\n%s", program, text, out)
	}
}

func run(t *testing.T, program string, check checker, text string) (output string, right bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sample")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, append(check.args, path)...).CombinedOutput()
	return string(out), check.right(err, string(out))
}
