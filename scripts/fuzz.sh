#!/usr/bin/env bash
# Fuzzes the parsers, for SECONDS_EACH (60) seconds a target.
#
# usage: scripts/fuzz.sh [TARGET]...    (default: all of them; the targets of the Go module,
#                                        which parses BGP, are called `Fuzz...`)
set -euo pipefail
cd "$(dirname "$0")/.."

readonly SECONDS_EACH=${SECONDS_EACH:-60}

rust=() go=()
for target in "$@"; do
    case $target in
    Fuzz*) go+=("$target") ;;
    *) rust+=("$target") ;;
    esac
done
if (($# == 0 || ${#rust[@]})); then
    bash scripts/setup.sh fuzz
fi
if (($# == 0)); then
    mapfile -t rust < <(cargo fuzz list)
    go=("Fuzz.*")
fi

for target in "${rust[@]}"; do
    # New inputs go into the first directory; the others have the first inputs.
    inputs=("fuzz/corpus/$target" "fuzz/seeds/$target")
    case $target in
    config) inputs+=(conf) ;;
    model) inputs+=(models) ;;
    esac
    mkdir -p "fuzz/corpus/$target"
    echo "fuzz: $target for $SECONDS_EACH s"
    # Sanitizers need a nightly compiler, and find nothing in code without `unsafe`.
    cargo fuzz run --sanitizer none "$target" "${inputs[@]}" -- \
        -max_total_time="$SECONDS_EACH" -max_len=16384 -timeout=10 -verbosity=0 -print_final_stats=1
done

for target in "${go[@]}"; do
    bash scripts/egress.sh fuzz ./... "$target"
done
