#!/usr/bin/env bash
# Measures uploads of 20 MB over 50 Mbit/s and a round trip of 600 ms, by HTTP/2 and HTTP/3 beside
# HTTP/1.1 (docs/benchmarks.md). Needs root.
#
# usage: scripts/bench-uploads.sh [ROUNDS]    (5)
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh bench
cargo build --quiet --release --locked -p hikyaku
topology=$(mktemp --suffix=.toml)
trap 'rm -f "$topology"' EXIT
link='both = { rate = "50Mbps", one_way_delay = "300ms", queue = "300ms" }'
sed "s/^both = .*/$link/" crates/emulator/topologies/pair.toml > "$topology"
target/release/hikyaku lab shell "$topology" -- python3 scripts/bench-uploads.py "${1:-5}"
