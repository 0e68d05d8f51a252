#!/bin/bash
# build: compiles flows.bpf.c into flows.o, which is committed.
# check: fails unless flows.o is what the source compiles to.
# The object depends on clang 14 alone: no header of the machine is used, and no
# path gets into it.
set -euo pipefail
cd "$(dirname "$0")"

compile() {
	clang-14 -target bpfel -mcpu=v3 -O2 -g -nostdinc -std=gnu11 \
		-Wall -Wextra -Werror -Wno-unused-function -Wno-address-of-packed-member \
		-fdebug-compilation-dir=. -c flows.bpf.c -o "$1"
	# DWARF goes, BTF stays: the loader reads the maps from it.
	llvm-strip-14 -g "$1"
}

need() {
	command -v "$1" >/dev/null || {
		echo "egress/bpf/build.sh: $1 is missing: apt-get install clang-14 llvm-14" >&2
		exit 1
	}
}

need clang-14
need llvm-strip-14
case "${1-}" in
build)
	compile flows.o
	;;
check)
	fresh=$(mktemp)
	trap 'rm -f "$fresh"' EXIT
	compile "$fresh"
	cmp -s "$fresh" flows.o || {
		echo "egress/bpf/flows.o is not what its source compiles to: run egress/bpf/build.sh build and commit it" >&2
		exit 1
	}
	;;
*)
	echo "usage: $0 build|check" >&2
	exit 2
	;;
esac
