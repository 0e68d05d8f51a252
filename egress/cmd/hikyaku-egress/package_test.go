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

// scratchRoot runs a script in a root of its own: this machine's, whose files it can change for
// itself alone. Its arguments are packages.
const scratchRoot = `
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
root=$1/root
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mkdir "$root/run/packages"
cp "$2" "$3" "$root/run/packages/"
echo ready
exec chroot "$root" /bin/bash -ec "$4"
`

// packageLife installs a package, changes its configuration, and upgrades, removes and purges it.
// An exit code other than 0 is a fault; "step" says of which.
const packageLife = `
step() { echo "step: $*"; }
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
rm -rf /etc/hikyaku /var/lib/hikyaku /var/lib/hikyaku-egress
rm -f /var/lib/man-db/auto-update # its index takes seconds
cd /run/packages
step install
dpkg --install hikyaku_0.1.0_*.deb
[ "$(dpkg-query --show --showformat='${Status} ${Version}' hikyaku)" = "install ok installed 0.1.0" ]
step files
/usr/bin/hikyaku-egress version
/usr/bin/hikyaku --help >/dev/null
for f in edge egress-border egress-server; do
    dpkg-query --show --showformat='${Conffiles}\n' hikyaku | grep -q "/etc/hikyaku/$f.toml"
done
if grep -n /usr/local /usr/lib/systemd/system/hikyaku*.service; then false; fi
man --warnings --local-file /usr/share/man/man8/hikyaku-egress.8.gz | grep -q "check --config FILE"
dpkg --verify hikyaku
step users
id hikyaku-egress
id hikyaku
grep -q '^hikyaku-egress:.*:/nonexistent:/usr/sbin/nologin$' /etc/passwd
step units
# systemd knows every key of them, and finds the programs.
if systemd-analyze verify hikyaku.service hikyaku-egress@border.service 2>&1 | grep hikyaku; then false; fi
step upgrade
echo '# mine' >>/etc/hikyaku/egress-border.toml
numbers=$(id hikyaku-egress)
dpkg --install hikyaku_0.1.1_*.deb </dev/null
grep -q '# mine' /etc/hikyaku/egress-border.toml
[ "$(id hikyaku-egress)" = "$numbers" ]
[ "$(dpkg-query --show --showformat='${Version}' hikyaku)" = 0.1.1 ]
step remove
mkdir -p /var/lib/hikyaku-egress
dpkg --remove hikyaku
[ ! -e /usr/bin/hikyaku-egress ]
[ ! -e /usr/lib/systemd/system/hikyaku-egress@.service ]
grep -q '# mine' /etc/hikyaku/egress-border.toml
[ -d /var/lib/hikyaku-egress ]
step purge
dpkg --purge hikyaku
[ ! -e /etc/hikyaku ]
[ ! -e /var/lib/hikyaku-egress ]
id hikyaku-egress
step end
`

// TestDebianPackage builds the package of these agents twice, and lives through its life.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	netnstest.RequireRoot(t)
	for _, program := range []string{"dpkg", "dpkg-deb", "unshare", "adduser", "systemd-analyze", "man"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED, the Debian package is not tried: %v", err)
		}
	}
	release, out := t.TempDir(), t.TempDir()
	stageRelease(t, release)
	for _, version := range []string{"0.1.0", "0.1.1"} {
		cmd := exec.Command("bash", "../../../scripts/deb.sh", release, out)
		cmd.Env = append(os.Environ(), "HIKYAKU_DEB_VERSION="+version, "HIKYAKU_DEB_COMPRESSION=none", "SOURCE_DATE_EPOCH=1700000000")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("making the package: %v\n%s", err, text)
		}
	}
	packages, err := filepath.Glob(filepath.Join(out, "*.deb"))
	if err != nil || len(packages) != 2 {
		t.Fatalf("the packages are %v, %v", packages, err)
	}
	cmd := exec.CommandContext(context.Background(), "unshare", "--mount", "bash", "-ec", scratchRoot, "bash", t.TempDir(), packages[0], packages[1], packageLife)
	text, err := cmd.CombinedOutput()
	t.Logf("%s", text)
	switch {
	case err != nil && !strings.Contains(string(text), "ready\n"):
		t.Skipf("SKIPPED: a root of its own cannot be made here: %v: %s", err, text)
	case err != nil || !strings.Contains(string(text), "step: end"):
		t.Errorf("the package's life ends with %v:\n%s", err, text)
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
cp conf/*.toml conf/*.service "$1/conf/"
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
