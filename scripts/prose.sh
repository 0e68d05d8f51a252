#!/usr/bin/env bash
# Checks the documents' prose and everything's spelling. It changes nothing.
#
# usage: scripts/prose.sh            every document, and the spelling of all sources
#        scripts/prose.sh FILE...    these files alone
#
# The rules are in .vale/styles/Hikyaku and .typos.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TOOLS=build/tools

fail() {
    printf 'prose: %s\n' "$@" >&2
    exit 1
}

[[ -x $TOOLS/vale && -x $TOOLS/typos ]] || bash scripts/setup.sh check

if (($#)); then
    files=("$@")
    spelling=("$@")
else
    files=(README.md ARCHITECTURE.md CONTRIBUTING.md docs/*.md)
    spelling=(.)
fi

status=0
"$TOOLS/vale" --output line "${files[@]}" || status=$?
"$TOOLS/typos" --format brief "${spelling[@]}" || status=$?
((status == 0)) || fail "rewrite these sentences and words; docs/terms.md has the words to use"
