#!/usr/bin/env bash
# Checks the prose of documents and comments, and everything's spelling. It changes nothing.
#
# usage: scripts/prose.sh            every document and every source
#        scripts/prose.sh FILE...    these documents and sources alone
#
# The rules are in .vale/styles/Hikyaku and .typos.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TOOLS=build/tools
readonly COMMENTS=build/comments

fail() {
    printf 'prose: %s\n' "$@" >&2
    exit 1
}

documents() {
    printf '%s\n' README.md ARCHITECTURE.md CONTRIBUTING.md docs/*.md crates/*/README.md
}

# sources: every file whose comments are checked, and the texts of experiments
sources() {
    git ls-files -- 'crates/*/src/*.rs' 'crates/*/tests/*.rs' 'crates/*/benches/*.rs' 'egress/*.go' 'conf/*.toml' 'experiments/*.toml'
}

check_documents() {
    (($# == 0)) || "$TOOLS/vale" --output line "$@"
}

# Reports each mistake by its line in the source.
check_comments() {
    (($#)) || return 0
    rm -rf "$COMMENTS"
    python3 scripts/comments.py "$COMMENTS" "$@"
    "$TOOLS/vale" --output line "$COMMENTS" | sed -E "s|^$COMMENTS/(.*)\.md:|\1:|"
}

[[ -x $TOOLS/vale && -x $TOOLS/typos ]] || bash scripts/setup.sh check

documents=()
sources=()
if (($#)); then
    for file in "$@"; do
        case $file in
        *.rs | *.go | *.toml) sources+=("$file") ;;
        *) documents+=("$file") ;;
        esac
    done
    spelling=("$@")
else
    mapfile -t documents < <(documents)
    mapfile -t sources < <(sources)
    spelling=(.)
fi

status=0
check_documents "${documents[@]}" || status=$?
check_comments "${sources[@]}" || status=$?
"$TOOLS/typos" --format brief "${spelling[@]}" || status=$?
((status == 0)) || fail "rewrite these sentences and words; docs/terms.md has the words to use"
