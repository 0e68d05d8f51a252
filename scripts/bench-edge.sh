#!/usr/bin/env bash
# What the edge server costs, beside nginx. Arguments go to the benchmark
# (docs/benchmarks.md).
set -euo pipefail
cd "$(dirname "$0")/.."

# Debian has nginx where only root's PATH looks.
export PATH="$PATH:/usr/sbin"

bash scripts/setup.sh bench
# All of it now: nothing may be built while something is measured.
cargo build --quiet --release --locked -p hikyaku
cargo build --quiet --release --locked -p xtask
cargo build --quiet --release --locked -p hikyaku-core --example memory
cargo bench --quiet --locked -p hikyaku-core --bench decide --no-run
exec target/release/xtask bench-edge "$@"
