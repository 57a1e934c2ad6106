"""The cost of receiving and decoding through a server, without tensorlake's loader and client.

    the loader's chunk ranges ──► four threads, `http.client`, into memory made for each
                              ──► two threads decode, by the functions that the loader uses

Nothing is verified, shuffled or sorted. The measured server is used, and shares the machine's
cores: so this is the upper bound of the loader's figure over HTTP.
"""

from __future__ import annotations

import asyncio
import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.harness.data import Workspace, jpeg_paths
from benchmarks.harness.runs import Measurement, stopwatch
from benchmarks.limits.remote import Decoder, Range, find_pictures, pictures_of

__all__ = ["bare_http_epoch", "pack_ranges"]


def pack_ranges(folder: Path, nbytes: int) -> list[Range]:
    """List the packs of a dataset's folder in parts of a given size."""
    ranges: list[Range] = []
    for pack in sorted((folder / "packs").rglob("*.tlp")):
        path, length = pack.relative_to(folder).as_posix(), pack.stat().st_size
        starts = range(0, length, nbytes)
        ranges.extend(Range(path, start, min(start + nbytes, length)) for start in starts)
    return ranges


def bare_http_epoch(
    workspace: Workspace, netloc: str, name: str, ranges: list[Range], *, in_flight: int
) -> Measurement:
    """Receive ranges of a dataset's objects and decode all their images."""
    pictures = find_pictures(workspace)
    held = threading.local()

    def received(part: Range) -> memoryview:
        if not hasattr(held, "connection"):
            held.connection = http.client.HTTPConnection(netloc)
        span = {"Range": f"bytes={part.start}-{part.stop - 1}"}
        held.connection.request("GET", f"/v1/datasets/{name}/objects/{part.path}", headers=span)
        answer = held.connection.getresponse()
        assert answer.status == 206, answer.status
        body = bytearray(part.stop - part.start)
        view, at = memoryview(body), 0
        while at < len(body):
            at += answer.readinto(view[at:])
        return view

    async def read() -> None:
        loop, halves = asyncio.get_running_loop(), {}
        with ThreadPoolExecutor(in_flight) as clients, Decoder() as decoder:

            async def one(part: Range) -> None:
                block = await loop.run_in_executor(clients, received, part)
                await decoder.decode(pictures_of(part, block, pictures, halves))

            await asyncio.gather(*map(one, ranges))
            assert decoder.count == len(jpeg_paths(workspace)), decoder.count

    with stopwatch() as watch:
        asyncio.run(read())
    return Measurement(watch.seconds, len(jpeg_paths(workspace)), watch.cpu_seconds)
