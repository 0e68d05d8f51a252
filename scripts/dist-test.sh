#!/usr/bin/env bash
# Tries a packed release (scripts/dist.sh): its sums, the archive, the packages' life in a clean
# root, and the image with a root that is read-only and a user who is not root.
#
# usage, as root: scripts/dist-test.sh RELEASE FOLDER
#        RELEASE is the unpacked release, FOLDER has what was packed
set -euo pipefail

say() { printf 'dist-test: %s\n' "$*" >&2; }

fail() {
    say "$@"
    exit 1
}

(($# == 2)) || fail "usage: scripts/dist-test.sh RELEASE FOLDER"
release=$(realpath "$1")
folder=$(realpath "$2")
cd "$(dirname "$0")/.."
((EUID == 0)) || fail "only root can make a root of its own: run it by sudo"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A Debian that has what the packages depend on, and what their test needs.
readonly CLEAN=$PWD/build/clean-root.tar
readonly INCLUDE=adduser,ca-certificates,curl,libelf1,logrotate,zlib1g

# Prints the address of the archive that this machine's packages come from.
archive() {
    # shellcheck disable=SC2016  # apt replaces it.
    apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' | head -n 1
}

clean_root() {
    [[ ! -e $CLEAN ]] || return 0
    say "making a clean root, once"
    local suite
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    debootstrap --variant=minbase --include="$INCLUDE" "$suite" "$work/clean" "$(archive)" >"$work/log" 2>&1 ||
        fail "debootstrap failed:" "$(tail -n 20 "$work/log")"
    rm -rf "$work"/clean/var/cache/apt/archives/*.deb
    mkdir -p "$(dirname "$CLEAN")"
    tar --create --file "$CLEAN.part" --directory "$work/clean" .
    mv "$CLEAN.part" "$CLEAN"
    rm -rf "$work/clean"
}

# in_root ROOT COMMAND...: runs a command in a root, with a network and mounts of its own
in_root() {
    # shellcheck disable=SC2016  # The inner shell replaces them.
    unshare --mount --net --pid --fork --kill-child bash -euc '
        root=$1
        shift
        ip link set lo up
        mount --make-rprivate /
        mount --rbind /dev "$root/dev"
        mount -t proc proc "$root/proc"
        exec "$@"
    ' bash "$@"
}

try_packages() {
    clean_root
    mkdir -p "$work/root/run/packages"
    tar --extract --file "$CLEAN" --directory "$work/root"
    mkdir -p "$work/root/run/packages"
    cp "$folder"/*.deb scripts/deb/life.sh "$work/root/run/packages/"
    local old
    old=$(dpkg-deb --field "$folder"/hikyaku_*.deb Version)
    HIKYAKU_DEB_VERSION=$old.next HIKYAKU_DEB_COMPRESSION=none bash scripts/deb.sh "$release" \
        "$work/root/run/packages" >/dev/null
    in_root "$work/root" chroot "$work/root" /bin/bash /run/packages/life.sh /run/packages "$old" "$old.next" \
        >"$work/log" 2>&1 || fail "the packages' life:" "$(tail -n 30 "$work/log")"
    grep -q '^step: end$' "$work/log" || fail "the packages' life has no end:" "$(tail -n 30 "$work/log")"
}

try_image() {
    local root=$work/image
    mkdir "$root"
    python3 scripts/oci.py unpack "$folder"/*.oci.tar "$root" >"$work/config"
    grep -q '"User": "65532:65532"' "$work/config" || fail "the image has another user"
    [[ -z $(find "$root" -type f \( -perm /6000 -o -name sh -o -name bash \)) ]] || fail "the image has a shell, or what changes its user"
    # shellcheck disable=SC2016  # The inner shell replaces them.
    in_root "$root" bash -euc '
        root=$1
        # Read-only but for the volume, as by `docker run --read-only`.
        mount --rbind "$root" "$root"
        mount -t tmpfs -o uid=65532,gid=65532,mode=0750 tmpfs "$root/var/lib/hikyaku"
        mount -o remount,bind,ro "$root"
        chroot --userspec=65532:65532 --groups="" "$root" /usr/bin/hikyaku serve --config /etc/hikyaku/edge.toml &
        server=$!
        for _ in $(seq 100); do
            page=$(curl --silent --insecure https://localhost:8443/ || true)
            [[ -z $page ]] || break
            kill -0 "$server"
            sleep 0.1
        done
        grep -q "hikyaku works" <<<"$page"
        [[ $(awk "/^Uid:/ { print \$2 }" "$root/proc/$server/status") == 65532 ]]
        [[ -e $root/var/lib/hikyaku/keys.json ]]
        ! touch "$root/written" 2>/dev/null
        kill "$server"
        wait "$server"
    ' bash "$root" >"$work/log" 2>&1 || fail "the image does not serve:" "$(tail -n 30 "$work/log")"
}

say "checking sums"
(cd "$folder" && sha256sum --check --quiet SHA256SUMS)
say "trying the archive"
mkdir "$work/archive"
tar --extract --file "$(find "$folder" -name '*.tar.xz' ! -name '*-debug*')" --directory "$work/archive" --strip-components 1
"$work/archive/bin/hikyaku" --version >/dev/null
"$work/archive/bin/hikyaku-egress" version >/dev/null
say "trying the packages"
try_packages
say "trying the image"
try_image
say "all of it works"
