#!/usr/bin/env bash
# Runs every test, and ends with `N passed, N failed` on a line of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LOG=build/test.log

bash scripts/setup.sh test
bash scripts/site.sh
mkdir -p build

status=0
cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$LOG" || status=$?

# Each test binary ends with `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
awk '
    /^test result: / {
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failed += $(i - 1)
            if ($i == "ignored;") ignored += $(i - 1)
        }
    }
    END {
        if (ignored) printf "%d ignored\n", ignored
        printf "%d passed, %d failed\n", passed, failed
    }
' "$LOG"
exit "$status"
