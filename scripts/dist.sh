#!/usr/bin/env bash
# Packs a release into build/dist (docs/release.md): the programs, their configuration and what
# goes with them; the same as Debian packages and as a container image; debug information in an
# archive of its own; notes, and SHA-256 sums of all. Then it tries what it has packed.
#
# usage: scripts/dist.sh             builds the programs
#        scripts/dist.sh PROGRAMS    takes hikyaku and hikyaku-egress of this folder, which is no release
set -euo pipefail
given=${1:+$(realpath "$1")}
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

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
if [[ -n $given ]]; then
    say "NOT A RELEASE: the programs are those of $given"
    programs=$given
    max_bytes=$((1000 * 1000 * 1000))
else
    say "building the programs"
    # Packed relocations are a megabyte less; they need glibc 2.36, as Debian 12 has. So is the code of
    # functions that are alike, which Rust's linker holds once.
    cargo rustc --release --locked -p hikyaku --bin hikyaku -- \
        -C link-arg=-Wl,-z,pack-relative-relocs -C link-arg=-Wl,--icf=all -C link-arg=-Wl,-O2
    bash scripts/egress.sh build
    programs=$stage/programs
    mkdir "$programs"
    cp "${CARGO_TARGET_DIR:-target}/release/hikyaku" build/hikyaku-egress "$programs/"
    max_bytes=$MAX_PROGRAM_BYTES
fi

NAME=hikyaku-$version-$(uname -m)
readonly NAME PROGRAM=$stage/$NAME/bin/hikyaku DEBUG=$stage/$NAME-debug
mkdir -p "$stage/$NAME/bin" "$stage/$NAME/conf" "$DEBUG"

say "taking debug information out"
install -m 755 "$programs/hikyaku" "$PROGRAM"
objcopy --only-keep-debug "$PROGRAM" "$DEBUG/hikyaku.debug"
chmod 644 "$DEBUG/hikyaku.debug"
objcopy --strip-all --add-gnu-debuglink="$DEBUG/hikyaku.debug" "$PROGRAM"
size=$(stat --format=%s "$PROGRAM")
((size <= max_bytes)) || fail "hikyaku has $size bytes, more than $max_bytes"
"$PROGRAM" --version >/dev/null

install -m 755 "$programs/hikyaku-egress" "$stage/$NAME/bin/"
install -m 644 conf/*.toml conf/*.service conf/*.socket conf/*.json conf/*.yml "$stage/$NAME/conf/"
cp -r conf/examples "$stage/$NAME/conf/"
chmod -R u=rwX,go=rX "$stage/$NAME/conf"
install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$stage/$NAME/"
say "collecting the licences of what is linked in"
python3 scripts/third-party.py >"$stage/$NAME/THIRD-PARTY.txt"

say "packing"
rm -rf "$DIST"
mkdir -p "$DIST"
pack "$NAME"
pack "$NAME-debug"
export SOURCE_DATE_EPOCH=$date
bash scripts/deb.sh "$stage/$NAME" "$DIST"
bash scripts/oci.sh "$stage/$NAME" "$DIST/hikyaku-$version-$(dpkg --print-architecture).oci.tar"
bash scripts/release-notes.sh "$version" >"$DIST/RELEASE-NOTES.md"
(cd "$DIST" && sha256sum ./*.tar.xz ./*.deb ./*.oci.tar | sed 's# \./# #' | tee SHA256SUMS)
if ((EUID == 0)); then
    bash scripts/dist-test.sh "$stage/$NAME" "$DIST"
else
    say "NOT TRIED: the packages and the image need root for that (sudo scripts/dist-test.sh)"
fi
say "hikyaku has $size bytes; archives are in $DIST"
