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

# Prints the time at which each of cargo's test programs began, and how many of them there are.
timed() {
    local line number=0
    while IFS= read -r line || [[ -n $line ]]; do
        if [[ $line =~ ^\ *Running\  ]]; then
            line="$(at) program $((++number)) of $1: ${line#*Running }"
        elif [[ $line =~ ^\ *Doc-tests\  ]]; then
            line="$(at) $line"
        fi
        printf '%s\n' "$line"
    done
}

# Builds Rust's test programs, with cargo's progress, and runs them.
rust() {
    local programs build=(cargo test --workspace --locked "${TARGETS[@]}" --no-run)
    step "building Rust's tests"
    "${build[@]}" || return
    programs=$("${build[@]}" --color never 2>&1 | grep -c '^ *Executable ')
    step "Rust"
    # Of a job in the background the shell has these ignored, and what it starts would, too: tests
    # of Ctrl-C would wait for ever.
    env --default-signal=INT,QUIT cargo test --workspace --locked --no-fail-fast "${TARGETS[@]}" \
        --color never -- "${WHICH[@]}" 2>&1 | timed "$programs" | tee "$LOG"
}

# What cargo builds and which of the tests run, and egress.sh's command.
case "${1-}" in
'') readonly TARGETS=() WHICH=() GO=test ;;
long) readonly TARGETS=(--lib --bins --tests) WHICH=(--ignored) GO=test-long ;;
*)
    sed -n '5,6 s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

step "what tests need"
bash scripts/setup.sh test
bash scripts/site.sh
mkdir -p build
: >"$LOG"

status=0
step "building the egress agents"
# The lab uses them.
bash scripts/egress.sh build || status=$?
rust || status=$?
step "Go"
bash scripts/egress.sh "$GO" 2>&1 | tee -a "$LOG" || status=$?
[[ $GO != test ]] || go -C crates/xtask/client test ./... || status=$?
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
