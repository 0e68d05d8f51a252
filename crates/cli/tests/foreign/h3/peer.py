"""A client of HTTP/3 that writes whatever it is given, on aioquic's QUIC connection."""

import asyncio
import contextlib
import socket
import ssl

import pylsqpack
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import (
    ConnectionTerminated,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)

# Frames (RFC 9114 §7.2, RFC 9218 §7.2).
DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13
PRIORITY_UPDATE = 0xF0700
# A reserved type without a meaning (RFC 9114 §7.2.8).
RESERVED = 0x21

# Unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2).
CONTROL, PUSH, ENCODER, DECODER = 0, 1, 2, 3

NAMES = {
    0x100: "H3_NO_ERROR",
    0x101: "H3_GENERAL_PROTOCOL_ERROR",
    0x102: "H3_INTERNAL_ERROR",
    0x103: "H3_STREAM_CREATION_ERROR",
    0x104: "H3_CLOSED_CRITICAL_STREAM",
    0x105: "H3_FRAME_UNEXPECTED",
    0x106: "H3_FRAME_ERROR",
    0x107: "H3_EXCESSIVE_LOAD",
    0x108: "H3_ID_ERROR",
    0x109: "H3_SETTINGS_ERROR",
    0x10A: "H3_MISSING_SETTINGS",
    0x10B: "H3_REQUEST_REJECTED",
    0x10C: "H3_REQUEST_CANCELLED",
    0x10D: "H3_REQUEST_INCOMPLETE",
    0x10E: "H3_MESSAGE_ERROR",
    0x10F: "H3_CONNECT_ERROR",
    0x110: "H3_VERSION_FALLBACK",
    0x200: "QPACK_DECOMPRESSION_FAILED",
    0x201: "QPACK_ENCODER_STREAM_ERROR",
    0x202: "QPACK_DECODER_STREAM_ERROR",
}

# Seconds after which an event counts as missing, even on a busy machine.
PATIENCE = 30


def varint(value):
    """An integer as QUIC writes it (RFC 9000 §16)."""
    for bits, size in ((6, 1), (14, 2), (30, 4), (62, 8)):
        if value < 1 << bits:
            return (value | (size.bit_length() - 1) << (size * 8 - 2)).to_bytes(size, "big")
    raise ValueError(value)


def read_varint(data):
    """The integer that data begins with, and what follows it."""
    size = 1 << (data[0] >> 6)
    value = int.from_bytes(data[:size], "big") & ((1 << (size * 8 - 2)) - 1)
    return value, data[size:]


def frame(kind, content=b""):
    return varint(kind) + varint(len(content)) + content


def settings(*pairs):
    return frame(SETTINGS, b"".join(varint(id) + varint(value) for id, value in pairs))


def prefixed(first, bits, value):
    """An integer in the low bits of a byte, and more bytes if need be (RFC 7541 §5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out = [first | most]
    value -= most
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes([*out, value])


def literal(fields):
    """A field section of literals only, which may say anything (RFC 9204 §4.5.6)."""
    section = b"\0\0"
    for name, value in fields:
        name, value = (text.encode("latin-1") for text in (name, value))
        section += prefixed(0x20, 3, len(name)) + name + prefixed(0, 7, len(value)) + value
    return section


def headers(fields):
    return frame(HEADERS, literal(fields))


class Peer(QuicConnectionProtocol):
    """Collects what comes, by stream, and how streams and the connection ended."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.data = {}
        self.ended = {}
        self.stopped = {}
        self.closed = None
        self.encoder = pylsqpack.Encoder()
        self.decoder = pylsqpack.Decoder(4096, 16)
        self.unblocked = set()
        self._encoder_stream = 0
        self._news = asyncio.Event()

    def quic_event_received(self, event):
        match event:
            case StreamDataReceived(stream_id=stream):
                self.data.setdefault(stream, bytearray()).extend(event.data)
                if event.end_stream:
                    self.ended.setdefault(stream, None)
                self._read_encoder_stream(stream)
            case StreamReset(stream_id=stream):
                self.ended[stream] = event.error_code
            case StopSendingReceived(stream_id=stream):
                self.stopped[stream] = event.error_code
            case ConnectionTerminated():
                self.closed = closing(event)
        self._news.set()

    def _read_encoder_stream(self, stream):
        data = self.data[stream]
        if stream % 4 == 3 and data[0] == ENCODER:
            fresh = bytes(data[max(1, self._encoder_stream) :])
            self._encoder_stream = len(data)
            self.unblocked.update(self.decoder.feed_encoder(fresh))

    async def until(self, holds):
        """Waits until `holds()` gives something, or the connection is closed."""

        async def wait():
            while not (found := holds()) and self.closed is None:
                self._news.clear()
                await self._news.wait()
            return found

        return await asyncio.wait_for(wait(), PATIENCE)

    def send(self, stream, data=b"", fin=False):
        self._quic.send_stream_data(stream, data, fin)
        self.transmit()

    def reset(self, stream, code=0x10C):
        self._quic.reset_stream(stream, code)
        self.transmit()

    def stop(self, stream, code=0x10C):
        self._quic.stop_stream(stream, code)
        self.transmit()

    @contextlib.contextmanager
    def withheld_window(self):
        """Leaves the server the connection's window that it has."""
        grant = self._quic._write_connection_limits
        self._quic._write_connection_limits = lambda **_: None
        yield
        self._quic._write_connection_limits = grant
        self.transmit()

    def unidirectional(self, kind, content=b"", fin=False):
        stream = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self.send(stream, varint(kind) + content, fin)
        return stream

    def request(self, *frames, fin=True):
        stream = self._quic.get_next_available_stream_id()
        self.send(stream, b"".join(frames), fin)
        return stream

    async def move(self):
        """Goes on from another port, as behind a NAT that forgot the first one."""
        former = self._transport
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", 0))
        await loop.create_datagram_endpoint(lambda: self, sock=sock)
        former.close()

    async def settings(self):
        """The server's settings."""

        def look():
            for stream, data in self.data.items():
                if stream % 4 == 3 and data[0] == CONTROL and len(data) > 2:
                    return bytes(data)
            return None

        kind, rest = read_varint((await self.until(look))[1:])
        assert kind == SETTINGS, kind
        length, rest = read_varint(rest)
        rest, found = rest[:length], {}
        while rest:
            id, rest = read_varint(rest)
            found[id], rest = read_varint(rest)
        return found

    async def outcome(self, stream=None):
        """How a stream ended, or the connection: `200`, `stream CODE` or `connection CODE`."""
        if stream is not None:
            await self.until(lambda: stream in self.ended)
            if stream in self.ended:
                code = self.ended[stream]
                if code is not None:
                    return f"stream {NAMES.get(code, hex(code))}"
                return (await self.response(stream))[0]
        else:
            await self.until(lambda: False)
        return f"connection {self.closed}"

    async def response(self, stream):
        """Status, header fields, content and trailer fields of a response that has ended."""
        sections, content = [], b""
        data = bytes(self.data.get(stream, b""))
        while data:
            kind, data = read_varint(data)
            length, data = read_varint(data)
            piece, data = data[:length], data[length:]
            if kind == HEADERS:
                sections.append(await self._decode(stream, piece))
            elif kind == DATA:
                content += piece
        final = [section for section in sections if section.get(":status", "200") >= "200"]
        head, *trailers = final
        return head[":status"], head, content, trailers[0] if trailers else {}

    async def _decode(self, stream, section):
        try:
            _, fields = self.decoder.feed_header(stream, section)
        except pylsqpack.StreamBlocked:
            await self.until(lambda: stream in self.unblocked)
            _, fields = self.decoder.resume_header(stream)
        return {name.decode(): value.decode() for name, value in fields}


def closing(event):
    """The name of what a connection was closed with; a number where it is QUIC's own."""
    if event.frame_type is not None:
        return f"QUIC {hex(event.error_code)} {event.reason_phrase}"
    return NAMES.get(event.error_code, hex(event.error_code))


@contextlib.asynccontextmanager
async def opened(port, control=settings((1, 4096), (7, 16)), qpack=True, **limits):
    """A connection whose control stream begins with `control`, unless that is None."""
    configuration = QuicConfiguration(
        alpn_protocols=["h3"], server_name="localhost", verify_mode=ssl.CERT_NONE, **limits
    )
    async with connect(
        "127.0.0.1", port, configuration=configuration, create_protocol=Peer
    ) as peer:
        if control is not None:
            peer.control = peer.unidirectional(CONTROL, control)
        if qpack:
            peer.encoder_stream = peer.unidirectional(ENCODER)
            peer.decoder_stream = peer.unidirectional(DECODER)
        yield peer
