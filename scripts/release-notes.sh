#!/usr/bin/env bash
# Prints the section of CHANGELOG.md of a version, or what is unreleased where it has none.
#
# usage: scripts/release-notes.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/.."

(($# == 1)) || {
    echo "release-notes: usage: scripts/release-notes.sh VERSION" >&2
    exit 1
}

# section NAME: what follows `## [NAME]`, up to the next heading of this kind
section() {
    awk -v name="$1" '
        /^## / { is_it = $2 == "[" name "]"; next }
        is_it { print }
    ' CHANGELOG.md | sed '/./,$!d'
}

notes=$(section "$1")
[[ -n $notes ]] || notes=$(section Unreleased)
[[ -n $notes ]] || {
    echo "release-notes: CHANGELOG.md has neither a section $1 nor Unreleased" >&2
    exit 1
}
printf '# hikyaku %s\n\n%s\n' "$1" "$notes"
