#!/usr/bin/env bash
# Runs the tests, lists the skipped ones, and ends with `N passed, N failed` on a line of its
# own.
#
# usage: scripts/test.sh         every test but the long ones
#        scripts/test.sh long    the long ones: `#[ignore = "long: ..."]` in Rust, TestNightly... in Go
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LOG=build/test.log

# Minutes and seconds since the start.
at() { printf '[%02d:%02d]' $((SECONDS / 60)) $((SECONDS % 60)); }

step() { echo "test: $(at) $*" >&2; }

# Prints the time at which each of cargo's test programs began.
timed() {
    local line
    while IFS= read -r line || [[ -n $line ]]; do
        [[ ! $line =~ ^\ *(Running|Doc-tests)\  ]] || line="$(at) $line"
        printf '%s\n' "$line"
    done
}

# The options of cargo, and the command of egress.sh.
case "${1-}" in
'') readonly RUST=() GO=test ;;
long) readonly RUST=(--lib --bins --tests -- --ignored) GO=test-long ;;
*)
    sed -n '5,6 s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

step "what tests need"
bash scripts/setup.sh test
bash scripts/site.sh
mkdir -p build

status=0
step "building the egress agents"
# The lab uses them.
bash scripts/egress.sh build || status=$?
step "Rust"
# A job in the background ignores these signals, and so would its children: tests of Ctrl-C would
# wait for ever.
env --default-signal=INT,QUIT cargo test --workspace --locked --no-fail-fast "${RUST[@]}" 2>&1 |
    timed | tee "$LOG" || status=$?
step "Go"
bash scripts/egress.sh "$GO" 2>&1 | tee -a "$LOG" || status=$?
step "kernel programs"
# The objects of kernel programs are committed; they must match their sources.
bash scripts/bpf.sh check || status=$?
bash egress/bpf/build.sh check || status=$?

step "done"

# Each of Rust's test binaries ends with `test result: ok. 12 passed; 0 failed; 1 ignored; ...`,
# which counts a skipped test as passed. Those of Go end with `12 passed, 0 failed`. Both report a
# skip before: `SKIPPED name: why`, or `SKIPPED IN name: why` if the test runs its other parts.
awk '
    match($0, /SKIPPED (IN )?[^ ]+: /) {
        line = substr($0, RSTART)
        if (line in seen) next
        seen[line]
        list[++lines] = line
        split(line, word, " ")
        if (word[2] == "IN") parts++
        else if (!(word[2] in whole)) {
            whole[word[2]]
            skipped++
            of_binary++
        }
    }
    /^test result: / {
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failed += $(i - 1)
            if ($i == "ignored;") ignored += $(i - 1)
        }
        passed -= of_binary
        of_binary = 0
        split("", seen)
        split("", whole)
    }
    /^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3 }
    END {
        for (i = 1; i <= lines; i++) print list[i]
        if (ignored) printf "%d left to make test-long\n", ignored
        printf "%d skipped, %d in part\n", skipped, parts
        printf "%d passed, %d failed\n", passed, failed
    }
' "$LOG"
exit "$status"
