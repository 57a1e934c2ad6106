"""The limit of the HTTP client, the network and the decoder: the same requests, without tensorlake.

    recorded   which ranges of which objects we ask for, in an uncounted run of ours
    made       the same ranges by obstore alone, from a server of the same kind, in the same round
    decoded    by the functions that the loader uses, in two threads, as the bytes come

So a figure of ours can be compared with the minimum that its requests take on the machine, whose
two cores the server shares. Nothing is verified, planned or sorted here. The location of images in
objects is found by looking for the files' bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from benchmarks.harness.data import LAKE, TOKENS_PER_ROW, Workspace, jpeg_paths
from benchmarks.harness.runs import Measurement, stopwatch, warm_up
from benchmarks.loading import (
    IMAGE_BATCH,
    IMAGES,
    SEED,
    SIDE,
    TOKEN_BATCH,
    TOKENS,
    count_images,
    count_tokens,
    image_loader,
    token_file,
)

if TYPE_CHECKING:
    from obstore.store import S3Store

    from tensorlake import Dataset
    from tensorlake.testing import LatencyServer

__all__ = [
    "Decoder",
    "Range",
    "bare_epoch",
    "bare_first_batch",
    "bare_ranges",
    "bare_tokens",
    "find_pictures",
    "find_rows",
    "pictures_of",
]

CALL_RANGES = 8  # of one call of the client, which sends ten of a call at once
CHUNK_RANGE_NBYTES = 1 << 20  # larger requests are for chunks, smaller for rows and headers
CHUNK_RANGES_IN_FLIGHT = 16
DECODE_THREADS = 2
TASK_PICTURES = 4  # decoded by one thread at a time: handing over costs as much as a tenth of one


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Bytes [start, stop) of an object."""

    path: str
    start: int
    stop: int


Read = Callable[["S3Store"], Coroutine[Any, Any, None]]


@contextmanager
def noted_requests() -> Generator[list[Range]]:
    """Note every range that the client is asked for within the block."""
    import obstore

    noted: list[Range] = []
    range_async, ranges_async = obstore.get_range_async, obstore.get_ranges_async

    def note_range(store: Any, path: str, *, start: int, end: int) -> Any:
        noted.append(Range(path, start, end))
        return range_async(store, path, start=start, end=end)

    def note_ranges(store: Any, path: str, **asked: Any) -> Any:
        pairs = zip(asked["starts"], asked["lengths"], strict=True)
        noted.extend(Range(path, start, start + length) for start, length in pairs)
        return ranges_async(store, path, **asked)

    obstore.get_range_async, obstore.get_ranges_async = note_range, note_ranges
    try:
        yield noted
    finally:
        obstore.get_range_async, obstore.get_ranges_async = range_async, ranges_async


def note_requests(workspace: Workspace, name: str, use: Callable[[Dataset], object]) -> list[Range]:
    """Use a dataset of a server once, which is not counted; return what it was asked for."""
    import tensorlake as tl
    from tensorlake.testing import latency_server

    with (
        latency_server(workspace.folder) as server,
        tl.open(
            server.s3_url(f"{LAKE}/{name}"), read_only=True, storage_options=server.storage_options
        ) as ds,
        noted_requests() as noted,
    ):
        use(ds)
    return list(noted)


def time_reads(workspace: Workspace, name: str, read: Read, *, latency_ms: float) -> Measurement:
    """Time what the client does with one object store; its connections are all new."""
    from dataclasses import replace

    from tensorlake.testing import Conditions, latency_server

    with latency_server(workspace.folder) as server:
        store = _client(server, name)
        store.head("tensorlake.json")
        server.set_conditions(Conditions(latency_ms=latency_ms))
        server.reset()
        with stopwatch() as watch:
            asyncio.run(read(store))
        seen = server.counters()
    facts = {
        "requests": float(seen.requests),
        "MB": seen.bytes_sent / 1e6,
        "in flight": float(seen.max_in_flight),
    }
    return replace(Measurement(watch.seconds, 1.0, watch.cpu_seconds), facts=facts)


def _client(server: LatencyServer, name: str) -> S3Store:
    from obstore.store import S3Store

    return S3Store(
        LAKE,
        prefix=name,
        endpoint=server.endpoint,
        access_key_id="x",
        secret_access_key="y",
        region="us-east-1",
        client_options={"allow_http": True},
    )


# ---- scattered rows


def bare_ranges(
    workspace: Workspace,
    *,
    name: str,
    use: Callable[[Dataset], object],
    in_flight: int,
    latency_ms: float,
) -> Measurement:
    """Ask for the ranges that `use` asks for, by calls of several, with that many in flight."""
    warm_up()
    ranges = sorted(note_requests(workspace, name, use))
    calls = _calls(ranges)

    async def read(store: S3Store) -> None:
        room = asyncio.Semaphore(in_flight // CALL_RANGES)

        async def one(call: list[Range]) -> None:
            async with room:
                await _read_call(store, call)

        await asyncio.gather(*map(one, calls))

    return time_reads(workspace, name, read, latency_ms=latency_ms)


def _calls(ranges: Iterable[Range]) -> list[list[Range]]:
    """Divide ranges among calls: of one object each, and not too many."""
    calls: list[list[Range]] = []
    for _, group in groupby(ranges, key=lambda one: one.path):
        of_object = list(group)
        starts = range(0, len(of_object), CALL_RANGES)
        calls.extend(of_object[start : start + CALL_RANGES] for start in starts)
    return calls


async def _read_call(store: S3Store, call: list[Range]) -> list[memoryview]:
    import obstore

    starts, ends = [one.start for one in call], [one.stop for one in call]
    found = await obstore.get_ranges_async(
        store, call[0].path, starts=starts, ends=ends, coalesce=0
    )
    return [memoryview(one) for one in found]


# ---- pictures


def bare_first_batch(workspace: Workspace, *, latency_ms: float) -> Measurement:
    """Two trips of the first batch's ranges, headers then rows, and its images decoded."""
    warm_up()

    def first(ds: Dataset) -> None:
        batches = iter(image_loader(ds))
        count_images(next(batches))
        batches.close()

    noted = note_requests(workspace, IMAGES, first)
    pictures = find_pictures(workspace)
    rows = [one for one in noted if _within(one, pictures)]
    small = [one for one in rows if one.stop - one.start < CHUNK_RANGE_NBYTES]
    headers = [one for one in noted if one not in set(rows)]
    count = sum(len(_within(one, pictures)) for one in small)
    if count < IMAGE_BATCH:
        raise SystemExit(f"a first batch has {IMAGE_BATCH} images; {count} were asked for by row")

    async def read(store: S3Store) -> None:
        await asyncio.gather(*(_read_call(store, [one]) for one in headers))
        with Decoder() as decoder:

            async def one(call: list[Range]) -> None:
                blocks = await _read_call(store, call)
                samples = [
                    block[start - asked.start : stop - asked.start]
                    for asked, block in zip(call, blocks, strict=True)
                    for start, stop in _within(asked, pictures)
                ]
                await decoder.decode(samples)

            await asyncio.gather(*map(one, _calls(sorted(small))))

    return time_reads(workspace, IMAGES, read, latency_ms=latency_ms)


def bare_epoch(workspace: Workspace, *, latency_ms: float) -> Measurement:
    """The ranges that chunks are read by, several in flight, and all images decoded."""
    from dataclasses import replace

    warm_up()

    def epoch(ds: Dataset) -> None:
        for batch in image_loader(ds):
            count_images(batch)

    noted = note_requests(workspace, IMAGES, epoch)
    chunks = sorted(one for one in noted if one.stop - one.start >= CHUNK_RANGE_NBYTES)
    pictures = find_pictures(workspace)

    async def read(store: S3Store) -> None:
        room = asyncio.Semaphore(CHUNK_RANGES_IN_FLIGHT)
        before: dict[tuple[str, int], memoryview] = {}  # what a picture has in the part before
        with Decoder() as decoder:

            async def one(part: Range) -> None:
                async with room:
                    (block,) = await _read_call(store, [part])
                await decoder.decode(pictures_of(part, block, pictures, before))

            await asyncio.gather(*map(one, chunks))
            done = decoder.count
        if done != len(jpeg_paths(workspace)):
            raise SystemExit(f"{done} images were decoded of {len(jpeg_paths(workspace))}")

    measured = time_reads(workspace, IMAGES, read, latency_ms=latency_ms)
    return replace(measured, amount=float(len(jpeg_paths(workspace))))


def find_pictures(workspace: Workspace) -> dict[str, np.ndarray]:
    """Find where the JPEG files lie in the dataset's objects: (n, 2), [start, stop) each."""
    folder = workspace.lake / IMAGES
    files = iter([path.read_bytes() for path in jpeg_paths(workspace)])
    wanted = next(files, None)
    found: dict[str, np.ndarray] = {}
    for path in sorted(folder.rglob("*.tlp"), key=_number_of):
        data, places, at = path.read_bytes(), [], 0
        while wanted is not None and (at := data.find(wanted, at)) >= 0:
            places.append((at, at := at + len(wanted)))
            wanted = next(files, None)
        if places:
            found[path.relative_to(folder).as_posix()] = np.array(places)
    return found


def _number_of(pack: Path) -> int:
    return int(pack.stem.rpartition("-")[2])


def _within(asked: Range, pictures: dict[str, np.ndarray]) -> list[tuple[int, int]]:
    places = pictures.get(asked.path)
    if places is None:
        return []
    is_within = (places[:, 0] >= asked.start) & (places[:, 1] <= asked.stop)
    return [(start, stop) for start, stop in places[is_within].tolist()]


def pictures_of(
    part: Range,
    block: memoryview,
    pictures: dict[str, np.ndarray],
    halves: dict[tuple[str, int], memoryview],
) -> list[Any]:
    """List the images of a part; one that two parts share, when the second of them is here."""
    found: list[Any] = [
        block[start - part.start : stop - part.start] for start, stop in _within(part, pictures)
    ]
    for start, stop in pictures[part.path].tolist():
        for border in (part.start, part.stop):
            if not start < border < stop:
                continue
            own = block[max(0, start - part.start) : stop - part.start]
            other = halves.pop((part.path, border), None)
            if other is None:
                halves[part.path, border] = own
            else:
                found.append(b"".join([other, own] if border == part.start else [own, other]))
    return found


# ---- rows of tokens


def bare_tokens(workspace: Workspace, *, latency_ms: float) -> Measurement:
    """The ranges that chunks are read by, several in flight, into one array; batches of it."""
    from dataclasses import replace

    warm_up()

    def epoch(ds: Dataset) -> None:
        for batch in ds.torch(batch_size=TOKEN_BATCH, shuffle=True, seed=SEED):
            count_tokens(batch)

    stored = find_rows(workspace)
    noted = sorted(note_requests(workspace, TOKENS, epoch))
    parts = [one for one in noted if _shared(one, stored)]
    spent_s = 0.0  # of this process: the server is its child, and not part of what it does

    async def read(store: S3Store) -> None:
        nonlocal spent_s
        spent_s = time.process_time()
        room = asyncio.Semaphore(CHUNK_RANGES_IN_FLIGHT)
        rows = np.empty((workspace.num_token_rows, TOKENS_PER_ROW), np.uint16)
        flat = rows.reshape(-1).view(np.uint8)

        async def one(part: Range) -> int:
            async with room:
                (block,) = await _read_call(store, [part])
            shared = _shared(part, stored)
            for start, stop, first in shared:
                flat[first : first + stop - start] = block[start - part.start : stop - part.start]
            return sum(stop - start for start, stop, _ in shared)

        received = sum(await asyncio.gather(*map(one, parts)))
        if received != rows.nbytes:
            raise SystemExit(f"rows of {rows.nbytes} bytes are stored; {received} were asked for")
        _gather_all(rows)
        spent_s = time.process_time() - spent_s

    measured = time_reads(workspace, TOKENS, read, latency_ms=latency_ms)
    return replace(measured, amount=float(workspace.num_token_rows), cpu_seconds=spent_s)


def _gather_all(rows: np.ndarray) -> None:
    import torch

    order = np.random.default_rng(SEED).permutation(len(rows))
    for start in range(0, len(rows), TOKEN_BATCH):
        count_tokens(torch.from_numpy(rows[order[start : start + TOKEN_BATCH]]))


def find_rows(workspace: Workspace) -> dict[str, list[tuple[int, int, int]]]:
    """Find where the rows lie in the dataset's objects: [start, stop), and which byte is first."""
    folder, at_row = workspace.lake / TOKENS, 0
    rows = np.load(token_file(workspace))
    row_nbytes = rows[0].nbytes
    found: dict[str, list[tuple[int, int, int]]] = {}
    for path in sorted(folder.rglob("*.tlp"), key=_number_of):
        data, at = path.read_bytes(), 0
        while at_row < len(rows) and (at := data.find(rows[at_row].tobytes(), at)) >= 0:
            count = min(len(rows) - at_row, (len(data) - at) // row_nbytes)
            here = np.frombuffer(data, np.uint16, count * TOKENS_PER_ROW, at)
            same = (here.reshape(count, -1) == rows[at_row : at_row + count]).all(axis=1)
            count = count if same.all() else int(same.argmin())
            stop = at + count * row_nbytes
            places = found.setdefault(path.relative_to(folder).as_posix(), [])
            places.append((at, stop, at_row * row_nbytes))
            at, at_row = stop, at_row + count
    return found


def _shared(
    part: Range, stored: dict[str, list[tuple[int, int, int]]]
) -> list[tuple[int, int, int]]:
    """A part of the rows: [start, stop) of the object, and which byte of all is first."""
    cut = [
        (max(start, part.start), min(stop, part.stop), first + max(0, part.start - start))
        for start, stop, first in stored.get(part.path, ())
    ]
    return [one for one in cut if one[0] < one[1]]


class Decoder:
    """Decodes images in threads, straight into a batch."""

    def __init__(self) -> None:
        from tensorlake.loader.decode import choose_resampler

        self.count = 0
        self._resize = choose_resampler().antialiased
        self._batch = np.empty((IMAGE_BATCH, SIDE, SIDE, 3), np.uint8)
        self._threads = ThreadPoolExecutor(DECODE_THREADS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    async def decode(self, samples: list[Any]) -> None:
        """Decode images; on the loop, which answers others meanwhile."""
        loop, first = asyncio.get_running_loop(), self.count
        self.count += len(samples)
        tasks = [
            loop.run_in_executor(
                self._threads, self._some, first + start, samples[start : start + TASK_PICTURES]
            )
            for start in range(0, len(samples), TASK_PICTURES)
        ]
        await asyncio.gather(*tasks)

    def _some(self, first: int, samples: list[Any]) -> None:
        import simplejpeg

        for number, sample in enumerate(samples, first):
            pixels = simplejpeg.decode_jpeg(sample, "RGB")
            self._batch[number % IMAGE_BATCH] = self._resize(pixels, (SIDE, SIDE))
