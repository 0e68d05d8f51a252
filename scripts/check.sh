#!/usr/bin/env bash
# Checks the code without running it.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    printf 'check: %s\n' "$*" >&2
    "$@"
}

# HTML in git is what people wrote: the sample site, the admin page and the packages' first page. Reports are made again.
no_generated_html() {
    local pages
    pages=$(git ls-files '*.html' '*.htm' ':!site' ':!crates/*/src/*' ':!scripts/deb')
    [[ -z $pages ]] || {
        echo "check: generated HTML is tracked; take it out of git:" "$pages" >&2
        return 1
    }
}

bash scripts/setup.sh check
step no_generated_html
step cargo fmt --all --check
step cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
step cargo check --quiet --locked --manifest-path fuzz/Cargo.toml
step cargo run --quiet --locked -p xtask -- arrows >/dev/null
RUSTDOCFLAGS="-D warnings" step cargo doc --quiet --workspace --no-deps --locked
step shellcheck scripts/*.sh scripts/deb/life.sh egress/bpf/build.sh .ci/run
step bash scripts/prose.sh
step build/tools/actionlint
step bash scripts/bpf.sh check
step bash scripts/egress.sh check
step go -C crates/cli/tests/foreign/go vet ./...
step go -C crates/xtask/client vet ./...
step cargo deny --log-level error --locked check bans licenses sources
# The advisories are in a git repository, which some networks do not reach. A check that did not
# run must not look like one that passed.
if cargo deny --log-level off --locked fetch db >/dev/null 2>&1; then
    step cargo deny --log-level error --locked check --disable-fetch advisories
else
    echo "check: ADVISORIES NOT CHECKED: their database cannot be fetched from here" >&2
fi
