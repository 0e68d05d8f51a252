#!/usr/bin/env bash
# Measures the cost of the edge server, beside other servers and builds (docs/benchmarks.md).
# Arguments go to the benchmark.
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh bench
# Everything is built now: no compiler may run during a measurement.
cargo build --quiet --release --locked -p hikyaku
cargo build --quiet --release --locked -p xtask
cargo build --quiet --release --locked -p hikyaku-core --example memory
cargo bench --quiet --locked -p hikyaku-core --bench decide --no-run
exec target/release/xtask bench "$@"
