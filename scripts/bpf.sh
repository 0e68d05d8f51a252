#!/usr/bin/env bash
# The congestion controls in crates/edge/bpf: builds the object that the server carries, or checks
# that it is what its source gives. The same clang gives the same bytes, wherever it runs.
#
# usage: scripts/bpf.sh build|check
set -euo pipefail
cd "$(dirname "$0")/../crates/edge/bpf"

# Another version gives other bytes.
readonly CLANG=clang-14 STRIP=llvm-strip-14
readonly OBJECT=congestion.bpf.o

compile() {
    "$CLANG" -O2 -g -Wall -Wextra -Wno-unused-parameter -Werror \
        -target bpf -mcpu=v3 -fdebug-compilation-dir=. \
        -isystem "/usr/include/$(uname -m)-linux-gnu" -c congestion.bpf.c -o "$1"
    # Leaves the types (BTF) that loading needs.
    "$STRIP" --strip-debug "$1"
}

case "${1-}" in
build) compile "$OBJECT" ;;
check)
    fresh=$(mktemp)
    trap 'rm -f "$fresh"' EXIT
    compile "$fresh"
    if ! cmp --silent "$fresh" "$OBJECT"; then
        echo "bpf: crates/edge/bpf/$OBJECT is not what its source gives; run" \
            "\`scripts/bpf.sh build\` and commit it" >&2
        exit 1
    fi
    ;;
*)
    echo "usage: scripts/bpf.sh build|check" >&2
    exit 2
    ;;
esac
