"""``POST …/stream``: batches, decoded here, as an Arrow IPC stream.

    request   rows · decode, columns · sharding, and the state of a loader or where to begin;
              or the rows of each batch, listed by a client with an order of its own
    answer    schema, then one record batch a batch, each with the ``state`` after it

The loader that makes them is the SDK's own, so that a client's order, sharding and state mean the
same here: a stream resumes from any state, on any replica. One batch is made ahead of what the
client has taken (and what the loader prefetches, within its bounds), so a slow client holds the
loader back. Requests for one plan that are within 64 batches of each other are given the same
batches, each made once (``SharedStreams``), and a client on this host gets them as memory,
if it accepts that (``SlabSocket``). A stream ends with the epoch, with its client, when
the server drains, or when its token becomes invalid; an error in the middle is reported in the
stream, as its last record batch.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

import anyio
import numpy as np
from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import Field, model_validator
from starlette.responses import StreamingResponse

from tensorlake.dataset import serve_loader
from tensorlake.errors import InvalidInputError, TensorlakeError
from tensorlake.loader import ListedBatch, Loader, WrittenBatches, step_from_json
from tensorlake_server.bodies.arrow import ARROW_TYPE
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.bodies.values import parse_value
from tensorlake_server.http.problems import problem_of
from tensorlake_server.messages.messages import Asked
from tensorlake_server.messages.row_request import AskedRows, Name
from tensorlake_server.request.context import (
    DatasetPath,
    batch_streams_of,
    lake_of,
    settings_of,
    shared_streams_of,
    take_place,
)
from tensorlake_server.request.slab_socket import SlabSocket
from tensorlake_server.request.stream_limits import BoundedStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tensorlake.loader import Member
    from tensorlake_server.auth.principal import Principal
    from tensorlake_server.request.stream_limits import Place

__all__ = ["StreamRequest", "router"]

router = APIRouter(prefix="/v1/datasets", tags=["stream"], route_class=BodyRoute)

MAX_COUNT = 2**31
MAX_BATCH_ROWS = 65_536
PIECE_NBYTES = 1 << 20  # handed to the connection at once
PREFETCH = "64MiB"  # of batches made ahead, by each stream
CACHE = "128MiB"  # of chunks, kept by each stream
Count = Annotated[int, Field(ge=1, lt=MAX_COUNT)]
Position = Annotated[int, Field(ge=0, lt=2**62)]


class ListedRows(Asked):
    """A batch of rows in an order that only the client has."""

    stop: Annotated[Position, Field(description="what `state` has as its position after it")]
    places: Annotated[list[Position], Field(fail_fast=True, min_length=1)]
    positions: Annotated[list[Position], Field(fail_fast=True, min_length=1)]
    valid: bool = True

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if len(self.places) != len(self.positions):
            raise ValueError("places and positions are of the same rows, and differ in number")
        return self

    def listed(self) -> ListedBatch:
        """Return the batch as a loader takes it."""
        places, positions = (np.array(one, np.int64) for one in (self.places, self.positions))
        return ListedBatch(self.stop, places, positions, self.valid)


class StreamRequest(AskedRows):
    """Batches of rows; defaults are those of ``ds.loader()``."""

    columns: Annotated[list[Name], Field(fail_fast=True)] | None = None
    batch_size: Count | None = None
    global_batch_size: Count | None = None
    rank: Annotated[int, Field(ge=0, lt=MAX_COUNT)] = 0
    world_size: Count = 1
    drop_last: bool = False
    every: Annotated[Count, Field(description="every how many-th batch")] = 1
    shuffle: bool | Literal["full", "window"] = False
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    epoch: Annotated[int, Field(ge=0, lt=MAX_COUNT)] = 0
    batches: Annotated[
        list[ListedRows],
        Field(fail_fast=True, description="the rows of each, instead of sizes, ranks and a state"),
    ] = Field(default_factory=list[ListedRows])
    state: Annotated[dict[str, Any] | None, Field(description="a loader's; begins there")] = None
    decode: dict[Name, Annotated[list[dict[str, Any]], Field(fail_fast=True)]] = Field(
        default_factory=dict[str, list[dict[str, Any]]],
        description="steps of tl.decode, by column",
    )
    lists: Annotated[list[Name], Field(fail_fast=True)] = Field(
        default_factory=list[str], description="columns whose samples stay apart"
    )
    null: dict[Name, Any] = Field(
        default_factory=dict[str, Any], description="what stands for NULL, by column"
    )
    on_error: Literal["raise", "skip"] = "raise"
    keeps_places: Annotated[bool, Field(description="what is skipped is False in _valid")] = False

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.batches and (self.state or self.batch_size or self.global_batch_size):
            raise ValueError("batches lists the rows: leave out state and the size of a batch")
        return self


@router.post(
    "/{name}/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {ARROW_TYPE: {}}}},
)
async def stream_batches(
    request: Request, name: DatasetPath, asked: StreamRequest
) -> BoundedStream:
    """Stream decoded batches, from the beginning of an epoch or from a loader's state."""
    place = take_place(request, batch_streams_of(request))
    try:
        loader = await to_thread.run_sync(_open, request, name, asked)
    except BaseException:
        place.leave()
        raise
    member = _member(request, name, asked, loader)
    slabs = SlabSocket.asked(request.headers)
    batches = _batches(request, member, place, slabs)
    first = await anext(batches, b"")  # what is wrong from the start is a problem with its status
    return BoundedStream(
        first,
        batches,
        {"Cache-Control": "no-store", **(slabs.headers if slabs is not None else {})},
        ARROW_TYPE,
        patience_s=settings_of(request).stream_patience_s,
    )


def _open(request: Request, name: str, asked: StreamRequest) -> Loader:
    rows = lake_of(request).rows(name, asked)
    listed = max((len(one.places) for one in asked.batches), default=None)
    arguments: dict[str, Any] = {
        "columns": asked.columns,
        "batch_size": asked.batch_size,
        "global_batch_size": listed or asked.global_batch_size,
        "rank": asked.rank,
        "world_size": asked.world_size,
        "drop_last": asked.drop_last,
        "shuffle": asked.shuffle,
        "seed": asked.seed,
        "decode": {one: [_step(step) for step in steps] for one, steps in asked.decode.items()},
        "collate": dict.fromkeys(asked.lists, "list"),
        "null": {one: parse_value(null, one, rows.schema) for one, null in asked.null.items()},
        "on_error": asked.on_error,
        "prefetch": PREFETCH,
        "cache": CACHE,
    }
    loader = serve_loader(
        rows,
        arguments,
        state=asked.state,
        turns=asked.every,
        keeps_places=asked.keeps_places,
        batches=[one.listed() for one in asked.batches],
    )
    if asked.state is None:
        loader.set_epoch(asked.epoch)
    _check_size(loader, asked, settings_of(request).max_batch_nbytes)
    return loader


def _step(given: dict[str, Any]) -> Any:
    try:
        return step_from_json(given)
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, TensorlakeError):
            raise
        raise InvalidInputError(f"{given!r} is not a step of tl.decode: {error}") from error


def _check_size(loader: Loader, asked: StreamRequest, most: int) -> None:
    """Refuse batches that the server could not hold.

    Raises:
        InvalidInputError: They are too large.
    """
    rows = -(-(asked.global_batch_size or 0) // asked.world_size) or asked.batch_size or 0
    rows = max((len(one.places) for one in asked.batches), default=rows)
    nbytes = rows * sum(column.sample_nbytes for column in loader.columns)
    if rows > MAX_BATCH_ROWS or nbytes > most:
        raise InvalidInputError(
            f"a batch of {rows:,} rows has {nbytes:,} bytes: more than this server makes"
            f"\nask for {MAX_BATCH_ROWS:,} rows and {most:,} bytes at most",
            actual=nbytes,
        )


def _member(request: Request, name: str, asked: StreamRequest, loader: Loader) -> Member:
    """Return a member of the stream of a request's plan.

    Args:
        request: The request.
        name: The dataset.
        asked: The body of the request.
        loader: Made for it: it was checked, and begins the stream if there is none.
    """
    principal = cast("Principal", request.state.principal)
    state = loader.state_dict()
    state.pop("source", None)
    size = asked.global_batch_size or (asked.batch_size or 0) * asked.world_size
    step = max(1, size * asked.every)
    position = 0 if asked.batches else int(state.pop("position"))
    what = json.dumps([asked.model_dump(exclude={"state"}), state], sort_keys=True)
    waiting = [loader]

    def begin(number: int) -> tuple[Loader, WrittenBatches]:
        opened = waiting.pop() if waiting and number == first else _open(request, name, at(number))
        return opened, WrittenBatches(opened, partial(problem_of, shown=request.app.state.shown))

    def at(number: int) -> StreamRequest:
        if asked.batches:
            return asked.model_copy(update={"batches": asked.batches[number:]})
        there = {**state, "position": number * step + position % step}
        return asked.model_copy(update={"state": there})

    first = position // step
    # what a name stands for depends on the scopes of who asks
    plan = name, principal.scopes, position % step, what
    return shared_streams_of(request).enter(plan, first, begin)


async def _batches(
    request: Request, member: Member, place: Place, slabs: SlabSocket | None
) -> AsyncGenerator[bytes]:
    """Make one batch after another, in threads that only streams use; give them out in pieces."""
    threads: anyio.CapacityLimiter = request.app.state.batch_threads
    patience_s = settings_of(request).stream_patience_s
    try:
        while not place.is_ending:
            come = slabs if slabs is not None and slabs.is_connected else None
            if come is not None and not await come.has_room(patience_s):
                return
            make = partial(member.next, by_descriptor=come is not None)
            sent = await to_thread.run_sync(make, limiter=threads)
            if sent.slab is not None and come is not None and not come.send(sent.slab):
                return
            batch = memoryview(sent.content)
            if not batch:
                return
            for start in range(0, len(batch), PIECE_NBYTES):
                yield bytes(batch[start : start + PIECE_NBYTES])
    finally:
        if slabs is not None:
            slabs.close()
        try:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(member.leave, limiter=threads)
        finally:  # also where a store's or a step's own failure ends the closing
            place.leave()
