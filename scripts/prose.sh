#!/usr/bin/env bash
# Checks the documents' prose and everything's spelling. It changes nothing.
#
# usage: scripts/prose.sh            every document, and the spelling of all sources
#        scripts/prose.sh FILE...    these files alone, whether they are on the list below or not
#
# The rules are in .vale/styles/Hikyaku and .typos.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TOOLS=build/tools

# Documents that still have to be rewritten. The list only shrinks.
readonly NOT_YET=(
    ARCHITECTURE.md
)

# A clean file that stays on the list would go unchecked.
check_list() {
    local file
    for file in "${NOT_YET[@]}"; do
        [[ -f $file ]] || fail "$file is on the list of scripts/prose.sh, but not there"
        "$TOOLS/vale" "$file" >/dev/null 2>&1 || continue
        echo "prose: $file is clean: take it from the list in scripts/prose.sh" >&2
    done
}

fail() {
    printf 'prose: %s\n' "$@" >&2
    exit 1
}

documents() {
    printf '%s\n' README.md ARCHITECTURE.md CONTRIBUTING.md docs/*.md |
        grep --invert-match --line-regexp --fixed-strings --file <(printf '%s\n' "${NOT_YET[@]}")
}

[[ -x $TOOLS/vale && -x $TOOLS/typos ]] || bash scripts/setup.sh check

if (($#)); then
    files=("$@")
    spelling=("$@")
else
    check_list
    mapfile -t files < <(documents)
    spelling=(.)
fi

status=0
((${#files[@]} == 0)) || "$TOOLS/vale" --output line "${files[@]}" || status=$?
"$TOOLS/typos" --format brief "${spelling[@]}" || status=$?
((status == 0)) || fail "rewrite these sentences and words; docs/terms.md has the words to use"
