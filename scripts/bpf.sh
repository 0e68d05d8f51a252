#!/usr/bin/env bash
# The programs for the kernel in crates/edge/bpf: builds the objects that the server carries, or checks
# that they are what their sources give. The same clang gives the same bytes, wherever it runs.
#
# usage: scripts/bpf.sh build|check
set -euo pipefail
cd "$(dirname "$0")/../crates/edge/bpf"

# Another version gives other bytes.
readonly CLANG=clang-14 STRIP=llvm-strip-14
readonly PROGRAMS=(congestion mptcp)

# compile PROGRAM OBJECT
compile() {
    "$CLANG" -O2 -g -Wall -Wextra -Wno-unused-parameter -Werror \
        -target bpf -mcpu=v3 -fdebug-compilation-dir=. \
        -isystem "/usr/include/$(uname -m)-linux-gnu" -c "$1.bpf.c" -o "$2"
    # Leaves the types (BTF) that loading needs.
    "$STRIP" --strip-debug "$2"
}

check() {
    compile "$1" "$fresh"
    cmp --silent "$fresh" "$1.bpf.o" && return
    echo "bpf: crates/edge/bpf/$1.bpf.o is not what its source gives; run" \
        "\`scripts/bpf.sh build\` and commit it" >&2
    exit 1
}

case "${1-}" in
build) for program in "${PROGRAMS[@]}"; do compile "$program" "$program.bpf.o"; done ;;
check)
    fresh=$(mktemp)
    trap 'rm -f "$fresh"' EXIT
    for program in "${PROGRAMS[@]}"; do check "$program"; done
    ;;
*)
    echo "usage: scripts/bpf.sh build|check" >&2
    exit 2
    ;;
esac
