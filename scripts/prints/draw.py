#!/usr/bin/env python3
"""Draws the sample site's twelve prints: vector and raster files of different sizes.

usage: draw.py DIRECTORY

Needs nothing but Python's standard library, and draws the same bytes each time.
"""

import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import jpeg
import png
import raster
import scenes
import svg
from shapes import Print

# Name, suffix, width in pixels, JPEG quality. The large ones come first, so that
# both processor cores are busy to the end.
PRINTS = [
    ("kanagawa", "jpg", 2100, 92),
    ("otsu", "jpg", 1800, 90),
    ("hara", "png", 1500, None),
    ("hakone", "jpg", 1500, 88),
    ("kanbara", "png", 1200, None),
    ("shono", "jpg", 1200, 85),
    ("kyoto", "jpg", 960, 82),
    ("shinagawa", "png", 900, None),
    ("maisaka", "png", 720, None),
    ("nihonbashi", "svg", None, None),
    ("shimada", "svg", None, None),
    ("kuwana", "svg", None, None),
]


def draw(directory, name, suffix, width, quality):
    seed = zlib.crc32(name.encode())
    sheet = Print(seed)
    getattr(scenes, name)(sheet)
    sheet.seal(40, 40)
    if suffix == "svg":
        data = svg.encode(sheet.shapes)
    else:
        rows = raster.render(sheet.shapes, width, width * 2 // 3, seed)
        data = png.encode(rows) if suffix == "png" else jpeg.encode(rows, quality)
    (directory / f"{name}.{suffix}").write_bytes(data)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: draw.py DIRECTORY")
    directory = Path(sys.argv[1])
    with ProcessPoolExecutor() as pool:
        drawn = [pool.submit(draw, directory, *entry) for entry in PRINTS]
        for entry in drawn:
            entry.result()


if __name__ == "__main__":
    main()
