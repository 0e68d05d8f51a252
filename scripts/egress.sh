#!/usr/bin/env bash
# The egress control plane in egress/, a Go module.
#
# usage: scripts/egress.sh build           build/hikyaku-egress, statically linked
#                                         and build/hikyaku-bgp-feed, a tool of the lab
#        scripts/egress.sh check           formatting, vet, staticcheck, the eBPF object
#        scripts/egress.sh test [PACKAGE]  tests with the race detector; as root in namespaces, too;
#                                          ends with `N passed, N failed` on a line of its own
#        scripts/egress.sh test-long [PACKAGE]
#                                          the tests TestNightly..., which `test` skips
#        scripts/egress.sh fuzz [PACKAGE [TARGET]]
#                                          each fuzz target, or this one, for SECONDS_EACH (60) seconds
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BUILD=$PWD/build

fail() {
    printf 'egress: %s\n' "$@" >&2
    exit 1
}

step() {
    printf 'check: %s\n' "$*" >&2
    "$@"
}

ensure_go() {
    command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null ||
        fail "Go is missing: install $(go_version) or later (https://go.dev/dl), then try again"
    # An older `go` fetches the version of go.mod, unless that is forbidden.
    (cd egress && go version >/dev/null) || fail "\`go\` cannot be used in egress/: it needs $(go_version)"
}

go_version() { sed -n 's/^go /go/p' egress/go.mod; }

build() {
    local version
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
    mkdir -p "$BUILD"
    (cd egress && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.release=${version:-unknown}" \
        -o "$BUILD/" ./cmd/...)
}

check() {
    cd egress
    local unformatted
    unformatted=$(gofmt -l .)
    [[ -z $unformatted ]] || fail "not formatted; run \`gofmt -w\` on:" "$unformatted"
    step go vet ./...
    step go tool staticcheck ./...
    step bash bpf/build.sh check
}

# Lists skipped tests in the format of the tests in Rust, and counts test functions. A test without
# a result counts as failed.
summary() {
    awk '
        /^=== (RUN|CONT|NAME) / { test = $3 }
        # The last line of a test before its skip is the reason.
        /^ +[a-z0-9_]+\.go:[0-9]+: / {
            sub(/^ +[a-z0-9_]+\.go:[0-9]+: (SKIP(PED)?[:,] )?/, "")
            why[test] = $0
        }
        /^ *--- SKIP: / { printf "SKIPPED %s%s: %s\n", /^ / ? "IN " : "", $3, why[$3] }
        /^--- (PASS|FAIL|SKIP): / { count[$2]++ }
        /^FAIL\t.*\[(build|setup) failed\]/ || /^panic: test timed out/ { count["FAIL:"]++ }
        END { printf "%d passed, %d failed\n", count["PASS:"], count["FAIL:"] }
    ' "$1"
}

# Prints what each failed test has printed, which others' lines separate, and what stands outside tests.
failures() {
    awk '
        /^=== (RUN|CONT|NAME|PAUSE) / { sub(/\/.*/, "", $3); test = $3; next }
        /^(panic:|fatal error:|WARNING: DATA RACE)/ { wild = 1 }
        wild { print; next }
        /^ *--- / { name = $3; sub(/\/.*/, "", name); text[name] = text[name] $0 "\n" }
        /^--- FAIL/ { failed[++count] = $3 }
        !/^ *--- / { text[test] = text[test] $0 "\n" }
        END { for (n = 1; n <= count; n++) printf "%s", text[failed[n]] }
    ' "$1" | tail -n 400
}

# Runs the tests of a package for which an option of `go test` is true.
run_tests() {
    local log=$BUILD/egress-test.log status=0
    mkdir -p "$BUILD"
    ((EUID == 0)) || echo "egress: NOT ROOT: tests in network namespaces are skipped" >&2
    # The edge server is that of Rust's tests, where they have been built.
    local edge=${CARGO_TARGET_DIR:-$PWD/target}/debug/hikyaku
    [[ ! -x $edge ]] || export HIKYAKU_EDGE_SERVER=$edge
    # Two packages at a time, most of which wait for daemons in namespaces of their own.
    # The agents that tests start have the race detector, too.
    (cd egress && HIKYAKU_EGRESS_RACE=1 go test -race -p 2 -timeout 25m -v "$2" "$1") >"$log" 2>&1 || status=$?
    grep -E '^(ok|FAIL|panic:|\?)|--- FAIL|WARNING: DATA RACE' "$log" || true
    ((status == 0)) || {
        failures "$log" >&2
        echo "egress: all output is in $log" >&2
    }
    summary "$log"
    return "$status"
}

fuzz() {
    cd egress
    local package target names found=0
    for package in $(go list "$1"); do
        names=$(go test -list "$2" "$package")
        for target in $(grep '^Fuzz' <<<"$names" || true); do
            found=1
            echo "fuzz: $target of $package for ${SECONDS_EACH:-60} s"
            # Without the limit, each new input is made smaller for a minute.
            go test -run '^$' -fuzz "^$target\$" -fuzztime "${SECONDS_EACH:-60}s" \
                -fuzzminimizetime 1x "$package"
        done
    done
    ((found)) || fail "no fuzz target in $1 is called $2"
}

ensure_go
case "${1-}" in
build | check) "$1" ;;
test) run_tests "${2:-./...}" "-skip=^TestNightly" ;;
test-long) run_tests "${2:-./...}" "-run=^TestNightly" ;;
fuzz) fuzz "${2:-./...}" "^${3:-Fuzz.*}\$" ;;
*)
    sed -n '2,13 s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
