#!/usr/bin/env bash
# Installs Debian packages without starting their services: nginx, for example, is only needed as a
# program.
#
# usage, as root: scripts/apt-install.sh PACKAGE...
set -euo pipefail

readonly POLICY=/usr/sbin/policy-rc.d

# invoke-rc.d asks this program whether it may start a service; 101 means no.
if [[ ! -e $POLICY ]]; then
    trap 'rm -f "$POLICY"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
fi

log=$(mktemp)
for attempt in 1 2 3; do
    if apt-get update -qq >"$log" 2>&1 &&
        apt-get install -y -qq --no-install-recommends "$@" >>"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    # Another apt may hold the lock, or a mirror may be out of step for a moment.
    ((attempt == 3)) || sleep $((attempt * 5))
done
cat "$log" >&2
printf 'setup: installing %s failed; the lines above are what apt said (%s)\n' "$*" "$log" >&2
exit 1
