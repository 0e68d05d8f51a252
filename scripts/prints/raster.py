"""Prints as pixels: a scanline renderer with exact horizontal and 4-fold vertical
anti-aliasing, and the paper's grain."""

import math
import operator
import random

from shapes import WIDTH

SUBLINES = 4
# Grain is added to pixels of at most 255 - GRAIN.
GRAIN = 14


def render(shapes, width, height, seed):
    """Rows of RGB bytes."""
    rows = [bytearray(b"\xff" * (3 * width)) for _ in range(height)]
    scale = width / WIDTH
    for shape in shapes:
        points = [(x * scale, y * scale) for x, y in shape.points]
        fill(rows, width, points, shape.paint, shape.alpha)
    return add_grain(rows, width, seed)


def fill(rows, width, points, paint, alpha):
    ys = [y for _, y in points]
    top, bottom = min(ys), max(ys)
    colour_at = gradient(paint, top, bottom)
    # Edges as (upper y, lower y, x at upper y, dx/dy).
    edges = []
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1]):
        if y0 != y1:
            if y0 > y1:
                x0, y0, x1, y1 = x1, y1, x0, y0
            edges.append((y0, y1, x0, (x1 - x0) / (y1 - y0)))
    edges.sort()
    active, following = [], 0
    for row in range(max(math.floor(top), 0), min(math.ceil(bottom), len(rows))):
        while following < len(edges) and edges[following][0] < row + 1:
            active.append(edges[following])
            following += 1
        active = [edge for edge in active if edge[1] > row]
        changes = {}
        for sub in range(SUBLINES):
            y = row + (sub + 0.5) / SUBLINES
            xs = sorted(x + (y - y0) * slope for y0, y1, x, slope in active if y0 <= y < y1)
            for left, right in zip(xs[::2], xs[1::2]):
                cover(changes, max(left, 0.0), min(right, float(width)))
        paint_runs(rows[row], changes, width, colour_at(row + 0.5), alpha / SUBLINES)


def cover(changes, left, right):
    """Adds one subline's span, as changes of coverage from one pixel to the next."""
    if right <= left:
        return
    for x, sign in ((left, 1), (right, -1)):
        pixel = math.floor(x)
        part = x - pixel
        changes[pixel] = changes.get(pixel, 0) + sign * (1 - part)
        changes[pixel + 1] = changes.get(pixel + 1, 0) + sign * part


def paint_runs(row, changes, width, colour, weight):
    covered = 0.0
    pixels = sorted(changes)
    for pixel, following in zip(pixels, pixels[1:]):
        covered += changes[pixel]
        opacity = covered * weight
        end = min(following, width)
        if opacity < 0.004 or pixel >= end:
            continue
        if opacity > 0.996:
            row[3 * pixel : 3 * end] = bytes(colour) * (end - pixel)
            continue
        for channel in range(3):
            at = slice(3 * pixel + channel, 3 * end, 3)
            table = blend_table(colour[channel], round(opacity * 64))
            row[at] = row[at].translate(table)


TABLES = {}


def blend_table(colour, opacity):
    """What each value becomes under ink of `opacity` 64ths."""
    key = (colour, opacity)
    if key not in TABLES:
        TABLES[key] = bytes((old * (64 - opacity) + colour * opacity + 32) // 64 for old in range(256))
    return TABLES[key]


def gradient(paint, top, bottom):
    """The colour by height, as a function of y."""
    if isinstance(paint, str):
        colour = rgb(paint)
        return lambda _: colour
    first, last = map(rgb, paint)
    height = max(bottom - top, 1e-9)

    def at(y):
        t = min(max((y - top) / height, 0), 1)
        return tuple(round(a + (b - a) * t) for a, b in zip(first, last))

    return at


def rgb(colour):
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def add_grain(rows, width, seed):
    """Paper and baren: fine noise, drawn out along the fibres."""
    draw = random.Random(seed)
    fine = draw.randbytes(4 * width)
    fibres = bytes(sum(fine[i : i + 6]) * GRAIN // (6 * 255) for i in range(len(fine) - 6))
    grain = bytes(value for value in fibres for _ in range(3))
    room = bytes(value * (255 - GRAIN) // 255 for value in range(256))
    out = []
    for row in rows:
        start = 3 * draw.randrange(len(fibres) - width)
        out.append(bytes(map(operator.add, row.translate(room), grain[start:])))
    return out
