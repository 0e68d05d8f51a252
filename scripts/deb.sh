#!/usr/bin/env bash
# Makes Debian packages of an unpacked release (scripts/dist.sh): programs, units, configuration that
# survives upgrades, manual pages and completions. The same files give the same packages.
#
# usage: scripts/deb.sh RELEASE FOLDER
#        makes FOLDER/hikyaku_VERSION_ARCH.deb and FOLDER/hikyaku-egress_VERSION_ARCH.deb of
#        RELEASE/{bin,conf,...}
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

declare -rA SUMMARY=(
    [hikyaku]='content delivery server that chooses the transport for each client'
    [hikyaku-egress]='SRv6 egress agents of border routers and content servers'
)

# begin PACKAGE: makes its folders, its program and what both packages have.
begin() {
    PACKAGE=$1 ROOT=$stage/$1
    DOC=$ROOT/usr/share/doc/$PACKAGE MAN=$ROOT/usr/share/man UNITS=$ROOT/usr/lib/systemd/system
    COMPLETIONS=$ROOT/usr/share/bash-completion/completions
    mkdir -p "$ROOT/DEBIAN" "$ROOT/usr/bin" "$ROOT/etc/hikyaku" "$DOC" "$UNITS" "$COMPLETIONS"
    install -m 755 "$release/bin/$PACKAGE" "$ROOT/usr/bin/"
    gzip --no-name --best --stdout "$release/CHANGELOG.md" >"$DOC/changelog.gz"
    {
        printf 'hikyaku is licensed under MIT or Apache-2.0, as you choose.\n\n'
        cat "$release/LICENSE-MIT" "$release/LICENSE-APACHE" "$release/THIRD-PARTY.txt"
    } >"$DOC/copyright"
    install -m 755 "scripts/deb/$PACKAGE/postinst" "scripts/deb/$PACKAGE/prerm" \
        "scripts/deb/$PACKAGE/postrm" "$ROOT/DEBIAN/"
}

# unit FILE: a unit of the release, with the package's path of the program.
unit() {
    sed 's#/usr/local/bin/#/usr/bin/#' "$release/conf/$1" >"$UNITS/$1"
}

# manual SECTION SUBCOMMAND...: a manual page of what the program prints of itself.
manual() {
    local section=$1 subcommand
    shift
    local page=$MAN/man$section/$PACKAGE.$section
    mkdir -p "${page%/*}"
    {
        printf '.TH %s %s "%s" "hikyaku %s"\n.SH NAME\n%s \\- %s\n' "${PACKAGE^^}" "$section" \
            "$(date --utc --date="@$SOURCE_DATE_EPOCH" +%F)" "$version" "$PACKAGE" "${SUMMARY[$PACKAGE]}"
        printf '.SH SYNOPSIS\n'
        verbatim "$release/bin/$PACKAGE" --help
        for subcommand in "$@"; do
            printf '.SH %s %s\n' "${PACKAGE^^}" "${subcommand^^}"
            verbatim "$release/bin/$PACKAGE" "$subcommand" --help
        done
        printf '.SH FILES\n'
        printf '.TP\n%s\n%s\n' /etc/hikyaku 'configuration' \
            "/usr/share/doc/$PACKAGE" 'the guides and the changelog'
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

# finish DEPENDS DESCRIPTION: builds the package. Fields of dpkg's control file that not both have
# come on standard input.
finish() {
    local fields
    fields=$(cat)
    (cd "$ROOT" && find etc -type f | sort | sed 's#^#/#') >"$ROOT/DEBIAN/conffiles"
    (cd "$ROOT" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$ROOT/DEBIAN/md5sums"
    find "$ROOT" -type d -exec chmod 755 {} +
    chmod -R u=rwX,go=rX "$ROOT/usr/share" "$UNITS" "$ROOT/etc"
    cat >"$ROOT/DEBIAN/control" <<CONTROL
Package: $PACKAGE
Version: $version
Architecture: $arch
Maintainer: the hikyaku contributors <noreply@hikyaku.invalid>
Installed-Size: $(du --summarize --block-size=1024 --apparent-size "$ROOT/usr" | cut -f 1)
Depends: $1
$fields
Priority: optional
Homepage: https://github.com/hikyaku/hikyaku
Description: ${SUMMARY[$PACKAGE]}
$(fold --spaces --width=76 <<<"$2" | sed 's/ *$//; s/^/ /')
CONTROL
    find "$ROOT" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    local file=$out/${PACKAGE}_${version}_$arch.deb
    dpkg-deb --root-owner-group -Z"${HIKYAKU_DEB_COMPRESSION:-xz}" --build "$ROOT" "$file" >/dev/null
    echo "$file"
}

begin hikyaku
mkdir -p "$ROOT/etc/logrotate.d" "$ROOT/usr/share/hikyaku/welcome"
install -m 644 scripts/deb/hikyaku/edge.toml "$ROOT/etc/hikyaku/"
install -m 644 scripts/deb/hikyaku/logrotate "$ROOT/etc/logrotate.d/hikyaku"
install -m 644 scripts/deb/hikyaku/welcome.html "$ROOT/usr/share/hikyaku/welcome/index.html"
unit hikyaku.service
unit hikyaku.socket
manual 1 serve check config doctor reload upgrade certs purge get explain completions
for shell in bash:bash-completion/completions/hikyaku zsh:zsh/vendor-completions/_hikyaku \
    fish:fish/vendor_completions.d/hikyaku.fish; do
    mkdir -p "$ROOT/usr/share/$(dirname "${shell#*:}")"
    "$release/bin/hikyaku" completions "${shell%%:*}" >"$ROOT/usr/share/${shell#*:}"
done
install -m 644 "$release/README.md" "$release/conf/edge.toml" docs/deploy.md docs/sites.md docs/upstreams.md \
    docs/access.md docs/compression.md docs/cache.md docs/certificates.md docs/upgrade.md docs/troubleshoot.md \
    docs/balancers.md docs/migrate-nginx.md docs/migrate-caddy.md docs/metrics.md docs/logs.md \
    "$release/conf/grafana-edge.json" "$release/conf/alerts.yml" "$release/conf/alerts-test.yml" "$DOC/"
cp -r "$release/conf/examples" "$DOC/examples"
finish 'adduser, libc6 (>= 2.36), libelf1 | libelf1t64, libgcc-s1, zlib1g' \
    'hikyaku serves HTTP/1.1, 2 and 3: files, and upstreams as a reverse proxy. It measures each client and chooses HTTP version, congestion control, connections and egress route for it.' \
    <<<'Recommends: logrotate
Suggests: hikyaku-egress
Section: httpd'

begin hikyaku-egress
install -m 644 "$release"/conf/egress-*.toml "$ROOT/etc/hikyaku/"
unit hikyaku-egress@.service
manual 8 border server check paths status show why flows reload
install -m 644 scripts/deb/hikyaku-egress/completion "$COMPLETIONS/hikyaku-egress"
install -m 644 docs/egress-deploy.md docs/egress-api.md docs/steering.md docs/flows.md \
    "$release/conf/grafana-egress.json" "$DOC/"
finish adduser \
    'hikyaku-egress brings packets of content servers to any egress peer of the AS, by SRv6 and BGP. It runs on border routers, and beside hikyaku on servers.' \
    <<<'Recommends: iproute2, nftables
Section: net'
