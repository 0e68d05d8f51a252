#!/usr/bin/env bash
# The share of lines that the Rust tests run; the last line is `line coverage NN.N %`. Leaves
# lcov.info and summary.json in build/coverage.
#
# usage: scripts/coverage.sh [OPTION OF CARGO TEST]...    (--workspace)
set -euo pipefail
cd "$(dirname "$0")/.."

readonly OUT=build/coverage

bash scripts/setup.sh test
bash scripts/setup.sh coverage
bash scripts/site.sh
bash scripts/egress.sh build
mkdir -p "$OUT"

# Of the LLVM that the pinned Rust has.
export LLVM_COV=llvm-cov-22 LLVM_PROFDATA=llvm-profdata-22
(($#)) || set -- --workspace
status=0
# Programs and counts of an earlier run would be taken in.
cargo llvm-cov clean --workspace
cargo llvm-cov --locked --no-report --no-fail-fast "$@" || status=$?
cargo llvm-cov report --lcov --output-path "$OUT/lcov.info"
cargo llvm-cov report --json --summary-only --output-path "$OUT/summary.json"
line=$(python3 -c 'import json, sys
lines = json.load(open(sys.argv[1]))["data"][0]["totals"]["lines"]
print("line coverage %.1f %%" % lines["percent"])' "$OUT/summary.json")
# The page of a run in CI shows it.
[[ -z ${GITHUB_STEP_SUMMARY-} ]] || echo "$line" >>"$GITHUB_STEP_SUMMARY"
echo "$line"
exit "$status"
