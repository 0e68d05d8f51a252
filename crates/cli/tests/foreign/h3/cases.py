"""What is sent to the server, and what must come of it."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from peer import (
    CANCEL_PUSH,
    CONTROL,
    DATA,
    DECODER,
    ENCODER,
    GOAWAY,
    HEADERS,
    MAX_PUSH_ID,
    PRIORITY_UPDATE,
    PUSH,
    PUSH_PROMISE,
    RESERVED,
    SETTINGS,
    frame,
    headers,
    literal,
    prefixed,
    settings,
    varint,
)


@dataclass
class Case:
    name: str
    rfc: str
    # The result of the request or the connection: `200`, `stream CODE` or `connection CODE`.
    # ` or ` separates results that are equally right.
    want: str
    steps: Callable
    # The server: `files` or `proxy`.
    at: str = "files"
    # The begin of the connection (`peer.opened`).
    opening: dict = field(default_factory=dict)


def fields(*more, **changed):
    """A GET request's fields; `changed` pseudo-header fields are left out where None."""
    pseudo = {"method": "GET", "scheme": "https", "authority": "localhost", "path": "/"} | changed
    lines = [(f":{name}", value) for name, value in pseudo.items() if value is not None]
    return [*lines, *more]


def get(*more, **changed):
    return headers(fields(*more, **changed))


def post(*more):
    return get(*more, method="POST", path="/echo")


def all_of_them():
    return [
        *malformed_requests(),
        *well_formed_requests(),
        *request_streams(),
        *control_streams(),
        *unidirectional_streams(),
        *connections(),
        *priorities(),
        *qpack(),
        *methods(),
        *floods(),
    ]


def sends(*frames, fin=True):
    """Steps that send a request and wait for its end."""

    async def steps(peer):
        return await peer.outcome(peer.request(*frames, fin=fin))

    return steps


def malformed_requests():
    heads = [
        ("duplicate :method", "9114 §4.3", get((":method", "GET"))),
        ("duplicate :scheme", "9114 §4.3", get((":scheme", "https"))),
        ("duplicate :authority", "9114 §4.3", get((":authority", "localhost"))),
        ("duplicate :path", "9114 §4.3", get((":path", "/"))),
        ("field before :path", "9114 §4.3", get(("a", "b"), (":path", "/"), path=None)),
        (":status in a request", "9114 §4.3", get((":status", "200"))),
        ("unknown pseudo-header field", "9114 §4.3", get((":unknown", "x"))),
        ("no :method", "9114 §4.3.1", get(method=None)),
        ("no :scheme", "9114 §4.3.1", get(scheme=None)),
        ("no :path", "9114 §4.3.1", get(path=None)),
        ("empty :path", "9114 §4.3.1", get(path="")),
        ("neither :authority nor Host", "9114 §4.3.1", get(authority=None)),
        ("empty :authority", "9114 §4.3.1", get(authority="")),
        ("Host that is not :authority", "9114 §4.3.1", get(("host", "example.org"))),
        ("userinfo in :authority", "9114 §4.3.1", get(authority="user:word@localhost")),
        ("CONNECT with :path", "9114 §4.4", get(method="CONNECT", scheme=None)),
        ("connection", "9114 §4.2", get(("connection", "close"))),
        ("keep-alive", "9114 §4.2", get(("keep-alive", "timeout=5"))),
        ("proxy-connection", "9114 §4.2", get(("proxy-connection", "close"))),
        ("transfer-encoding", "9114 §4.2", get(("transfer-encoding", "chunked"))),
        ("upgrade", "9114 §4.2", get(("upgrade", "websocket"))),
        ("te: gzip", "9114 §4.2", get(("te", "gzip"))),
        ("upper-case name", "9114 §4.2", get(("Upper", "x"))),
        ("empty name", "9114 §10.3", get(("", "x"))),
        ("space in a name", "9114 §10.3", get(("a b", "x"))),
        ("space before a value", "9110 §5.5", get(("a", " x"))),
        ("space after a value", "9110 §5.5", get(("a", "x "))),
        ("tab after a value", "9110 §5.5", get(("a", "x\t"))),
        ("line feed in a value", "9114 §10.3", get(("a", "x\ny"))),
        ("carriage return in a value", "9114 §10.3", get(("a", "x\ry"))),
        ("zero in a value", "9114 §10.3", get(("a", "x\0y"))),
    ]
    lengths = [
        ("Content-Length of 3 and 5", [("content-length", "3"), ("content-length", "5")]),
        ("Content-Length of +3", [("content-length", "+3")]),
        ("Content-Length of abc", [("content-length", "abc")]),
        ("Content-Length without a value", [("content-length", "")]),
    ]
    # "A server MAY send an HTTP response indicating the error" (RFC 9114 §4.1.2): the error shows
    # only after the head was taken.
    bodies = [
        ("Content-Length above the content", "9114 §4.1.2", [("content-length", "4")], []),
        ("Content-Length below the content", "9114 §4.1.2", [("content-length", "2")], []),
        ("content beside Content-Length 0", "9114 §4.1.2", [("content-length", "0")], []),
        ("pseudo-header field in a trailer section", "9114 §4.3", [], [headers([(":path", "/")])]),
        ("connection in a trailer section", "9114 §4.2", [], [headers([("connection", "close")])]),
        ("upper-case name in a trailer section", "9114 §4.2", [], [headers([("Upper", "x")])]),
    ]
    content = frame(DATA, b"abc")
    want = "stream H3_MESSAGE_ERROR"
    return [
        *(Case(name, rfc, want, sends(head)) for name, rfc, head in heads),
        *(
            Case(name, "9114 §4.1.2", want, sends(post(*lines), content), "proxy")
            for name, lines in lengths
        ),
        *(
            Case(name, rfc, f"400 or {want}", sends(post(*lines), content, *trailers), "proxy")
            for name, rfc, lines, trailers in bodies
        ),
        Case("GET that lacks its content", "9114 §4.1.2", f"400 or {want}", sends(get(("content-length", "3"))), "proxy"),
    ]  # fmt: skip


def well_formed_requests():
    content = frame(DATA, b"abc")
    return [
        Case("plain request", "9114 §4.1", "200", sends(get())),
        Case("te: trailers", "9114 §4.2", "200", sends(get(("te", "trailers")))),
        Case("Host alone", "9114 §4.3.1", "200", sends(get(("host", "a"), authority=None))),
        Case("Host beside :authority", "9114 §4.3.1", "200", sends(get(("host", "localhost")))),
        Case("several cookies", "9114 §4.2.1", "200", sends(get(("cookie", "a"), ("cookie", "b")))),
        Case("empty value", "9110 §5.5", "200", sends(get(("a", "")))),
        Case("bytes above 127", "9110 §5.5", "200", sends(get(("a", "\xe9")))),
        Case(
            "Content-Length of the content", "9114 §4.1.2", "200",
            sends(post(("content-length", "3")), content), "proxy",
        ),
        Case(
            "trailer section", "9114 §4.1", "200",
            sends(post(), content, headers([("a", "b")])), "proxy",
        ),
        Case("300 KiB of fields", "9114 §4.2.2", "431", sends(get(("a", "x" * 300 * 1024)))),
        Case(
            "300 KiB of small fields", "9114 §4.2.2", "431",
            sends(get(*[("abcdef", "0123456789")] * 19_000)),
        ),
        Case("60 KiB of fields", "9114 §4.2.2", "200", sends(get(("a", "x" * 60_000)))),
    ]  # fmt: skip


def request_streams():
    unexpected = "connection H3_FRAME_UNEXPECTED"
    content, trailers = frame(DATA, b"abc"), headers([("a", "b")])
    other = [
        ("SETTINGS", "9114 §7.2.4", settings()),
        ("CANCEL_PUSH", "9114 §7.2.3", frame(CANCEL_PUSH, varint(0))),
        ("GOAWAY", "9114 §7.2.6", frame(GOAWAY, varint(0))),
        ("MAX_PUSH_ID", "9114 §7.2.7", frame(MAX_PUSH_ID, varint(0))),
        ("PUSH_PROMISE", "9114 §7.2.5", frame(PUSH_PROMISE, varint(0) + literal(fields()))),
        ("PRIORITY_UPDATE", "9218 §7.2", frame(PRIORITY_UPDATE, varint(0) + b"u=1")),
        *((f"HTTP/2's frame {kind}", "9114 §7.2.8", frame(kind)) for kind in (2, 6, 8, 9)),
    ]
    return [
        *(
            Case(f"{name} on a request stream", rfc, unexpected, sends(frame, get()))
            for name, rfc, frame in other
        ),
        Case("DATA before HEADERS", "9114 §4.1", unexpected, sends(content, get())),
        Case(
            "DATA after the trailer section", "9114 §4.1", unexpected,
            sends(post(), content, trailers, content), "proxy",
        ),
        Case(
            "HEADERS after the trailer section", "9114 §4.1", unexpected,
            sends(post(), content, trailers, trailers), "proxy",
        ),
        Case(
            "unknown frames around", "9114 §9", "200",
            sends(frame(RESERVED, b"x"), post(), frame(RESERVED), content, frame(RESERVED, b"y")),
            "proxy",
        ),
        Case(
            "end within a frame", "9114 §7.1", "connection H3_FRAME_ERROR",
            sends(post(), frame(DATA, b"abc")[:-1]), "proxy",
        ),
        Case("end within HEADERS", "9114 §7.1", "connection H3_FRAME_ERROR", sends(get()[:-1])),
        Case("end before HEADERS", "9114 §4.1", "stream H3_REQUEST_INCOMPLETE", sends()),
        Case(
            "end after an unknown frame alone", "9114 §4.1", "stream H3_REQUEST_INCOMPLETE",
            sends(frame(RESERVED, b"x")),
        ),
        Case("reset before the answer", "9114 §4.1.1", "200", reset_and_ask, "proxy"),
        Case("reset before the end of a request", "9114 §4.1", "400", reset_without_end, "proxy"),
        Case("STOP_SENDING", "9000 §3.5", "stream H3_REQUEST_CANCELLED", stops_a_response),
        Case(
            "STOP_SENDING behind a full window", "9000 §3.5", "stream H3_REQUEST_CANCELLED",
            stops_behind_a_full_window, opening={"max_data": 100_000},
        ),
    ]  # fmt: skip


async def reset_without_end(peer):
    """The answer to a request that was given up: an upstream must not see it as a whole one."""
    stream = peer.request(get(method="DELETE", path="/head"), fin=False)
    await asyncio.sleep(0.1)
    peer.reset(stream)
    return await peer.outcome(stream)


async def stops_a_response(peer):
    stream = peer.request(get(path="/big.bin"))
    await peer.until(lambda: len(peer.data.get(stream, b"")) > 100_000)
    peer.stop(stream)
    return await peer.outcome(stream)


async def stops_behind_a_full_window(peer):
    with peer.withheld_window():
        stream = peer.request(get(path="/big.bin"))
        await peer.until(lambda: len(peer.data.get(stream, b"")) > 50_000)
        # What else the window takes comes by then.
        await asyncio.sleep(1)
        peer.stop(stream)
        return await peer.outcome(stream)


async def reset_and_ask(peer):
    stream = peer.request(get(path="/hang"), fin=False)
    await asyncio.sleep(0.1)
    peer.reset(stream)
    return await peer.outcome(peer.request(get(path="/head")))


def controls(*frames, then_asks=False):
    """Steps that write to the control stream; those that are right then ask for the page."""

    async def steps(peer):
        peer.send(peer.control, b"".join(frames))
        return await peer.outcome(peer.request(get()) if then_asks else None)

    return steps


def first_frames():
    """Control streams that do not begin as they must."""
    cases = [
        ("an unknown frame", frame(RESERVED, b"x") + settings(), "H3_MISSING_SETTINGS"),
        ("MAX_PUSH_ID", frame(MAX_PUSH_ID, varint(1)) + settings(), "H3_MISSING_SETTINGS"),
        ("GOAWAY", frame(GOAWAY, varint(0)) + settings(), "H3_MISSING_SETTINGS"),
        ("a setting of HTTP/2", settings((2, 0)), "H3_SETTINGS_ERROR"),
        ("a setting that is there twice", settings((1, 0), (1, 0)), "H3_SETTINGS_ERROR"),
        ("SETTINGS that end within a setting", frame(SETTINGS, b"\x06"), "H3_FRAME_ERROR"),
    ]
    return [
        Case(
            f"control stream that begins with {name}", "9114 §6.2.1, §7.2.4", f"connection {code}",
            controls(), opening={"control": content},
        )
        for name, content, code in cases
    ]  # fmt: skip


def control_streams():
    unexpected, wrong_id = "H3_FRAME_UNEXPECTED", "H3_ID_ERROR"
    push_id = lambda id: frame(MAX_PUSH_ID, varint(id))  # noqa: E731
    cases = [
        ("SETTINGS again", "9114 §7.2.4", settings(), unexpected),
        ("DATA on the control stream", "9114 §7.2.1", frame(DATA, b"x"), unexpected),
        ("HEADERS on the control stream", "9114 §7.2.2", get(), unexpected),
        ("PUSH_PROMISE on the control stream", "9114 §7.2.5", frame(PUSH_PROMISE, b"\0"), unexpected),
        ("PING of HTTP/2 on the control stream", "9114 §7.2.8", frame(6, b"12345678"), unexpected),
        ("MAX_PUSH_ID that shrinks", "9114 §7.2.7", push_id(5) + push_id(4), wrong_id),
        ("CANCEL_PUSH of what was not promised", "9114 §7.2.3", frame(CANCEL_PUSH, varint(0)), wrong_id),
        ("MAX_PUSH_ID of two bytes too many", "9114 §7.1", frame(MAX_PUSH_ID, b"\0\0\0"), "H3_FRAME_ERROR"),
        ("MAX_PUSH_ID without an ID", "9114 §7.1", frame(MAX_PUSH_ID), "H3_FRAME_ERROR"),
    ]  # fmt: skip
    return [
        *first_frames(),
        *(Case(name, rfc, f"connection {code}", controls(sent)) for name, rfc, sent, code in cases),
        Case("MAX_PUSH_ID that grows", "9114 §7.2.7", "200", controls(push_id(4), push_id(5), then_asks=True)),
        Case("unknown frames on the control stream", "9114 §9", "200", controls(frame(RESERVED, b"x") * 5, then_asks=True)),
        Case(
            "unknown settings", "9114 §7.2.4.1", "200", sends(get()),
            opening={"control": settings((RESERVED, 7), (0x4D44, 1))},
        ),
    ]  # fmt: skip


def unidirectional_streams():
    created, closed = "connection H3_STREAM_CREATION_ERROR", "connection H3_CLOSED_CRITICAL_STREAM"

    def opens(kind, content=b""):
        async def steps(peer):
            peer.unidirectional(kind, content)
            return await peer.outcome()

        return steps

    def ends(which, by_reset):
        async def steps(peer):
            stream = getattr(peer, which)
            # The server must have read its type, as it has when it answers: a reset discards data
            # that were not read (RFC 9000 §19.4), and a stream without a type has no meaning.
            await peer.outcome(peer.request(get()))
            peer.reset(stream) if by_reset else peer.send(stream, fin=True)
            return await peer.outcome()

        return steps

    async def unknown(peer):
        peer.unidirectional(0x21, b"whatever", fin=True)
        peer.unidirectional(0x54, b"whatever")
        return await peer.outcome(peer.request(get()))

    streams = ["control", "encoder_stream", "decoder_stream"]
    return [
        Case("second control stream", "9114 §6.2.1", created, opens(CONTROL, settings())),
        Case("push stream of a client", "9114 §6.2.2", created, opens(PUSH, varint(0))),
        Case("second encoder stream", "9204 §4.2", created, opens(ENCODER)),
        Case("second decoder stream", "9204 §4.2", created, opens(DECODER)),
        Case("unknown streams", "9114 §6.2", "200", unknown),
        *(
            Case(f"{'reset' if by_reset else 'end'} of {which}", "9114 §6.2.1, 9204 §4.2", closed, ends(which, by_reset))
            for which in streams
            for by_reset in (False, True)
        ),
    ]  # fmt: skip


def while_a_response_runs(act):
    """Steps that do something in the middle of a response, which must become whole."""

    async def steps(peer):
        stream = peer.request(get(path="/big.bin"))
        await peer.until(lambda: len(peer.data.get(stream, b"")) > 100_000)
        await act(peer)
        got = await peer.outcome(stream)
        _, head, content, _ = await peer.response(stream)
        whole = len(content) == int(head["content-length"])
        return got if whole else f"{len(content)} bytes of {head['content-length']}"

    return steps


def connections():
    async def says_goaway(peer):
        peer.send(peer.control, frame(GOAWAY, varint(0)))

    async def moves(peer):
        await peer.move()
        # The server sends to the former port until a packet from the new one arrives.
        await peer.ping()

    async def updates_keys(peer):
        peer.request_key_update()

    def goaway(id):
        return frame(GOAWAY, varint(id))

    return [
        Case("GOAWAY while a response runs", "9114 §5.2", "200", while_a_response_runs(says_goaway)),
        Case("another port while a response runs", "9000 §9.3", "200", while_a_response_runs(moves)),
        Case("key update while a response runs", "9001 §6", "200", while_a_response_runs(updates_keys)),
        Case("GOAWAY that grows", "9114 §5.2", "connection H3_ID_ERROR", controls(goaway(1), goaway(2))),
        Case("GOAWAY that shrinks", "9114 §5.2", "200", controls(goaway(2), goaway(1), then_asks=True)),
    ]  # fmt: skip


def priorities():
    def update(stream, value=b"u=1, i"):
        return frame(PRIORITY_UPDATE, varint(stream) + value)

    def ends_first(raised):
        """Steps that ask for two files, of which one gets more urgent, and must end first."""

        async def steps(peer):
            with peer.withheld_window():
                asked = [peer.request(get(path="/big.bin")) for _ in range(2)]
                await peer.until(lambda: len(peer.data.get(asked[0], b"")) > 100_000)
                peer.send(peer.control, update(asked[raised], b"u=0"))
                # It arrives while the first response fills the window.
                await asyncio.sleep(0.5)
            await peer.until(lambda: peer.ended)
            if asked[raised] not in peer.ended:
                return "the other one ended first"
            return await peer.outcome(asked[raised])

        return steps

    wrong = "connection H3_ID_ERROR"
    return [
        Case("PRIORITY_UPDATE of the response under way", "9218 §7.2", "200", ends_first(0)),
        Case("PRIORITY_UPDATE of the response behind it", "9218 §7.2", "200", ends_first(1)),
        Case("PRIORITY_UPDATE before its request", "9218 §7.2", "200", controls(update(0), then_asks=True)),
        Case("PRIORITY_UPDATE of a stream that is no request", "9218 §7.2", wrong, controls(update(2))),
        Case("PRIORITY_UPDATE beyond the allowed streams", "9218 §7.2", wrong, controls(update(4_000_000))),
        Case("PRIORITY_UPDATE of a push", "9218 §7.2", wrong, controls(frame(0xF0701, varint(0) + b"u=1"))),
        Case("priority that means nothing", "9218 §5", "200", sends(get(("priority", "u=9, x;;")))),
    ]  # fmt: skip


def qpack():
    async def dynamic_table(peer):
        said = await peer.settings()
        capacity = said.get(1, 0)
        if capacity == 0:
            return "no dynamic table is offered"
        peer.send(peer.encoder_stream, peer.encoder.apply_settings(capacity, said.get(7, 0)))
        inserted = 0
        for number in range(20):
            stream = peer._quic.get_next_available_stream_id()
            lines = fields(("x-repeated", "again and again"), ("x-number", str(number)), path="/head")
            lines = [(name.encode(), value.encode()) for name, value in lines]
            instructions, section = peer.encoder.encode(stream, lines)
            inserted += len(instructions)
            # The section comes first and waits for its insertions (RFC 9204 §2.1.2).
            peer.send(stream, frame(HEADERS, section), fin=True)
            peer.send(peer.encoder_stream, instructions)
            got = await peer.outcome(stream)
            if got != "200":
                return got
            content = (await peer.response(stream))[2].decode()
            if "x-repeated: again and again\n" not in content or f"x-number: {number}\n" not in content:
                return f"the upstream got {content}"
        return "200" if inserted else "the client's table was not used"

    def writes(stream, content):
        async def steps(peer):
            peer.send(getattr(peer, stream), content)
            return await peer.outcome()

        return steps

    undecodable = "connection QPACK_DECOMPRESSION_FAILED"
    encoder, decoder = "connection QPACK_ENCODER_STREAM_ERROR", "connection QPACK_DECODER_STREAM_ERROR"
    return [
        Case("dynamic table of the client", "9204 §2.1", "200", dynamic_table, "proxy"),
        Case("static entry 99", "9204 §3.1", undecodable, sends(frame(HEADERS, b"\0\0" + prefixed(0xC0, 6, 99)))),
        Case("truncated field section", "9204 §2.2", undecodable, sends(frame(HEADERS, b"\0\0\x50"))),
        Case("dynamic entry without a table", "9204 §2.2.3", undecodable, sends(frame(HEADERS, b"\0\0\x80"))),
        Case("table above the limit", "9204 §4.3.1", encoder, writes("encoder_stream", prefixed(0x20, 5, 1 << 20))),
        Case("insertion of static entry 99", "9204 §3.1", encoder, writes("encoder_stream", prefixed(0xC0, 6, 99) + b"\0")),
        Case("acknowledgement of no section", "9204 §4.4.1", decoder, writes("decoder_stream", b"\x80")),
        Case("increment of 0", "9204 §4.4.3", decoder, writes("decoder_stream", b"\0")),
        Case("increment beyond what was sent", "9204 §4.4.3", decoder, writes("decoder_stream", prefixed(0, 6, 60))),
    ]  # fmt: skip


def methods():
    """A request that ends with its head announces no content to the upstream."""

    def asks(method):
        async def steps(peer):
            stream = peer.request(get(method=method, path="/head"))
            got = await peer.outcome(stream)
            lines = (await peer.response(stream))[2].decode().lower().splitlines()
            announced = [line for line in lines if line.startswith(("transfer-enc", "content-len"))]
            return f"the upstream got {announced}" if announced else got

        return steps

    async def head_has_no_content(peer):
        stream = peer.request(get(method="HEAD", path="/big.bin"))
        got = await peer.outcome(stream)
        content = (await peer.response(stream))[2]
        return f"{len(content)} bytes" if content else got

    bare = "9110 §6.4.1"
    return [
        *(Case(f"{method} without content", bare, "200", asks(method), "proxy") for method in ("GET", "DELETE", "OPTIONS")),
        Case("HEAD of a file", "9110 §9.3.2", "200", head_has_no_content),
    ]  # fmt: skip


def floods():
    def repeats(stream_of, piece, count):
        """Writes until the server ends the connection, or all is written."""

        async def steps(peer):
            stream = stream_of(peer)
            for _ in range(count // 1000):
                if peer.closed is not None:
                    break
                peer.send(stream, piece * 1000)
                # An answer to this shows that it was received.
                with contextlib.suppress(ConnectionError):
                    await peer.ping()
            return await settled(peer)

        return steps

    async def cancels(peer):
        for _ in range(28_760 // 40):
            streams = [peer.request(get(path="/big.bin"), fin=False) for _ in range(40)]
            for stream in streams:
                peer._quic.reset_stream(stream, 0x10C)
                peer._quic.stop_stream(stream, 0x10C)
            with contextlib.suppress(ConnectionError):
                await peer.ping()
            if peer.closed is not None:
                break
        return await settled(peer)

    async def settled(peer):
        if peer.closed is None:
            await asyncio.wait([asyncio.ensure_future(peer.wait_closed())], timeout=5)
        return "never ended" if peer.closed is None else f"connection {peer.closed}"

    load = "connection H3_EXCESSIVE_LOAD"
    control = lambda peer: peer.control  # noqa: E731
    asked = lambda peer: peer.request(post(), fin=False)  # noqa: E731
    return [
        Case("28,760 requests that are cancelled", "9114 §10.5", load, cancels),
        Case("unknown frames without end", "9114 §10.5", load, repeats(control, frame(RESERVED), 200_000)),
        Case("PRIORITY_UPDATE without end", "9218 §7", load, repeats(control, frame(PRIORITY_UPDATE, b"\0u=1"), 200_000)),
        Case("MAX_PUSH_ID without end", "9114 §10.5", load, repeats(control, frame(MAX_PUSH_ID, b"\1"), 200_000)),
        Case("unknown frames of a request without end", "9114 §10.5", load, repeats(asked, frame(RESERVED), 200_000), "proxy"),
        Case("empty DATA frames without end", "9114 §10.5", load, repeats(asked, frame(DATA), 200_000), "proxy"),
    ]  # fmt: skip
