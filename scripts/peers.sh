#!/usr/bin/env bash
# Builds the peers and the client of `make bench` that Debian lacks, into build/peers: nginx with
# HTTP/3, Caddy, and the client of Go. What is there already stays.
#
# usage: scripts/peers.sh           all of them
#        scripts/peers.sh tests     those that tests need: Caddy and the client
#        scripts/peers.sh client    the client alone
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PEERS=$PWD/build/peers
readonly CADDY=v2.10.2
# The parts of nginx that a row needs. It works with the QUIC of its own that needs no OpenSSL
# beyond Debian's 3.0 (ngx_event_quic_openssl_compat), which has no interface for QUIC.
readonly NGINX_PARTS=(
    --with-http_ssl_module
    --with-http_v2_module
    --with-http_v3_module
    --with-threads
    --without-http_rewrite_module
    --without-http_gzip_module
    --with-cc-opt=-O2
)

fail() {
    printf 'peers: %s\n' "$@" >&2
    exit 1
}

# is_built NAME VERSION: whether this version is there
is_built() {
    [[ -x $PEERS/$1 ]] && cmp --silent "$PEERS/$1.version" <(echo "$2")
}

# The last step of a build, since this file means that all is there.
mark_built() {
    echo "$2" >"$PEERS/$1.version"
}

# quietly NAME COMMAND...: shows the command's output if it fails
quietly() {
    local name=$1 log=$PEERS/$1.log
    shift
    "$@" >"$log" 2>&1 || fail "building $name:" "$(tail -n 30 "$log")"
}

# The directory of nginx's source, which its crate has.
nginx_source() {
    cargo metadata --locked --format-version 1 --manifest-path crates/xtask/peers/Cargo.toml |
        grep -o '"manifest_path":"[^"]*/nginx-src-[^"]*/Cargo.toml"' |
        sed 's/^"manifest_path":"//; s/Cargo.toml"$/nginx/'
}

build_nginx() {
    local source version
    source=$(nginx_source)
    version="$(basename "$(dirname "$source")") ${NGINX_PARTS[*]}"
    ! is_built nginx "$version" || return 0
    echo "peers: building nginx; this takes a minute, once"
    # The build writes beside its source.
    rm -rf "$PEERS/nginx-build"
    cp -r "$source" "$PEERS/nginx-build"
    configure_nginx() (
        cd "$PEERS/nginx-build"
        auto/configure "${NGINX_PARTS[@]}"
        make -s -j "$(nproc)"
    )
    quietly nginx configure_nginx
    cp "$PEERS/nginx-build/objs/nginx" "$PEERS/nginx"
    rm -rf "$PEERS/nginx-build"
    mark_built nginx "$version"
}

build_caddy() {
    ! is_built caddy "$CADDY" || return 0
    echo "peers: building Caddy $CADDY; this takes three minutes, once"
    GOBIN=$PEERS quietly caddy go install "github.com/caddyserver/caddy/v2/cmd/caddy@$CADDY"
    mark_built caddy "$CADDY"
}

# Go's own cache knows whether anything changed.
build_client() {
    GOBIN=$PEERS quietly bench-client go -C crates/xtask/client install .
}

mkdir -p "$PEERS"
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
command -v go >/dev/null || fail "Go is missing: install it (https://go.dev), then try again"
case "${1-}" in
'')
    build_nginx
    build_caddy
    build_client
    ;;
tests)
    build_caddy
    build_client
    ;;
client) build_client ;;
*) fail "usage: scripts/peers.sh [tests|client]" ;;
esac
