#!/usr/bin/env bash
# Installs the missing tools of a task, and nothing else.
#
# usage: scripts/setup.sh run|test|check|bench|fuzz|dist|coverage
set -euo pipefail
cd "$(dirname "$0")/.."

# The advisory and licence checks depend on its version, so it is pinned.
readonly CARGO_DENY=0.20.2
# The findings on prose and spelling depend on these versions, too (scripts/prose.sh).
readonly VALE=v3.21.0
readonly TYPOS=1.52.0
# And the figures of coverage.
readonly CARGO_LLVM_COV=0.9.1
readonly ACTIONLINT=1.7.12

# command:package pairs of Debian; a path is a header, and `import` names a module of Python.
readonly BUILD=(
    cc:gcc
    ld:binutils
    make:make
    pkg-config:pkg-config
    # A compiler without the C library's headers builds nothing.
    /usr/include/stdlib.h:libc6-dev
    # libbpf, which loads the congestion controls.
    /usr/include/gelf.h:libelf-dev
    /usr/include/zlib.h:zlib1g-dev
)
# Builds the congestion controls again (scripts/bpf.sh).
readonly BPF=(
    clang-14:clang-14
    llvm-strip-14:llvm-14
    /usr/include/bpf/bpf_helpers.h:libbpf-dev
    /usr/include/linux/bpf.h:linux-libc-dev
)
readonly SITE=(python3:python3 'import PIL:python3-pil' brotli:brotli gzip:gzip)
# For the fuzz targets: libFuzzer is in C++, and the TLS library builds by cmake there.
readonly FUZZ=(c++:g++ cmake:cmake)
# For the checkers of prose and spelling, which Debian lacks: one of vale's parsers is in C++.
readonly PROSE=(c++:g++ python3:python3 /usr/share/python-wheels:python3-venv)
# Clients and servers; scripts/peers.sh builds the others.
readonly BENCH=(
    curl:curl
    h2load:nghttp2-client
    gtlsclient:ngtcp2-client
    haproxy:haproxy
    h2o:h2o
    # For a namespace.
    ip:iproute2
    unshare:util-linux
    # Of nginx.
    /usr/include/openssl/ssl.h:libssl-dev
    /usr/include/zlib.h:zlib1g-dev
)
readonly TESTS=(
    chromium:chromium
    curl:curl
    h2load:nghttp2-client
    # A client of QUIC (ngtcp2's), and one that is slow on purpose.
    gtlsclient:ngtcp2-client
    slowhttptest:slowhttptest
    haproxy:haproxy
    # A certificate authority that speaks ACME, with its DNS server.
    pebble:pebble
    ip:iproute2
    setpriv:util-linux
    nsenter:util-linux
    ss:iproute2
    # A test compares the server's media types with it.
    /etc/mime.types:media-types
    # Others' site, with links from package to package.
    /usr/share/doc/python3/html/index.html:python3-doc
    /usr/share/javascript/jquery/jquery.js:libjs-jquery
    /usr/share/javascript/underscore/underscore.js:libjs-underscore
    # A server that a migration guide begins with, and one that the lab measures.
    nginx:nginx
    caddy:caddy
    # Real sites: an application, PHP, media and a mirror.
    node:nodejs
    npm:npm
    php-fpm8.2:php8.2-fpm
    ffmpeg:ffmpeg
    aria2c:aria2
    wget:wget
    # A cache, to compare with.
    varnishd:varnish
    # A store that edges share. Valkey is tested, too, where it is installed.
    redis-server:redis-server
    redis-cli:redis-tools
    openssl:openssl
    python3:python3
    # BGP daemons for tests of the egress agents, and the tools of their guide.
    /usr/lib/frr/bgpd:frr
    bird:bird2
    gobgpd:gobgpd
    # An RPKI cache.
    stayrtr:stayrtr
    nft:nftables
    # A reader of metrics with its checker of rules, and one of access logs.
    promtool:prometheus
    goaccess:goaccess
    # The packages', which a test installs.
    adduser:adduser
    logrotate:logrotate
    # For aioquic and kubernetes-validate, which Debian lacks.
    /usr/share/python-wheels:python3-venv
)

readonly DIST=(
    git:git
    python3:python3
    xz:xz-utils
    dpkg-deb:dpkg
    # For the tests of what is packed.
    debootstrap:debootstrap
    curl:curl
    ip:iproute2
    unshare:util-linux
)

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# Prints the packages whose command, header or module is missing, one a line.
missing_of() {
    local pair
    for pair in "$@"; do
        is_there "${pair%%:*}" || echo "${pair#*:}"
    done
}

is_there() {
    case $1 in
    /*) [[ -e $1 ]] ;;
    # Debian's modules are for Debian's Python, which need not be the first one.
    import\ *) python3 -c "$1" 2>/dev/null || /usr/bin/python3 -c "$1" 2>/dev/null ;;
    *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null ;;
    esac
}

install_packages() {
    local packages=("$@") as_root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || needs_root "${packages[@]}"
        sudo -n true 2>/dev/null || [[ -t 0 ]] || needs_root "${packages[@]}"
        as_root=(sudo)
    fi
    command -v apt-get >/dev/null || fail \
        "these commands' Debian packages are missing, and there is no apt-get here:" \
        "  ${packages[*]}" \
        "install them by this system's package manager, then try again"
    echo "setup: installing ${packages[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive bash scripts/apt-install.sh "${packages[@]}"
}

needs_root() {
    fail "missing packages, and neither root nor sudo to install them; let root run:" \
        "  apt-get update && apt-get install --no-install-recommends $*"
}

ensure_rust() {
    command -v cargo >/dev/null ||
        fail "Rust is missing: install rustup (https://rustup.rs), then try again"
    cargo --version >/dev/null 2>&1 && return
    # `cargo` is rustup's, and the version of rust-toolchain.toml is not installed.
    command -v rustup >/dev/null || fail "\`cargo --version\` fails; install Rust again"
    local channel
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    echo "setup: installing Rust $channel"
    rustup toolchain install "$channel" --profile minimal --component rustfmt --component clippy
}

ensure_cargo_deny() {
    [[ $(cargo deny --version 2>/dev/null) == "cargo-deny $CARGO_DENY" ]] && return
    echo "setup: building cargo-deny $CARGO_DENY; this takes some minutes, once"
    cargo install --quiet --locked cargo-deny --version "$CARGO_DENY"
}

# Checks .github/workflows.
ensure_actionlint() {
    [[ $(build/tools/actionlint -version 2>/dev/null | head -n 1) == "v$ACTIONLINT" ]] && return
    command -v go >/dev/null || fail "Go is missing: install it (https://go.dev), then try again"
    echo "setup: building actionlint $ACTIONLINT"
    GOBIN="$PWD/build/tools" go install "github.com/rhysd/actionlint/cmd/actionlint@v$ACTIONLINT"
}

ensure_cargo_llvm_cov() {
    [[ $(cargo llvm-cov --version 2>/dev/null) == "cargo-llvm-cov $CARGO_LLVM_COV" ]] && return
    echo "setup: building cargo-llvm-cov $CARGO_LLVM_COV; this takes a minute, once"
    cargo install --quiet --locked cargo-llvm-cov --version "$CARGO_LLVM_COV"
}

ensure_cargo_fuzz() {
    cargo fuzz --version >/dev/null 2>&1 && return
    echo "setup: building cargo-fuzz; this takes a minute, once"
    cargo install --quiet --locked cargo-fuzz
}

ensure_go() {
    command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || fail "Go is missing: install it (https://go.dev), then try again"
}

# The checkers of prose and spelling, both into build/tools.
ensure_prose_checkers() {
    local tools=$PWD/build/tools
    mkdir -p "$tools"
    if ! vale_is_there; then
        ensure_go
        echo "setup: building vale $VALE; this takes two minutes, once"
        # Its parsers of source code are in C and C++.
        CGO_ENABLED=1 GOBIN="$tools" go install "github.com/vale-cli/vale/v3/cmd/vale@$VALE" 2>"$tools/vale.log" ||
            fail "building vale $VALE:" "$(cat "$tools/vale.log")"
        # The last step, since this file means that all is installed.
        echo "$VALE" >"$tools/vale.version"
    fi
    [[ $("$tools/typos" --version 2>/dev/null) == "typos-cli $TYPOS" ]] && return
    echo "setup: installing typos $TYPOS"
    rm -rf "$tools/typos.venv"
    python3 -m venv "$tools/typos.venv"
    "$tools/typos.venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "typos==$TYPOS"
    ln -sf typos.venv/bin/typos "$tools/typos"
}

# A `vale` that is built from its sources does not know its version.
vale_is_there() {
    [[ -x build/tools/vale ]] && cmp --silent build/tools/vale.version <(echo "$VALE")
}

# The clients of crates/cli/tests/foreign, at the versions of its lock files. Debian has neither
# h2spec nor quic-go, and no aioquic of HTTP/3's RFCs.
ensure_foreign_clients() {
    local foreign=crates/cli/tests/foreign
    ensure_go
    GOBIN="$PWD/build/tools" go -C "$foreign/go" install . tool
    ensure_venv aioquic "$foreign/h3/requirements.txt" build/venv
}

# ensure_venv WHAT REQUIREMENTS VENV: Python's packages at the versions of a lock file.
ensure_venv() {
    local wanted=$2 venv=$3
    cmp --silent "$wanted" "$venv/requirements.txt" && return
    echo "setup: installing $1 into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --only-binary :all: -r "$wanted"
    # The last step, since this file means that all is installed.
    cp "$wanted" "$venv/requirements.txt"
}

# What the tests of real sites run by Node.js, at the versions of its lock file.
ensure_node_modules() {
    local node=crates/cli/tests/sites/node modules=build/node
    cmp --silent "$node/package-lock.json" "$modules/installed.json" && return
    echo "setup: installing Express and hls.js into $modules"
    rm -rf "$modules"
    mkdir -p "$modules"
    cp "$node/package.json" "$node/package-lock.json" "$modules/"
    npm ci --prefix "$modules" --ignore-scripts --no-audit --no-fund --silent
    # The last step, since this file means that all is installed.
    cp "$node/package-lock.json" "$modules/installed.json"
}

main() {
    local wanted=("${BUILD[@]}")
    case "${1-}" in
    run) wanted+=("${SITE[@]}") ;;
    test) wanted+=("${SITE[@]}" "${TESTS[@]}" "${BPF[@]}") ;;
    check) wanted+=(shellcheck:shellcheck "${PROSE[@]}" "${BPF[@]}" "${FUZZ[@]}") ;;
    bench) wanted+=("${BENCH[@]}") ;;
    fuzz) wanted+=("${FUZZ[@]}") ;;
    # Of the LLVM that the pinned Rust has (`rustc -vV`).
    coverage) wanted+=(llvm-cov-22:llvm-22) ;;
    dist) wanted+=("${DIST[@]}") ;;
    *) fail "usage: scripts/setup.sh run|test|check|bench|fuzz|dist|coverage" ;;
    esac

    local missing
    mapfile -t missing < <(missing_of "${wanted[@]}")
    ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
    ensure_rust
    [[ $1 != check ]] || ensure_cargo_deny
    [[ $1 != check ]] || ensure_prose_checkers
    [[ $1 != check ]] || ensure_actionlint
    [[ $1 != fuzz ]] || ensure_cargo_fuzz
    [[ $1 != coverage ]] || ensure_cargo_llvm_cov
    [[ $1 != test ]] || ensure_foreign_clients
    # The schemas of the manifests.
    [[ $1 != test ]] || ensure_venv kubernetes-validate crates/cli/tests/kubernetes/requirements.txt build/kubernetes
    [[ $1 != test ]] || ensure_node_modules
    [[ $1 != test ]] || bash scripts/peers.sh tests
    [[ $1 != bench ]] || bash scripts/peers.sh
}

main "$@"
