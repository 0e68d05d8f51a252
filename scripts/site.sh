#!/usr/bin/env bash
# Makes the generated files of the sample site: images and precompressed siblings.
set -euo pipefail
cd "$(dirname "$0")/../site"

readonly PRINTS=generated

if [[ ! -e $PRINTS/.complete || -n $(find ../scripts/prints -name '*.py' -newer $PRINTS/.complete) ]]; then
    echo "site: drawing the prints"
    rm -rf "$PRINTS"
    mkdir "$PRINTS"
    # Debian's Pillow is for Debian's Python, which need not be the first one.
    python=python3
    "$python" -c 'import PIL' 2>/dev/null || python=/usr/bin/python3
    PYTHONDONTWRITEBYTECODE=1 "$python" ../scripts/prints/draw.py "$PRINTS"
    touch "$PRINTS/.complete"
fi

for file in *.html *.css *.js "$PRINTS"/*.svg; do
    if [[ $file -nt $file.gz ]]; then
        gzip -9 --keep --no-name --force "$file"
    fi
    if [[ $file -nt $file.br ]] && command -v brotli >/dev/null; then
        brotli --best --keep --force "$file"
    fi
done
