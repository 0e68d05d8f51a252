"""Twelve stations of the Tokaido, the couriers' road from Edo to Kyoto."""

import math

from shapes import (
    DAWN, FOAM, HEIGHT, INDIGO, INK, MOSS, OCHRE, PAPER, PINE, PRUSSIAN, SKIN, STONE, VERMILION,
    WATER, WIDTH, WOOD, Print, place, steps,
)  # fmt: skip


def nihonbashi(p: Print):
    """The bridge in Edo where the road begins; couriers cross it before sunrise."""
    p.sky((0, INDIGO), (190, WATER), (330, PAPER), (470, DAWN))
    p.disc(850, 400, 88, VERMILION)
    p.fuji(330, 470, 120, "#7f9fb0")
    roofs(p, 470, 26, "#55697a")
    p.rect(0, 468, WIDTH, 332, ("#d9b79a", PRUSSIAN))
    p.water_lines(500, 790, FOAM, 46, 0.4)
    p.mist(-60, 300, 420, 34)
    p.mist(620, 258, 700, 26)
    arch_bridge(p, 560, 150)
    for x, size, coat in ((300, 120, INDIGO), (560, 126, PRUSSIAN), (800, 118, MOSS)):
        p.courier(x, deck(x, 560, 150) - 6, size, coat)
    railing(p, 560, 150)


def shinagawa(p: Print):
    """Ships under sail in Edo bay."""
    p.sky((0, PRUSSIAN), (150, INDIGO), (300, WATER), (430, PAPER))
    p.land(p.ridge(430, 46, 1.1), "#8fa3a6", 440)
    p.rect(0, 430, WIDTH, 370, (WATER, PRUSSIAN))
    p.water_lines(440, 800, FOAM, 60, 0.4)
    for x, y, size in ((990, 462, 60), (880, 470, 74), (730, 496, 105), (250, 520, 130), (520, 596, 215), (940, 680, 300)):
        p.boat(x, y, size)
        reflection = [(x - size * 0.3 + size * 0.6 * t, y + size * 0.12 + 4 * math.sin(t * 9)) for t in steps(12)]
        p.stroke(reflection, (size * 0.03, 1), PAPER, 0.5)
    p.mist(-50, 210, 520, 30, alpha=0.8)
    p.mist(760, 150, 560, 24, alpha=0.7)
    for x, y in ((420, 250), (465, 232), (505, 254), (548, 228)):
        p.bird(x, y, 17)


def kanagawa(p: Print):
    """A great wave off the coast, the mountain behind it."""
    p.sky((0, "#c9c3b0"), (280, "#e6d8bb"), (640, PAPER))
    p.fuji(760, 640, 232, INDIGO)
    p.mist(420, 470, 240, 20)
    p.fill(swell(560, 34, 1.7, 0.4), (INDIGO, PRUSSIAN))
    p.fill(swell(600, 40, 1.3, 2.2), ("#5f8fa8", INDIGO))
    wave(p, -40, 700, 1.0)
    p.fill(swell(706, 46, 1.5, 4.4), (INDIGO, PRUSSIAN))
    foam(p, 706, 46, 1.5, 4.4)
    narrow_boat(p, 720, 668, 330)
    p.fill(swell(766, 30, 1.9, 1.2), (PRUSSIAN, "#122a45"))
    foam(p, 766, 30, 1.9, 1.2)


def hakone(p: Print):
    """The barrier in the mountains: steep passes above each other in the mist."""
    p.sky((0, INDIGO), (160, WATER), (600, PAPER))
    p.fuji(240, 440, 200, "#9fb6bd")
    layers = ((520, 190, "#8fa7a2"), (580, 250, "#6f8d80"), (660, 300, "#53765f"), (740, 300, "#3c5c48"))
    for i, (base, height, colour) in enumerate(layers):
        ridge = p.ridge(base, height, 1.25, 8)
        p.land(ridge, (colour, PAPER if i < 3 else PINE), HEIGHT if i == 3 else base + 90)
        for x, y in ridge[3 + i :: 7]:
            cedar(p, x, y + 6, 22 + 13 * i, PINE if i > 1 else "#4f7263")
        if i < 3:
            p.mist(p.random.uniform(-150, 500), base - 20 + 24 * i, 560, 30 + 6 * i, alpha=0.75)
    road = [(1240, 800), (1020, 742), (830, 726), (700, 700), (640, 660), (690, 628), (770, 612)]
    p.stroke(smooth(road), (54, 8), "#d8bf90")
    p.courier(905, 735, 104, VERMILION)
    p.pine(80, 800, 380)


def hara(p: Print):
    """The mountain above the plain, cranes before it."""
    p.sky((0, PRUSSIAN), (90, INDIGO), (300, "#c6d3cc"), (520, DAWN))
    p.fuji(640, 600, 470, ("#3d5f86", "#a9806a"))
    p.land(p.ridge(600, 60, 1.0), ("#6c8a6d", MOSS), 660)
    p.rect(0, 596, WIDTH, 204, (MOSS, OCHRE))
    for i in range(14):
        y = 626 + i * i * 0.95
        p.stroke([(0, y), (WIDTH, y + 6 * math.sin(i))], 1.5 + i * 0.35, "#86904f", 0.6)
    p.mist(-80, 470, 460, 30)
    p.mist(820, 510, 520, 36)
    p.mist(300, 566, 300, 22)
    crane(p, 250, 250, 150)
    crane(p, 400, 170, 105)
    p.pine(1090, 770, 330)
    p.pine(1170, 800, 260)
    p.courier(560, 760, 130, PRUSSIAN)


def kanbara(p: Print):
    """Snow falls on a village at night."""
    p.sky((0, "#161d2b"), (240, "#33435a"), (560, "#8795a0"))
    p.land(p.ridge(460, 230, 1.1), ("#d9dcd6", "#aeb8bb"))
    p.land(p.ridge(560, 150, 1.2), ("#eceae0", "#c3cacb"))
    for x, y, size in ((130, 640, 190), (350, 600, 150), (930, 610, 170), (1120, 660, 230), (700, 590, 120)):
        snowy_house(p, x, y, size)
    for x, y, size in ((40, 690, 260), (520, 620, 190), (830, 640, 210)):
        cedar(p, x, y, size, "#2c3a40")
        cedar(p, x - size * 0.02, y - size * 0.08, size * 0.88, "#dfe2de")
    p.land(p.ridge(730, 70, 0.8), FOAM)
    p.courier(600, 770, 128, INDIGO)
    for i in range(18):
        p.ellipse(560 - i * 33, 782 - i * 1.2 + (i % 2) * 7, 8, 3, "#aeb9bf")
    for _ in range(420):
        size = p.random.uniform(1.2, 4.2)
        p.disc(p.random.uniform(0, WIDTH), p.random.uniform(0, HEIGHT), size, FOAM, 0.9)


def shimada(p: Print):
    """The ford of the Oi: travellers are carried, couriers wade."""
    p.sky((0, WATER), (200, PAPER), (330, "#f0d9b0"))
    p.land(p.ridge(340, 150, 1.2), ("#7f9c92", "#b9c3ab"), 380)
    p.land(p.ridge(380, 80, 1.0), (MOSS, "#a3a068"), 420)
    p.mist(100, 262, 380, 24)
    p.mist(700, 300, 460, 28)
    p.rect(0, 400, WIDTH, 400, ("#c7d6cf", INDIGO))
    for top, width, bend in ((430, 36, 30), (520, 52, 44), (640, 80, 30)):
        bank = [(x, top + bend * math.sin(x / 190 + top)) for x in range(-20, WIDTH + 40, 20)]
        lower = [(x, y + width * (0.4 + 0.6 * math.sin(x / 420 + top) ** 2)) for x, y in bank]
        p.fill(bank + lower[::-1], ("#ead9b2", "#cdb484"))
    p.water_lines(410, 800, FOAM, 60, 0.55)
    for x, y, size, coat in ((860, 620, 100, VERMILION), (690, 612, 96, INDIGO), (300, 756, 150, PRUSSIAN)):
        p.courier(x, y, size, coat)
        p.ellipse(x, y - size * 0.02, size * 0.42, size * 0.07, "#a9c2c2", 0.9)
    p.pine(1110, 470, 210)


def maisaka(p: Print):
    """The ferry to Arai across the lagoon, at sunset."""
    p.sky((0, "#7d4a4a"), (150, VERMILION), (300, OCHRE), (420, "#f2dfb0"))
    p.disc(300, 390, 74, "#f6e8c4")
    p.land(p.ridge(420, 100, 1.1), ("#6d6a78", "#9c8580"), 430)
    p.rect(0, 420, WIDTH, 380, ("#e7c58f", INDIGO))
    for i in range(16):
        y = 436 + i * 15
        p.stroke([(300 - 60 + 3 * i, y), (300 + 60 - 3 * i, y)], 3.2, "#f6e8c4", 0.7)
    p.water_lines(440, 800, FOAM, 40, 0.4)
    p.boat(820, 600, 240, "#e9d3a4")
    p.boat(560, 480, 90, "#e9d3a4")
    for _ in range(70):
        reed(p, p.random.choice((p.random.uniform(-10, 330), p.random.uniform(1000, 1210))), 810)
    for x, y in ((640, 200), (690, 180), (738, 206), (790, 186), (842, 214)):
        p.bird(x, y, 20)


def shono(p: Print):
    """A white squall drives travellers down the slope."""
    p.sky((0, "#3c4247"), (260, "#7f8687"), (720, "#b5b5a6"))
    for base, shade in ((560, "#a3a99f"), (610, "#858f87"), (650, "#69766e")):
        clump = p.ridge(base, 250, 1.35, 6)
        p.land([(x, y + 26 * math.sin(x / 70)) for x, y in clump], shade)
    slope = [(x, 560 + 0.17 * x + 10 * math.sin(x / 120)) for x in range(0, WIDTH + 20, 20)]
    p.land(slope, ("#9a8f6a", "#5f5b42"))
    for x, size in ((960, 120), (1110, 150)):
        thatch(p, x, 560 + 0.17 * x, size)
    for x, size, coat in ((300, 142, INDIGO), (500, 138, VERMILION), (720, 146, PRUSSIAN)):
        p.courier(x, 596 + 0.17 * x, size, coat)
    for _ in range(260):
        x, y = p.random.uniform(-100, WIDTH + 200), p.random.uniform(-100, HEIGHT)
        length = p.random.uniform(120, 340)
        p.stroke([(x, y), (x - length * 0.3, y + length)], 1.5, INK, 0.35)
    p.mist(-100, 60, 520, 40, "#2c3135", 0.6)
    p.mist(560, 34, 800, 52, "#2c3135", 0.6)


def kuwana(p: Print):
    """Seven ri by ferry: the castle on the water's edge."""
    p.sky((0, INDIGO), (180, "#9cc0c4"), (420, PAPER))
    p.land(p.ridge(420, 70, 1.1), "#93aab0", 440)
    p.rect(0, 420, WIDTH, 380, ("#b7cdc9", PRUSSIAN))
    p.water_lines(430, 800, FOAM, 54, 0.5)
    castle(p, 960, 560, 300)
    wall = [(680, 640), (720, 548), (1200, 540), (1200, 690), (690, 664)]
    p.fill(wall, ("#8b8a80", "#4d5052"))
    for i in range(8):
        p.stroke([(700 + 3 * i, 560 + 12 * i), (1200, 552 + 15 * i)], 1.5, INK, 0.3)
    p.pine(740, 560, 150)
    p.boat(330, 700, 330)
    p.boat(560, 520, 110)
    p.boat(150, 500, 86)
    p.mist(-40, 300, 480, 28)
    p.mist(520, 240, 300, 22)


def otsu(p: Print):
    """Geese come down to Lake Biwa under the moon."""
    p.sky((0, "#131c30"), (260, "#27425f"), (480, "#7c99a6"))
    p.disc(420, 230, 130, "#f4e7c3", 0.18)
    p.disc(420, 230, 104, "#f4e7c3")
    p.land(p.ridge(480, 140, 1.15), ("#30475c", "#5d7a88"), 500)
    p.rect(0, 480, WIDTH, 320, ("#6f8f9d", "#142338"))
    for i in range(26):
        wide = 104 * (1 - i / 34) * (0.7 + 0.3 * math.sin(i * 2.3))
        p.stroke([(420 - wide, 496 + i * 11), (420 + wide, 496 + i * 11)], 3.4, "#f4e7c3", 0.5)
    p.water_lines(490, 800, FOAM, 50, 0.25)
    for i in range(11):
        p.bird(640 + 38 * i, 180 + 20 * i - 10 * (i % 2), 15 + i * 1.2, "#0e1524")
    p.mist(60, 430, 420, 24, "#9db2b8", 0.6)
    p.mist(720, 452, 560, 30, "#9db2b8", 0.6)
    p.fill([(560, 800), *smooth([(640, 772), (860, 730), (1040, 716), (1210, 690)]), (1210, 800)], "#0e1a2a")
    p.pine(1040, 800, 500, "#101f28", -0.12)
    p.boat(250, 640, 130, "#b9bfae")


def kyoto(p: Print):
    """The great bridge at Sanjo, and the city: the end of the road."""
    p.sky((0, "#8c4f56"), (170, "#d8795a"), (330, OCHRE), (470, PAPER))
    p.land(p.ridge(470, 190, 1.0), ("#6a5b74", "#b08a86"), 490)
    p.land(p.ridge(490, 110, 1.1), ("#4c5a5c", "#8d8672"), 520)
    pagoda(p, 250, 500, 290)
    roofs(p, 520, 44, "#3f4550")
    p.mist(-60, 430, 240, 24)
    p.mist(380, 400, 560, 30)
    p.rect(0, 518, WIDTH, 282, ("#d7a878", PRUSSIAN))
    p.water_lines(540, 800, FOAM, 44, 0.4)
    arch_bridge(p, 640, 60)
    p.courier(450, deck(450, 640, 60) - 6, 150, VERMILION)
    p.courier(240, deck(240, 640, 60) - 6, 140, INDIGO)
    railing(p, 640, 60)
    willow(p, 1090, 740, 420)


# Parts of scenes.


def deck(x, base, rise):
    """Height of an arched bridge's deck."""
    return base - rise * math.cos((x - WIDTH / 2) / WIDTH * math.pi)


def arch_bridge(p, base, rise):
    xs = range(-20, WIDTH + 40, 20)
    top = [(x, deck(x, base, rise)) for x in xs]
    for x in range(60, WIDTH, 180):
        y = deck(x, base, rise)
        for lean in (-26, 26):
            p.stroke([(x + lean * 0.3, y), (x + lean, HEIGHT)], 17, ("#5d3f2b", INK))
        p.stroke([(x - 34, y + 96), (x + 34, y + 96)], 9, "#5d3f2b")
    p.fill(top + [(x, y + 30) for x, y in top[::-1]], WOOD)
    p.fill(top + [(x, y + 8) for x, y in top[::-1]], "#b98a5c")


def railing(p, base, rise):
    for height, width in ((44, 8), (24, 5)):
        line = [(x, deck(x, base, rise) - height + 18) for x in range(-20, WIDTH + 40, 20)]
        p.stroke(line, width, "#8d5f3c")
    for x in range(60, WIDTH, 120):
        y = deck(x, base, rise)
        p.rect(x - 6, y - 34, 12, 50, "#6b452d")
        p.disc(x, y - 40, 9, INK)


def roofs(p, base, size, colour):
    x = -20.0
    while x < WIDTH + 20:
        wide = size * p.random.uniform(1.6, 3)
        high = size * p.random.uniform(0.7, 1.2)
        p.fill([(x, base), (x + wide * 0.06, base - high * 0.6), (x + wide * 0.22, base - high), (x + wide * 0.78, base - high), (x + wide * 0.94, base - high * 0.6), (x + wide, base)], colour)
        x += wide * p.random.uniform(0.8, 1.1)


def swell(level, height, rate, phase):
    crest = [(x, swell_at(x, level, height, rate, phase)) for x in range(0, WIDTH + 15, 15)]
    return [(0, HEIGHT), *crest, (WIDTH, HEIGHT)]


def swell_at(x, level, height, rate, phase):
    t = x / WIDTH * math.tau * rate + phase
    return level - height * (math.sin(t) + 0.3 * math.sin(2 * t + 0.6))


def foam(p, level, height, rate, phase):
    for x in range(0, WIDTH, 13):
        y = swell_at(x, level, height, rate, phase)
        p.disc(x, y + p.random.uniform(0, 9), p.random.uniform(2, 8), FOAM, 0.95)


def wave(p, x, y, size):
    """A breaker that curls to the right, with fingers of foam."""
    back = [(0, 40), (40, -120), (120, -300), (230, -440), (350, -510), (470, -500), (560, -430), (600, -340)]
    inner = [(570, -350), (520, -410), (450, -420), (390, -370), (350, -270), (350, -150), (420, -30), (560, 70)]
    outline = smooth(back) + smooth(inner)
    p.fill(place(outline + [(560, 140), (0, 140)], x, y, size), (INDIGO, PRUSSIAN))
    for k in range(1, 6):
        f = k / 6
        line = [((a * (1 - f) + b * f), (c * (1 - f) + d * f)) for (a, c), (b, d) in zip(smooth(back), smooth(inner[::-1]))]
        p.stroke(place(line[2:-10], x, y, size), (11, 3), "#8db4c4" if k % 2 else FOAM, 0.75)
    crest = smooth(back)[14:]
    for i, (cx, cy) in enumerate(crest):
        grow = 12 + 22 * i / len(crest)
        p.disc(x + cx * size, y + cy * size, grow * p.random.uniform(0.6, 1.1), FOAM)
    for i, (cx, cy) in enumerate(smooth(inner)[:16]):
        for _ in range(3):
            dx, dy = p.random.uniform(-6, 44), p.random.uniform(-12, 48)
            p.disc(x + cx + dx - 8, y + cy + dy, p.random.uniform(3, 13), FOAM)
    for _ in range(120):
        p.disc(x + p.random.uniform(420, 760), y - p.random.uniform(220, 560), p.random.uniform(1.2, 4.6), FOAM)


def narrow_boat(p, x, y, size):
    hull = [(-0.6, -0.12), (-0.3, -0.02), (0.3, 0.0), (0.62, -0.2), (0.34, 0.06), (-0.34, 0.05)]
    p.fill(place(hull, x, y, size), ("#c9a06a", WOOD))
    for i in range(7):
        cx = x - size * 0.3 + size * 0.095 * i
        p.ellipse(cx, y - size * 0.05, size * 0.04, size * 0.055, INDIGO)
        p.disc(cx + size * 0.022, y - size * 0.11, size * 0.026, SKIN)


def cedar(p, x, y, size, paint):
    tiers = []
    for i in range(4):
        low, high, wide = y - size * 0.22 * i, y - size * (0.22 * i + 0.42), size * (0.24 - 0.045 * i)
        tiers.append(((x - wide, low), (x, high), (x + wide, low)))
    for tier in tiers:
        p.fill(list(tier), paint)


def crane(p, x, y, size):
    wing = [(-0.05, 0), (-0.35, -0.42), (-0.85, -0.6), (-0.62, -0.36), (-0.5, -0.12), (-0.2, 0.08)]
    far = [(0.05, 0), (0.12, -0.45), (0.42, -0.78), (0.36, -0.42), (0.3, -0.1), (0.15, 0.06)]
    p.fill(place(smooth(far), x, y, size), FOAM)
    p.fill(place(smooth(wing), x, y, size), FOAM)
    p.fill(place([(-0.85, -0.6), (-0.74, -0.57), (-0.56, -0.2), (-0.62, -0.36)], x, y, size), INK)
    p.fill(place([(0.42, -0.78), (0.39, -0.6), (0.32, -0.2), (0.37, -0.45)], x, y, size), INK)
    p.ellipse(x, y + size * 0.02, size * 0.26, size * 0.09, FOAM)
    p.stroke(place(smooth([(0.2, 0), (0.42, -0.1), (0.62, -0.02), (0.74, -0.06)]), x, y, size), (size * 0.07, size * 0.035), FOAM)
    p.stroke(place([(0.74, -0.06), (0.88, -0.02)], x, y, size), (size * 0.03, 1), INK)
    p.disc(x + size * 0.73, y - size * 0.085, size * 0.025, VERMILION)
    p.stroke(place([(-0.22, 0.04), (-0.72, 0.16)], x, y, size), (size * 0.03, 1.5), INK)


def snowy_house(p, x, y, size):
    p.rect(x - size * 0.42, y - size * 0.3, size * 0.84, size * 0.4, ("#4a4640", "#2e2d2c"))
    p.rect(x - size * 0.1, y - size * 0.2, size * 0.2, size * 0.22, OCHRE)
    roof = [(-0.58, -0.22), (-0.3, -0.62), (0.3, -0.62), (0.58, -0.22)]
    p.fill(place(roof, x, y, size), (FOAM, "#cfd6d6"))
    p.stroke(place([(-0.58, -0.22), (0.58, -0.22)], x, y, size), size * 0.03, "#7d888d")


def reed(p, x, y):
    height, lean = p.random.uniform(90, 260), p.random.uniform(-30, 50)
    blade = [(x + lean * t * t, y - height * t) for t in steps(8)]
    p.stroke(blade, (5, 1), p.random.choice((MOSS, PINE, "#77713f")))


def thatch(p, x, y, size):
    p.rect(x - size * 0.5, y - size * 0.35, size, size * 0.5, ("#6b5b41", INK))
    roof = [(-0.75, -0.25), (-0.2, -0.85), (0.2, -0.85), (0.75, -0.25)]
    p.fill(place(roof, x, y, size), ("#a08a58", "#6f5f3d"))


def castle(p, x, y, size):
    for i, (wide, base) in enumerate(((0.5, 0.0), (0.38, -0.32), (0.26, -0.62))):
        p.rect(x - size * wide * 0.8, y + size * (base - 0.3), size * wide * 1.6, size * 0.3, (FOAM, "#d3cfbf"))
        roof = [(-wide * 1.1, base - 0.24), (-wide * 0.75, base - 0.32), (-wide * 0.55, base - 0.44), (wide * 0.55, base - 0.44), (wide * 0.75, base - 0.32), (wide * 1.1, base - 0.24), (0, base - 0.27)]
        p.fill(place(roof, x, y, size), (STONE, INK))
        for k in range(3):
            wx = x + size * wide * (k - 1) * 0.8
            p.rect(wx - size * 0.02, y + size * (base - 0.16), size * 0.04, size * 0.08, INK)
    p.fill(place([(-0.5, 0.3), (-0.4, 0), (0.4, 0), (0.5, 0.3)], x, y, size), STONE)


def pagoda(p, x, y, size):
    for i in range(5):
        base, wide = -0.17 * i, 0.3 - 0.035 * i
        p.rect(x - size * wide * 0.5, y + size * (base - 0.12), size * wide, size * 0.13, "#6e3b33")
        eaves = [(-wide * 1.1, base - 0.1), (-wide * 0.6, base - 0.15), (0, base - 0.19), (wide * 0.6, base - 0.15), (wide * 1.1, base - 0.1), (0, base - 0.12)]
        p.fill(place(eaves, x, y, size), INK)
    p.stroke([(x, y - size * 0.85), (x, y - size * 1.12)], (5, 2), INK)


def willow(p, x, y, size):
    p.stroke(smooth([(x + 30, y + 80), (x, y - size * 0.4), (x + 30, y - size * 0.8)]), (34, 10), "#4a3a2a")
    for _ in range(46):
        reach = p.random.uniform(-0.55, 0.45) * size
        top = y - size * p.random.uniform(0.72, 1.0)
        drop = p.random.uniform(0.35, 0.8) * size
        twig = smooth([(x + 24, top), (x + reach * 0.6, top - 20), (x + reach, top + drop * 0.4), (x + reach * 1.04, top + drop)])
        p.stroke(twig, (4, 1.6), p.random.choice((MOSS, "#7d8a4a", PINE)), 0.9)


def smooth(points, count=8):
    """A curve through the points (Catmull-Rom)."""
    padded = [points[0], *points, points[-1]]
    curve = []
    for a, b, c, d in zip(padded, padded[1:], padded[2:], padded[3:]):
        for i in range(count):
            t = i / count
            curve.append(tuple(
                0.5 * (2 * b[k] + (c[k] - a[k]) * t + (2 * a[k] - 5 * b[k] + 4 * c[k] - d[k]) * t**2 + (3 * b[k] - a[k] - 3 * c[k] + d[k]) * t**3)
                for k in (0, 1)
            ))  # fmt: skip
    return [*curve, points[-1]]
