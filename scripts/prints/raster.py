"""Prints as pixels, drawn by Pillow, with the paper's grain."""

import math
import random

from PIL import Image, ImageChops, ImageDraw

from shapes import WIDTH

# Pillow's outlines have hard edges and whole coordinates. So masks are drawn larger by one of
# these factors and reduced: small shapes show their edges most.
FINE, COARSE = 8, 4
# Pixels of a mask up to which it is fine.
SMALL = 200_000
# Grain is added to pixels of at most 255 - GRAIN.
GRAIN = 14


def render(shapes, width, height, seed):
    """The picture of a sheet."""
    sheet = Image.new("RGB", (width, height), "white")
    for shape in shapes:
        fill(sheet, shape, width / WIDTH)
    return add_grain(sheet, seed)


def fill(sheet, shape, scale):
    xs = [x * scale for x, _ in shape.points]
    ys = [y * scale for _, y in shape.points]
    left, right = max(math.floor(min(xs)), 0), min(math.ceil(max(xs)), sheet.width)
    top, bottom = max(math.floor(min(ys)), 0), min(math.ceil(max(ys)), sheet.height)
    width, height = right - left, bottom - top
    if width <= 0 or height <= 0:
        return
    factor = FINE if width * height <= SMALL else COARSE
    mask = Image.new("L", (width * factor, height * factor))
    outline = [
        (round((x - left) * factor - 0.5), round((y - top) * factor - 0.5)) for x, y in zip(xs, ys)
    ]
    ImageDraw.Draw(mask).polygon(outline, fill=round(255 * shape.alpha))
    ink = gradient(shape.paint, min(ys), max(ys), range(top, bottom))
    sheet.paste(ink.resize((width, height)), (left, top), mask.reduce(factor))


def gradient(paint, top, bottom, rows):
    """One column of pixels with the paint's colour in each row."""
    first, last = map(rgb, (paint, paint) if isinstance(paint, str) else paint)
    column = Image.new("RGB", (1, len(rows)))
    parts = [min(max((row + 0.5 - top) / max(bottom - top, 1e-9), 0), 1) for row in rows]
    column.putdata([tuple(round(a + (b - a) * t) for a, b in zip(first, last)) for t in parts])
    return column


def rgb(colour):
    return tuple(bytes.fromhex(colour[1:]))


def add_grain(sheet, seed):
    """Paper and baren: fine noise, drawn out along the fibres."""
    width, height = sheet.size
    draw = random.Random(seed)
    fine = draw.randbytes(4 * width)
    fibres = bytes(sum(fine[i : i + 6]) * GRAIN // (6 * 255) for i in range(len(fine) - 6))
    starts = [draw.randrange(len(fibres) - width) for _ in range(height)]
    grain = Image.frombytes("L", sheet.size, b"".join(fibres[at : at + width] for at in starts))
    room = sheet.point([value * (255 - GRAIN) // 255 for value in range(256)] * 3)
    return ImageChops.add(room, Image.merge("RGB", [grain] * 3))
