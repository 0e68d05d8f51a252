#!/usr/bin/env bash
# Serves the sample site on the default addresses. Arguments go to `hikyaku serve`.
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh run
bash scripts/site.sh
mkdir -p build
[[ -e target/release/hikyaku ]] || echo "run: building hikyaku, which takes some minutes the first time" >&2
exec cargo run --quiet --release --locked -p hikyaku -- \
    serve site --state build/state "$@"
