#!/usr/bin/env bash
# Runs every test, and ends with `N passed, N failed` on a line of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LOG=build/test.log

bash scripts/setup.sh test
bash scripts/site.sh
mkdir -p build

status=0
# The lab measures with them.
bash scripts/egress.sh build || status=$?
cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$LOG" || status=$?
bash scripts/egress.sh test 2>&1 | tee -a "$LOG" || status=$?
# What runs in the kernel is committed as it was compiled: it must be what its source gives.
bash scripts/bpf.sh check || status=$?
bash egress/bpf/build.sh check || status=$?

# Each of Rust's test binaries ends with `test result: ok. 12 passed; 0 failed; 1 ignored; ...`,
# those of Go with `1 skipped` and `12 passed, 0 failed`.
awk '
    /^test result: / {
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failed += $(i - 1)
            if ($i == "ignored;") ignored += $(i - 1)
        }
    }
    /^[0-9]+ skipped$/ { ignored += $1 }
    /^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3 }
    END {
        if (ignored) printf "%d ignored or skipped\n", ignored
        printf "%d passed, %d failed\n", passed, failed
    }
' "$LOG"
exit "$status"
