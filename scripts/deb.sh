#!/usr/bin/env bash
# Makes a Debian package of an unpacked release (scripts/dist.sh): programs, units, configuration
# that survives upgrades, and manual pages. The same files give the same package.
#
# usage: scripts/deb.sh RELEASE FOLDER    FOLDER/hikyaku_VERSION_ARCH.deb of RELEASE/{bin,conf,...}
#
# HIKYAKU_DEB_VERSION and HIKYAKU_DEB_COMPRESSION are for tests.
set -euo pipefail

fail() {
    printf 'deb: %s\n' "$@" >&2
    exit 1
}

(($# == 2)) || fail "usage: scripts/deb.sh RELEASE FOLDER"
release=$(realpath "$1")
out=$(realpath "$2")
cd "$(dirname "$0")/.."
command -v dpkg-deb >/dev/null || fail "dpkg-deb is missing: install dpkg"

version=${HIKYAKU_DEB_VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)}
arch=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
readonly ROOT=$stage/hikyaku
readonly DOC=$ROOT/usr/share/doc/hikyaku MAN=$ROOT/usr/share/man UNITS=$ROOT/usr/lib/systemd/system

# manual PROGRAM SECTION SUBCOMMAND...: a manual page of what the program prints of itself.
manual() {
    local program=$1 section=$2 subcommand
    shift 2
    local page=$MAN/man$section/$program.$section
    mkdir -p "${page%/*}"
    {
        printf '.TH %s %s "%s" "hikyaku %s"\n.SH NAME\n%s \\- %s\n' "${program^^}" "$section" \
            "$(date --utc --date="@$SOURCE_DATE_EPOCH" +%F)" "$version" "$program" "${SUMMARY[$program]}"
        printf '.SH SYNOPSIS\n'
        verbatim "$release/bin/$program" --help
        for subcommand in "$@"; do
            printf '.SH %s %s\n' "${program^^}" "${subcommand^^}"
            verbatim "$release/bin/$program" "$subcommand" --help
        done
        printf '.SH FILES\n'
        printf '.TP\n%s\n%s\n' /etc/hikyaku 'configuration; each file explains its keys' \
            /usr/share/doc/hikyaku 'the guides and the changelog'
    } >"$page"
    gzip --no-name --best "$page"
}

# Prints a command's output as it is.
verbatim() {
    printf '.nf\n'
    # Its colours and width must not depend on who packs.
    NO_COLOR=1 COLUMNS=80 "$@" | sed -e 's/\\/\\e/g' -e "s/^[.']/\\\\\&&/" -e 's/-/\\-/g'
    printf '.fi\n'
}
declare -rA SUMMARY=(
    [hikyaku]='content delivery server that chooses the transport for each client'
    [hikyaku-egress]='SRv6 egress agents of border routers and content servers'
)

mkdir -p "$ROOT/DEBIAN" "$ROOT/usr/bin" "$ROOT/etc/hikyaku" "$DOC" "$UNITS"
install -m 755 "$release/bin/hikyaku" "$release/bin/hikyaku-egress" "$ROOT/usr/bin/"
install -m 644 "$release"/conf/*.toml "$ROOT/etc/hikyaku/"
for unit in "$release"/conf/*.service; do
    sed 's#/usr/local/bin/#/usr/bin/#' "$unit" >"$UNITS/${unit##*/}"
done
manual hikyaku 1 serve reload get explain
manual hikyaku-egress 8 border server check paths flows

install -m 644 "$release/README.md" docs/egress-deploy.md docs/deploy.md docs/steering.md "$DOC/"
gzip --no-name --best --stdout "$release/CHANGELOG.md" >"$DOC/changelog.gz"
{
    printf 'hikyaku is licensed under MIT or Apache-2.0, as you choose.\n\n'
    cat "$release/LICENSE-MIT" "$release/LICENSE-APACHE" "$release/THIRD-PARTY.txt"
} >"$DOC/copyright"

for script in postinst prerm postrm; do
    install -m 755 "scripts/deb/$script" "$ROOT/DEBIAN/$script"
done
(cd "$ROOT" && find etc -type f | sort | sed 's#^#/#') >"$ROOT/DEBIAN/conffiles"
(cd "$ROOT" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$ROOT/DEBIAN/md5sums"
find "$ROOT" -type d -exec chmod 755 {} +
chmod -R u=rwX,go=rX "$DOC" "$MAN" "$UNITS" "$ROOT/etc"
cat >"$ROOT/DEBIAN/control" <<EOF
Package: hikyaku
Version: $version
Architecture: $arch
Maintainer: the hikyaku contributors <noreply@hikyaku.invalid>
Installed-Size: $(du --summarize --block-size=1024 --apparent-size "$ROOT/usr" | cut -f 1)
Depends: adduser, libc6 (>= 2.36), libelf1 | libelf1t64, libgcc-s1, zlib1g
Recommends: iproute2, nftables
Section: httpd
Priority: optional
Homepage: https://github.com/hikyaku/hikyaku
Description: ${SUMMARY[hikyaku]}
 hikyaku serves HTTP/1.1, 2 and 3. It measures each client and chooses HTTP
 version, congestion control, connections and egress route for it.
 .
 hikyaku-egress brings packets of content servers to any egress peer of the AS,
 by SRv6 and BGP.
EOF
find "$ROOT" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Z"${HIKYAKU_DEB_COMPRESSION:-xz}" --build "$ROOT" "$out/hikyaku_${version}_$arch.deb" >/dev/null
echo "$out/hikyaku_${version}_$arch.deb"
