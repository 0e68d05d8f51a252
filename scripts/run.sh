#!/usr/bin/env bash
# Serves the sample site. Arguments go to `hikyaku serve`.
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh run
bash scripts/site.sh
mkdir -p build
exec cargo run --quiet --release --locked -p hikyaku -- \
    serve site --listen '[::]:8443' --admin 127.0.0.1:8440 --state build/state "$@"
