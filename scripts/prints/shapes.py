"""What a print is made of: filled outlines, as a woodblock print is of inked blocks.

Coordinates are units of a sheet 1200 wide and 800 high, y downwards; colours are hex.
A paint is a colour or a pair of them: a vertical gradient over the outline's height
(bokashi, the printers' wiped ink).
"""

import math
import random
from dataclasses import dataclass, field

WIDTH, HEIGHT = 1200, 800

INK = "#23262b"
PRUSSIAN = "#1d3c5e"
INDIGO = "#34618a"
WATER = "#8fb3bb"
FOAM = "#eef0e6"
PAPER = "#f1e6cd"
DAWN = "#e8b08c"
VERMILION = "#c1442c"
OCHRE = "#d39c48"
MOSS = "#566b3f"
PINE = "#2d4a3c"
STONE = "#6d7478"
SKIN = "#d9a77c"
WOOD = "#7a5236"


@dataclass
class Shape:
    """One outline, filled by the even-odd rule."""

    points: list
    paint: object
    alpha: float = 1.0


@dataclass
class Print:
    """Shapes in the order in which they are printed, with a seed for what is irregular."""

    seed: int
    shapes: list = field(default_factory=list)

    def __post_init__(self):
        self.random = random.Random(self.seed)

    def fill(self, points, paint, alpha=1.0):
        self.shapes.append(Shape(points, paint, alpha))

    def rect(self, x, y, width, height, paint, alpha=1.0):
        corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
        self.fill(corners, paint, alpha)

    def sky(self, *stops):
        """Bands of gradients from the top; each stop is a height and a colour."""
        for (y0, top), (y1, bottom) in zip(stops, stops[1:]):
            # A little overlap: edges that only touch would let the paper shine through.
            self.rect(0, y0, WIDTH, y1 - y0 + 2, (top, bottom))

    def disc(self, x, y, radius, paint, alpha=1.0):
        self.ellipse(x, y, radius, radius, paint, alpha)

    def ellipse(self, x, y, rx, ry, paint, alpha=1.0):
        turn = [i * math.tau / 48 for i in range(48)]
        self.fill([(x + rx * math.cos(a), y + ry * math.sin(a)) for a in turn], paint, alpha)

    def stroke(self, points, width, paint, alpha=1.0):
        """A line with round ends that narrows to `width[1]` when a pair is given."""
        first, last = width if isinstance(width, tuple) else (width, width)
        steps = max(len(points) - 1, 1)
        radii = [(first + (last - first) * i / steps) / 2 for i in range(len(points))]
        left, right = [], []
        for i, ((x, y), r) in enumerate(zip(points, radii)):
            (ax, ay), (bx, by) = points[max(i - 1, 0)], points[min(i + 1, steps)]
            length = math.hypot(bx - ax, by - ay) or 1
            nx, ny = (ay - by) / length * r, (bx - ax) / length * r
            left.append((x + nx, y + ny))
            right.append((x - nx, y - ny))
        self.fill(left + right[::-1], paint, alpha)
        if max(first, last) > 3:
            for (x, y), r in zip(points, radii):
                self.disc(x, y, r, paint, alpha)

    def ridge(self, base, height, roughness=1.0, step=12):
        """Heights of a mountain ridge from left to right, as points."""
        waves = [
            (self.random.uniform(0, math.tau), 2 ** octave, roughness**octave / 2**octave)
            for octave in range(6)
        ]
        total = sum(weight for _, _, weight in waves)
        points = []
        for x in range(0, WIDTH + step, step):
            at = x / WIDTH * math.tau * 0.8
            rise = sum(weight * math.sin(at * rate + phase) for phase, rate, weight in waves)
            points.append((x, base - height * (0.5 + 0.5 * rise / total)))
        return points

    def land(self, ridge, paint, bottom=HEIGHT, alpha=1.0):
        self.fill([(0, bottom), *ridge, (WIDTH, bottom)], paint, alpha)

    def mist(self, x, y, length, thickness, paint=PAPER, alpha=0.9):
        """A bank of mist as the printers drew it: a bar with round ends (suyari-gasumi)."""
        r = thickness / 2
        left = [(x - r * math.sin(a), y - r * math.cos(a)) for a in arc()]
        right = [(x + length + r * math.sin(a), y - r * math.cos(a)) for a in arc()]
        self.fill(left[::-1] + right, paint, alpha)

    def fuji(self, x, base, height, body, snow=FOAM):
        """The mountain, with its concave slopes, snow and the gullies in it."""
        half = height * 1.75

        def slope(t):
            return half * (0.045 + 0.955 * t**1.55), base - height * (1 - t)

        flank = [slope(i / 40) for i in range(41)]
        crater = [(-0.02 * half, base - height * 1.0), (0.0, base - height * 0.985)]
        left = [(x - dx, y) for dx, y in flank][::-1]
        self.fill(left + [(x + cx, cy) for cx, cy in crater] + [(x + dx, y) for dx, y in flank], body)
        cap = [slope(i / 40) for i in range(14)]
        jag = []
        for i in range(15):
            t = i / 14
            dx, y = slope(13 / 40)
            deep = (height * 0.17 if i % 2 else -height * 0.06) * self.random.uniform(0.5, 1.15)
            edge = 0 if i in (0, 14) else deep
            jag.append((x + dx - 2 * dx * t, y + edge))
        left = [(x - dx, y) for dx, y in cap][::-1]
        self.fill(left + [(x + dx, y) for dx, y in cap] + jag[1:-1], snow)

    def water_lines(self, top, bottom, paint, count=40, alpha=0.5):
        """Short horizontal strokes, longer and wider apart towards the viewer."""
        for _ in range(count):
            depth = self.random.random() ** 1.4
            y = top + (bottom - top) * depth
            length = (30 + 190 * depth) * self.random.uniform(0.5, 1.2)
            x = self.random.uniform(-60, WIDTH)
            bend = 2 + 5 * depth
            line = [(x + length * t, y + bend * math.sin(t * math.tau)) for t in steps(12)]
            self.stroke(line, (1 + 2.2 * depth, 0.6), paint, alpha)

    def pine(self, x, y, size, needles=PINE, lean=0.15):
        """A pine of the coast road: a bent trunk under flat clouds of needles."""
        trunk = [(x + size * lean * math.sin(t * 2.6), y - size * t) for t in steps(10)]
        self.stroke(trunk, (size * 0.075, size * 0.02), WOOD)
        for height, spread, side in ((0.45, 0.3, 1), (0.6, 0.34, -1), (0.74, 0.3, 1), (0.88, 0.24, -1), (1, 0.2, 0.3)):
            tx, ty = x + size * lean * math.sin(height * 2.6), y - size * height
            cx = tx + side * spread * size * 0.5
            self.stroke([(tx, ty + size * 0.05), (cx, ty)], (size * 0.03, size * 0.012), WOOD)
            self.tuft(cx, ty, spread * size, needles)

    def tuft(self, x, y, size, paint):
        for i in range(5):
            dx = (i - 2) * size * 0.2
            lift = size * 0.09 * (2 - abs(i - 2))
            self.ellipse(x + dx, y - lift, size * 0.2, size * 0.13, paint)

    def bird(self, x, y, size, paint=INK):
        wing = [(x + size * (t - 0.5) * 2, y - size * 0.4 * abs(math.sin(t * math.tau))) for t in steps(16)]
        self.stroke(wing, (size * 0.1, size * 0.05), paint)

    def boat(self, x, y, size, sail=PAPER):
        """A coaster under its square sail."""
        hull = [(-0.55, -0.1), (-0.42, 0.03), (0.4, 0.03), (0.62, -0.16), (0.4, -0.07), (-0.4, -0.07)]
        self.stroke([(x, y - size * 0.05), (x, y - size * 1.02)], size * 0.03, WOOD)
        cloth = [(-0.3, -0.95), (0.3, -0.95)]
        cloth += [(0.3 + 0.07 * math.sin(t * math.pi), -0.95 + 0.72 * t) for t in steps(8)]
        cloth += [(-0.3 + 0.07 * math.sin(t * math.pi), -0.23 - 0.72 * t) for t in steps(8)]
        self.fill(place(cloth, x, y, size), (sail, "#d8c8a4"))
        for seam in (-0.1, 0.1):
            line = [(seam + 0.07 * math.sin(t * math.pi), -0.95 + 0.72 * t) for t in steps(8)]
            self.stroke(place(line, x, y, size), size * 0.01, STONE, 0.6)
        self.fill(place(hull, x, y, size), (WOOD, INK))

    def courier(self, x, y, size, coat=INDIGO):
        """A hikyaku at a run, his box on the pole over his shoulder."""

        def at(*points):
            return place(points, x, y, size)

        self.stroke(at((-0.04, -0.46), (-0.2, -0.3), (-0.4, -0.27)), (size * 0.09, size * 0.05), SKIN)
        self.stroke(at((-0.4, -0.27), (-0.44, -0.2)), size * 0.045, WOOD)
        self.stroke(at((-0.04, -0.46), (0.17, -0.34), (0.12, -0.05)), (size * 0.1, size * 0.055), SKIN)
        self.stroke(at((0.12, -0.03), (0.2, -0.01)), size * 0.05, WOOD)
        self.stroke(at((0.06, -0.72), (-0.12, -0.6), (-0.02, -0.5)), (size * 0.075, size * 0.05), SKIN)
        self.fill(at((0.0, -0.8), (0.13, -0.76), (0.1, -0.56), (0.1, -0.42), (-0.15, -0.4), (-0.12, -0.6), (-0.06, -0.77)), coat)
        self.stroke(at((-0.1, -0.52), (0.1, -0.53)), size * 0.04, PAPER)
        self.stroke(at((-0.52, -0.74), (0.4, -0.84)), size * 0.022, INK)
        self.fill(at((-0.66, -0.9), (-0.42, -0.92), (-0.4, -0.66), (-0.64, -0.64)), VERMILION)
        self.fill(at((-0.575, -0.85), (-0.485, -0.86), (-0.475, -0.72), (-0.565, -0.71)), PAPER)
        self.stroke(at((0.07, -0.74), (0.23, -0.66), (0.24, -0.82)), (size * 0.07, size * 0.05), SKIN)
        self.disc(x + size * 0.1, y - size * 0.88, size * 0.08, SKIN)
        self.fill(at((0.0, -0.91), (0.19, -0.93), (0.15, -0.99), (0.03, -0.98)), PAPER)
        self.fill(at((0.0, -0.91), (-0.08, -0.87), (-0.05, -0.93)), PAPER)

    def seal(self, x, y):
        """The publisher's seal in a corner."""
        self.rect(x, y, 44, 62, VERMILION)
        for line in ([(10, 14), (34, 14)], [(22, 8), (22, 30)], [(10, 38), (34, 38)], [(12, 48), (32, 48)], [(22, 38), (22, 55)]):
            self.stroke([(x + dx, y + dy) for dx, dy in line], 3, PAPER)


def arc():
    return [i * math.pi / 16 for i in range(17)]


def steps(count):
    return [i / count for i in range(count + 1)]


def place(points, x, y, size):
    """Points of a unit drawing, moved and scaled onto the sheet."""
    return [(x + px * size, y + py * size) for px, py in points]
