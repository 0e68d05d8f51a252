"""Baseline JPEG files (ITU-T T.81), colour at half resolution (4:2:0)."""

import math
import struct

# Zigzag order of a block's 64 coefficients (Figure A.6).
ZIGZAG = sorted(
    range(64), key=lambda i: (i // 8 + i % 8, i // 8 if (i // 8 + i % 8) % 2 else i % 8)
)

# Quantisation at quality 50 (Tables K.1 and K.2), row by row.
LUMA = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
]  # fmt: skip
CHROMA = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99,
    *[99] * 32,
]  # fmt: skip

# Huffman tables (Tables K.3 to K.6): numbers of codes by length, then their symbols.
DC_LUMA = ("00010501010101010100000000000000", "000102030405060708090a0b")
DC_CHROMA = ("00030101010101010101010000000000", "000102030405060708090a0b")
AC_LUMA = (
    "0002010303020403050504040000017d",
    "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a2526"
    "2728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485"
    "868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6"
    "d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa",
)
AC_CHROMA = (
    "00020102040403040705040400010277",
    "000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f1171819"
    "1a262728292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a8283"
    "8485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4"
    "d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9fa",
)


def encode(rows, quality):
    """The file's bytes, from rows of RGB bytes; `quality` from 1 to 100."""
    width, height = len(rows[0]) // 3, len(rows)
    luma, chroma = (quantisers(table, quality) for table in (LUMA, CHROMA))
    out = bytearray(b"\xff\xd8")
    out += segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
    for number, table in enumerate((luma, chroma)):
        out += segment(0xDB, bytes([number]) + bytes(table[i] for i in ZIGZAG))
    components = bytes([1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1])
    out += segment(0xC0, struct.pack(">BHHB", 8, height, width, 3) + components)
    for number, table in ((0, DC_LUMA), (1, DC_CHROMA), (0x10, AC_LUMA), (0x11, AC_CHROMA)):
        counts, symbols = map(bytes.fromhex, table)
        out += segment(0xC4, bytes([number]) + counts + symbols)
    out += segment(0xDA, bytes([3, 1, 0, 2, 0x11, 3, 0x11, 0, 63, 0]))
    out += scan(planes(rows, width, height), divisors(luma), divisors(chroma))
    return bytes(out + b"\xff\xd9")


def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def quantisers(table, quality):
    scale = 5000 / quality if quality < 50 else 200 - 2 * quality
    return [min(max(int((value * scale + 50) / 100), 1), 255) for value in table]


def divisors(table):
    """Factors by which the coefficients of `dct` become quantised ones."""
    scale = [1.0] + [math.cos(k * math.pi / 16) * math.sqrt(2) for k in range(1, 8)]
    return [1 / (value * scale[i // 8] * scale[i % 8] * 8) for i, value in enumerate(table)]


def planes(rows, width, height):
    """Y, Cb and Cr about zero, padded to whole blocks of 16 by repeating the edge."""
    rows = [*rows, *[rows[-1]] * (-height % 16)]
    pad = -width % 16
    lines = []
    for row in rows:
        row = bytes(row) + bytes(row[-3:]) * pad
        red, green, blue = row[::3], row[1::3], row[2::3]
        lines.append((
            [0.299 * r + 0.587 * g + 0.114 * b - 128 for r, g, b in zip(red, green, blue)],
            [0.5 * b - 0.168736 * r - 0.331264 * g for r, g, b in zip(red, green, blue)],
            [0.5 * r - 0.418688 * g - 0.081312 * b for r, g, b in zip(red, green, blue)],
        ))  # fmt: skip
    luma, *colour = zip(*lines)
    return luma, *map(halve, colour)


def halve(plane):
    return [
        [(a + b + c + d) / 4 for a, b, c, d in zip(above[::2], above[1::2], below[::2], below[1::2])]
        for above, below in zip(plane[::2], plane[1::2])
    ]


def scan(components, luma, chroma):
    """The entropy-coded data: of each 16 x 16 pixels four blocks of Y, one of Cb and Cr."""
    y_plane, cb_plane, cr_plane = components
    dc_luma, dc_chroma, ac_luma, ac_chroma = map(codes, (DC_LUMA, DC_CHROMA, AC_LUMA, AC_CHROMA))
    bits = []
    before = [0, 0, 0]
    for top in range(0, len(y_plane), 16):
        for left in range(0, len(y_plane[0]), 16):
            for dy, dx in ((0, 0), (0, 8), (8, 0), (8, 8)):
                block = quantise(y_plane, top + dy, left + dx, luma)
                before[0] = put(bits, block, before[0], dc_luma, ac_luma)
            for index, plane in ((1, cb_plane), (2, cr_plane)):
                block = quantise(plane, top // 2, left // 2, chroma)
                before[index] = put(bits, block, before[index], dc_chroma, ac_chroma)
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    data = int(text, 2).to_bytes(len(text) // 8, "big")
    return data.replace(b"\xff", b"\xff\0")


def codes(table):
    """Symbols to their codes as text of 0 and 1 (Annex C)."""
    counts, symbols = map(bytes.fromhex, table)
    result, code, symbols = {}, 0, iter(symbols)
    for length, count in enumerate(counts, 1):
        for _ in range(count):
            result[next(symbols)] = f"{code:0{length}b}"
            code += 1
        code <<= 1
    return result


def put(bits, block, before, dc, ac):
    """Appends a block's codes (§F.1.2); gives its DC coefficient."""
    size, magnitude = amplitude(block[0] - before)
    bits.append(dc[size] + magnitude)
    zeros = 0
    for coefficient in block[1:]:
        if not coefficient:
            zeros += 1
            continue
        while zeros > 15:
            bits.append(ac[0xF0])
            zeros -= 16
        size, magnitude = amplitude(coefficient)
        bits.append(ac[zeros * 16 + size] + magnitude)
        zeros = 0
    if zeros:
        bits.append(ac[0])
    return block[0]


def amplitude(value):
    if not value:
        return 0, ""
    size = abs(value).bit_length()
    return size, f"{value if value > 0 else value + (1 << size) - 1:0{size}b}"


def quantise(plane, top, left, divide):
    """An 8 x 8 block's quantised coefficients in zigzag order."""
    lines = [dct(plane[top + i][left : left + 8]) for i in range(8)]
    columns = [dct(column) for column in zip(*lines)]
    return [round(columns[i % 8][i // 8] * divide[i]) for i in ZIGZAG]


def dct(v):
    """Eight values' cosine transform, scaled as in Arai, Agui and Nakajima, 'A fast DCT-SQ
    scheme for images' (1988), which saves most multiplications."""
    a, b, c, d, e, f, g, h = v
    s0, s1, s2, s3 = a + h, b + g, c + f, d + e
    d0, d1, d2, d3 = a - h, b - g, c - f, d - e
    t0, t1, t2, t3 = s0 + s3, s1 + s2, s1 - s2, s0 - s3
    z1 = (t2 + t3) * 0.7071067811865476
    u0, u1, u2 = d3 + d2, d2 + d1, d1 + d0
    z5 = (u0 - u2) * 0.38268343236508984
    z2 = 0.541196100146197 * u0 + z5
    z4 = 1.3065629648763766 * u2 + z5
    z3 = u1 * 0.7071067811865476
    z11, z13 = d0 + z3, d0 - z3
    return t0 + t1, z11 + z4, t3 + z1, z13 - z2, t0 - t1, z13 + z2, t3 - z1, z11 - z4
