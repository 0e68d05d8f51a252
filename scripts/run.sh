#!/usr/bin/env bash
# Serves the sample site on the default addresses. Arguments go to `hikyaku serve`.
# Leaves the program at build/hikyaku, too.
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh run
bash scripts/site.sh
mkdir -p build
# Builds sooner than the release profile, for a server that is a little slower (docs/benchmarks.md).
readonly PROGRAM=${CARGO_TARGET_DIR:-$PWD/target}/fast/hikyaku
[[ -e $PROGRAM ]] || echo "run: building hikyaku, which takes some minutes the first time" >&2
cargo build --profile fast --locked -p hikyaku
ln -sfn "$PROGRAM" build/hikyaku
exec build/hikyaku serve site --state build/state "$@"
