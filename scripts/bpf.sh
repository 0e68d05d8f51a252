#!/usr/bin/env bash
# Builds the kernel programs of crates/edge/bpf, or checks that the committed objects match their
# sources. One version of clang gives the same bytes on every machine.
#
# usage: scripts/bpf.sh build|check
set -euo pipefail
cd "$(dirname "$0")/../crates/edge/bpf"

# Other versions give other bytes.
readonly CLANG=clang-14 STRIP=llvm-strip-14
readonly PROGRAMS=(congestion mptcp syn_ack)

# compile PROGRAM OBJECT
compile() {
    "$CLANG" -O2 -g -Wall -Wextra -Wno-unused-parameter -Werror \
        -target bpf -mcpu=v3 -fdebug-compilation-dir=. \
        -isystem "/usr/include/$(uname -m)-linux-gnu" -c "$1.bpf.c" -o "$2"
    # It keeps the types (BTF), which loading needs.
    "$STRIP" --strip-debug "$2"
}

check() {
    compile "$1" "$fresh"
    cmp --silent "$fresh" "$1.bpf.o" && return
    echo "bpf: crates/edge/bpf/$1.bpf.o does not match its source; run" \
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
