package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hikyaku/egress/netnstest"
)

// scratchRoot runs scripts/deb/life.sh in a root of its own: this machine's, whose files it can change
// for itself alone. Its arguments are a folder for that, the script, and packages.
const scratchRoot = `
ip link set lo up
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
root=$1/root
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mkdir "$root/run/packages"
cp "${@:2}" "$root/run/packages/"
echo ready
exec chroot "$root" /bin/bash /run/packages/life.sh /run/packages 0.1.0 0.1.1
`

// TestDebianPackages builds the packages of these agents and of the server twice, and lives through
// their life.
func TestDebianPackages(t *testing.T) {
	t.Parallel()
	netnstest.RequireRoot(t)
	for _, program := range []string{"dpkg", "dpkg-deb", "unshare", "ip", "adduser", "systemd-analyze", "man", "logrotate", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED, the Debian packages are not tried: %v", err)
		}
	}
	release, out := t.TempDir(), t.TempDir()
	stageRelease(t, release)
	for _, version := range []string{"0.1.0", "0.1.1"} {
		cmd := exec.Command("bash", "../../../scripts/deb.sh", release, out)
		cmd.Env = append(os.Environ(), "HIKYAKU_DEB_VERSION="+version, "HIKYAKU_DEB_COMPRESSION=none", "SOURCE_DATE_EPOCH=1700000000")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("making the packages: %v\n%s", err, text)
		}
	}
	packages, err := filepath.Glob(filepath.Join(out, "*.deb"))
	if err != nil || len(packages) != 4 {
		t.Fatalf("the packages are %v, %v", packages, err)
	}
	cmd := exec.CommandContext(context.Background(), "unshare", append([]string{"--mount", "--net", "bash", "-ec", scratchRoot, "bash", t.TempDir(), "../../../scripts/deb/life.sh"}, packages...)...)
	text, err := cmd.CombinedOutput()
	t.Logf("%s", text)
	switch {
	case err != nil && !strings.Contains(string(text), "ready\n"):
		t.Skipf("SKIPPED: a root of its own cannot be made here: %v: %s", err, text)
	case err != nil || !strings.Contains(string(text), "step: end"):
		t.Errorf("the packages' life ends with %v:\n%s", err, text)
	}
}

// stageRelease makes a folder as scripts/dist.sh does. The edge server, which is not of this
// module, is the one that edgeVariable names, or a script that has its options.
func stageRelease(t *testing.T, release string) {
	t.Helper()
	script := `set -e
mkdir -p "$1/bin" "$1/conf"
install "$2" "$1/bin/hikyaku-egress"
cd ../../..
cp -r conf/*.toml conf/*.service conf/*.socket conf/*.json conf/*.yml conf/examples "$1/conf/"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$1/"
echo licences >"$1/THIRD-PARTY.txt"
if [ -n "$3" ]; then
    install "$3" "$1/bin/hikyaku"
else
    printf '#!/bin/sh\necho usage: hikyaku "$@"\n' >"$1/bin/hikyaku"
    chmod 755 "$1/bin/hikyaku"
fi`
	if text, err := exec.Command("bash", "-c", script, "bash", release, binary, os.Getenv(edgeVariable)).CombinedOutput(); err != nil {
		t.Fatalf("staging a release: %v\n%s", err, text)
	}
}
