package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

const unitFile = "../../../conf/hikyaku-egress@.service"

// unit returns the settings of the unit file, those of each key in order.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	settings := make(map[string][]string)
	for _, line := range settingLines(string(text)) {
		key, value, _ := strings.Cut(line, "=")
		settings[key] = append(settings[key], value)
	}
	return settings
}

// settingLines are the lines of a unit without comments and sections.
func settingLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.Contains(line, "=") && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestUnitIsRightForSystemd(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skipf("SKIPPED, the unit is not checked: %v (Debian's package systemd)", err)
	}
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "hikyaku-egress@border.service")
	write(t, file, strings.ReplaceAll(string(text), "/usr/local/bin/hikyaku-egress", "/bin/true"))
	out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), file) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// CAP_NET_ADMIN, other users' addresses and sysctls are most of the rest.
	out, err = exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=25", file).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// TestUnitHasThePrivilegesThatAgentsNeed runs both agents as the unit does: as a user of no
// power, with the unit's capabilities alone.
func TestUnitHasThePrivilegesThatAgentsNeed(t *testing.T) {
	t.Parallel()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skipf("SKIPPED, the unit's privileges are not tried: %v (Debian's package util-linux)", err)
	}
	l := newLab(t)
	dir, err := os.MkdirTemp("/tmp", "hikyaku-unit-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	program := filepath.Join(dir, "hikyaku-egress")
	code, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, code, 0o755); err != nil {
		t.Fatal(err)
	}
	capabilities := unit(t)["AmbientCapabilities"][0]
	if bounds := unit(t)["CapabilityBoundingSet"][0]; bounds != capabilities {
		t.Errorf("the ambient capabilities are %s, their bounds %s", capabilities, bounds)
	}
	var words []string
	for _, name := range strings.Fields(capabilities) {
		words = append(words, "+"+strings.ToLower(strings.TrimPrefix(name, "CAP_")))
	}
	list := strings.Join(words, ",")
	privileges := []string{
		setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--bounding-set=-all," + list,
		"--inh-caps=-all," + list, "--ambient-caps=-all," + list,
	}
	as := func(role, file, socket string) (config, api string) {
		config, api = filepath.Join(dir, role+".toml"), filepath.Join(dir, role+".sock")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, config, strings.ReplaceAll(string(text), socket, api))
		edit(t, config, filepath.Join(filepath.Dir(socket), role), filepath.Join(dir, role+".state"))
		return config, api
	}
	border, borderAPI := as("border", l.borderConfig, l.borderAPI)
	server, serverAPI := as("server", l.serverConfig, l.serverAPI)
	for _, name := range []string{dir, border, server} {
		if err := os.Chown(name, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	l.borderAgent = start(t, l.border, "border", append(privileges, program, "border", "--config", border)...)
	l.serverAgent = start(t, l.server, "server", append(privileges, program, "server", "--config", server)...)
	l.command(1, "announce "+clientPrefix)
	l.eventually("the border's peer is up", func() bool { return l.state(borderAPI, path(1)) == api.Up })
	l.eventually("the path is up", func() bool { return l.state(serverAPI, path(1)) == api.Up })
	l.eventually("the client answers over the path", func() bool { return l.ping(epe(1)) })
	// As ExecReload has it.
	edit(t, border, "asn = 64601", "asn = 64601\nhold_time = '30s'")
	reload := append(privileges, program, "reload", "--config", border)
	if said := l.border.Run(reload[0], reload[1:]...); !strings.Contains(said, "peer transit1") {
		t.Errorf("the reload says %q", said)
	}
	l.serverAgent.stop()
	l.borderAgent.stop()
	expectNothing(t, "border", l.border)
	expectNothing(t, "server", l.server)
}
