#!/usr/bin/env bash
# Makes a container image of an unpacked release (scripts/dist.sh): hikyaku, the libraries of Debian
# that it is linked with, and certificate authorities. No shell, no root, no engine to make it.
#
# usage: scripts/oci.sh RELEASE FILE    FILE is a tar with an OCI image layout
set -euo pipefail

# Of the release of Debian that packs, with the updates that it knows. The last one has the licence
# of libgcc-s1.
mapfile -t PACKAGES < <(
    printf '%s\n' base-files ca-certificates libc6 libelf1 libgcc-s1 zlib1g
    apt-cache depends libgcc-s1 | sed -n 's/^ *Depends: \(gcc-[0-9]*-base\)$/\1/p'
)
readonly PACKAGES

(($# == 2)) || {
    echo "oci: usage: scripts/oci.sh RELEASE FILE" >&2
    exit 1
}
release=$(realpath "$1")
file=$(realpath "$2")
cd "$(dirname "$0")/.."

packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
# apt gives up its rights for a download, and could not write here then.
(cd "$packages" && apt-get download -qq -o APT::Sandbox::User=root "${PACKAGES[@]}") || {
    echo "oci: getting ${PACKAGES[*]} failed; run \`apt-get update\`, then try again" >&2
    exit 1
}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
python3 scripts/oci.py pack "$release" "$packages" "$file"
echo "$file"
