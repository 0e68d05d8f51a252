#!/usr/bin/env python3
"""Draws the sample site's twelve prints: vector and raster files of different sizes.

usage: draw.py DIRECTORY

Needs Pillow, of which each version draws the same bytes each time.
"""

import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import raster
import scenes
import svg
from shapes import Print

# Name, suffix, width in pixels, JPEG quality or PNG compression level. The large ones come
# first, so that both processor cores are busy to the end.
PRINTS = [
    ("kanagawa", "jpg", 2100, 92),
    ("otsu", "jpg", 1800, 90),
    ("hara", "png", 1500, 3),
    ("hakone", "jpg", 1500, 88),
    ("kanbara", "png", 1200, 3),
    ("shono", "jpg", 1200, 85),
    ("kyoto", "jpg", 960, 82),
    ("shinagawa", "png", 900, 2),
    ("maisaka", "png", 720, 3),
    ("nihonbashi", "svg", None, None),
    ("shimada", "svg", None, None),
    ("kuwana", "svg", None, None),
]


def draw(directory, name, suffix, width, level):
    seed = zlib.crc32(name.encode())
    sheet = Print(seed)
    getattr(scenes, name)(sheet)
    sheet.seal(40, 40)
    file = directory / f"{name}.{suffix}"
    if suffix == "svg":
        file.write_bytes(svg.encode(sheet.shapes))
        return
    picture = raster.render(sheet.shapes, width, width * 2 // 3, seed)
    if suffix == "png":
        picture.save(file, compress_level=level)
    else:
        picture.save(file, quality=level, subsampling="4:2:0")


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
