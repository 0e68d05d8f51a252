"""Tries an HTTP/3 server with what the RFCs forbid, demand and leave open.

usage: battery.py FILES_PORT PROXY_PORT

Each case has a connection of its own. A line is printed for each: its name, the section of
the RFC, and `ok` or what happened instead.
"""

import asyncio
import sys

import cases
from peer import opened

# Connections at once; aioquic needs the processor for each.
AT_ONCE = 12


async def verdict(case, ports, places):
    wanted = case.want.split(" or ")
    async with places:
        try:
            async with opened(ports[case.at], **case.opening) as peer:
                got = await case.steps(peer)
                if not got.startswith("connection") and (later := await still_serves(peer)):
                    # An answer may come just before the end of its connection.
                    is_late = later.startswith("connection") and later in wanted
                    got = later if is_late else f"then {later}"
        except Exception as error:  # noqa: BLE001 (any error is the case's result)
            got = f"{type(error).__name__} {error}"
    right = "ok" if got in wanted else f"{got}, not {case.want}"
    print(f"{case.name} ({case.rfc}): {right}", flush=True)


async def still_serves(peer):
    """What happens to a further request, where it is not answered."""
    got = await peer.outcome(peer.request(cases.get(path="/head")))
    return None if got in ("200", "404") else got


async def main():
    ports = {"files": int(sys.argv[1]), "proxy": int(sys.argv[2])}
    places = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(verdict(case, ports, places) for case in cases.all_of_them()))


asyncio.run(main())
