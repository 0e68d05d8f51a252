#!/usr/bin/env bash
# Packs a release into build/dist (docs/release.md): the programs, their configuration and what
# goes with them; the same as a Debian package; debug information in an archive of its own;
# SHA-256 sums of all.
set -euo pipefail
cd "$(dirname "$0")/.."

# Of the program `hikyaku`, without debug information.
readonly MAX_PROGRAM_BYTES=$((25 * 1000 * 1000))
readonly DIST=$PWD/build/dist

say() { printf 'dist: %s\n' "$*" >&2; }

fail() {
    say "$@"
    exit 1
}

# pack FOLDER: the same files give the same archive, whoever packs them.
pack() {
    tar --create --xz --file "$DIST/$1.tar.xz" --directory "$stage" \
        --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" "$1"
}

# Where Go's own archive puts it.
export PATH="$PATH:/usr/local/go/bin"

bash scripts/setup.sh dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
date=$(git log -1 --format=%ct)
[[ -z $(git status --porcelain) ]] || say "THE TREE IS CHANGED: not a release, and \`hikyaku --version\` says so"

say "building the programs"
# Packed relocations are a megabyte less. They need glibc 2.36, as Debian 12 has.
cargo rustc --release --locked -p hikyaku --bin hikyaku -- -C link-arg=-Wl,-z,pack-relative-relocs
bash scripts/egress.sh build

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
NAME=hikyaku-$version-$(uname -m)
readonly NAME PROGRAM=$stage/$NAME/bin/hikyaku DEBUG=$stage/$NAME-debug
mkdir -p "$stage/$NAME/bin" "$stage/$NAME/conf" "$DEBUG"

say "taking debug information out"
install -m 755 "${CARGO_TARGET_DIR:-target}/release/hikyaku" "$PROGRAM"
objcopy --only-keep-debug "$PROGRAM" "$DEBUG/hikyaku.debug"
chmod 644 "$DEBUG/hikyaku.debug"
objcopy --strip-all --add-gnu-debuglink="$DEBUG/hikyaku.debug" "$PROGRAM"
size=$(stat --format=%s "$PROGRAM")
((size <= MAX_PROGRAM_BYTES)) || fail "hikyaku has $size bytes, more than $MAX_PROGRAM_BYTES"
"$PROGRAM" --version >/dev/null

install -m 755 build/hikyaku-egress "$stage/$NAME/bin/"
install -m 644 conf/*.toml conf/*.service "$stage/$NAME/conf/"
install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$stage/$NAME/"
say "collecting the licences of what is linked in"
python3 scripts/third-party.py >"$stage/$NAME/THIRD-PARTY.txt"

say "packing"
rm -rf "$DIST"
mkdir -p "$DIST"
pack "$NAME"
pack "$NAME-debug"
SOURCE_DATE_EPOCH=$date bash scripts/deb.sh "$stage/$NAME" "$DIST"
(cd "$DIST" && sha256sum ./*.tar.xz ./*.deb | sed 's# \./# #' | tee SHA256SUMS)
say "hikyaku has $size bytes; archives are in $DIST"
