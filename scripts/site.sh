#!/usr/bin/env bash
# Makes the generated files of the sample site: images and precompressed siblings.
set -euo pipefail
cd "$(dirname "$0")/../site"

readonly PRINTS=generated

if [[ ! -e $PRINTS/.complete || -n $(find ../scripts/prints -name '*.py' -newer $PRINTS/.complete) ]]; then
    echo "site: drawing the prints"
    rm -rf "$PRINTS"
    mkdir "$PRINTS"
    PYTHONDONTWRITEBYTECODE=1 python3 ../scripts/prints/draw.py "$PRINTS"
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
