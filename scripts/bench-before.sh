#!/usr/bin/env bash
# Builds hikyaku of an earlier commit, to compare with it by `make bench ARGS="--before FILE"`, and
# prints the file. It stays in build/before.
#
# usage: scripts/bench-before.sh COMMIT
set -euo pipefail
cd "$(dirname "$0")/.."

(($# == 1)) || {
    sed -n '5 s/^# //p' "$0" >&2
    exit 2
}
commit=$(git rev-parse --short --verify "$1^{commit}")
readonly BUILT=$PWD/build/before/hikyaku-$commit SOURCE=$PWD/build/before/source
if [[ ! -x $BUILT ]]; then
    # A killed build left it.
    git worktree remove --force "$SOURCE" 2>/dev/null || true
    git worktree prune
    git worktree add --quiet --force --detach "$SOURCE" "$commit" >&2
    trap 'git worktree remove --force "$SOURCE"' EXIT
    # One target directory: most dependencies are built already.
    target=${CARGO_TARGET_DIR:-$PWD/target}
    cargo build --quiet --release --locked -p hikyaku --manifest-path "$SOURCE/Cargo.toml" --target-dir "$target" >&2
    cp "$target/release/hikyaku" "$BUILT"
fi
echo "$BUILT"
