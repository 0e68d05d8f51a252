"""PNG files (ISO/IEC 15948), 8 bit RGB."""

import operator
import struct
import zlib


def encode(rows):
    """The file's bytes."""
    width, height = len(rows[0]) // 3, len(rows)
    filtered = bytearray()
    above = bytes(3 * width)
    for row in rows:
        # Filter 2: what differs from the row above.
        filtered.append(2)
        filtered += bytes(d & 255 for d in map(operator.sub, row, above))
        above = row
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(filtered, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def chunk(kind, data):
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
