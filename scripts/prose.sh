#!/usr/bin/env bash
# Checks the prose of documents and comments, and everything's spelling. It changes nothing.
#
# usage: scripts/prose.sh            every document, and every source that is not on the list below
#        scripts/prose.sh FILE...    these documents and sources alone, on the list or not
#
# The rules are in .vale/styles/Hikyaku and .typos.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TOOLS=build/tools
readonly COMMENTS=build/comments

# Folders whose comments still have to be rewritten. The list only shrinks.
readonly NOT_YET_COMMENTS=(
    crates/core
    crates/edge
    egress
)

fail() {
    printf 'prose: %s\n' "$@" >&2
    exit 1
}

documents() {
    printf '%s\n' README.md ARCHITECTURE.md CONTRIBUTING.md docs/*.md crates/*/README.md
}

# sources: every file whose comments are checked, and the texts of experiments
sources() {
    local folder exclude=()
    for folder in "${NOT_YET_COMMENTS[@]}"; do exclude+=(":!$folder"); done
    git ls-files -- 'crates/*/src/*.rs' 'egress/*.go' 'experiments/*.toml' \
        "${exclude[@]}"
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

# A clean folder that stays on the list would go unchecked.
check_list() {
    local name files
    for name in "${NOT_YET_COMMENTS[@]}"; do
        [[ -e $name ]] || fail "$name is on the list of scripts/prose.sh, but not there"
        mapfile -t files < <(git ls-files -- "$name/src/*.rs" "$name/*.go")
        check_comments "${files[@]}" >/dev/null || continue
        echo "prose: $name is clean: take it from the list in scripts/prose.sh" >&2
    done
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
    check_list
    mapfile -t documents < <(documents)
    mapfile -t sources < <(sources)
    spelling=(.)
fi

status=0
check_documents "${documents[@]}" || status=$?
check_comments "${sources[@]}" || status=$?
"$TOOLS/typos" --format brief "${spelling[@]}" || status=$?
((status == 0)) || fail "rewrite these sentences and words; docs/terms.md has the words to use"
