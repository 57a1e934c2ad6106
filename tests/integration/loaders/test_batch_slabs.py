"""Batches by descriptor: what a client on the server's host gets, and how either side may end."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from anyio.lowlevel import checkpoint

import tensorlake as tl
from tensorlake.loader import Member
from tensorlake.loader.runtime import batch_slabs
from tensorlake.loader.runtime.batch_slabs import (
    SLABS_HEADER,
    Slab,
    SlabReader,
    slab_address,
)
from tensorlake.loader.runtime.shared_slabs import has_shared_memory
from tensorlake_server import Settings, create_app
from tensorlake_server.request import slab_socket
from tensorlake_server.request.slab_socket import SlabSocket
from tests.support.serving import listening

pytestmark = pytest.mark.skipif(not has_shared_memory(), reason="memory files are Linux's")

ROWS = 24
PLAN: dict[str, Any] = {"batch_size": 2, "shuffle": True, "seed": 3, "prefetch": 1}
TYPES: dict[str, Any] = {
    "image": tl.Array("uint8", (16, 16, 3)),
    "x": "float64",
    "flag": "bool",
    "boxes": tl.Array("float32", (None, 4)),
    "text": tl.Text(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("slabs")
    rng = np.random.default_rng(0)
    with tl.create(str(root / "pets"), TYPES) as ds:
        ds.extend(
            {
                "image": rng.integers(0, 255, (ROWS, 16, 16, 3), np.uint8),
                "x": np.arange(ROWS) / 4,
                "flag": np.arange(ROWS) % 3 == 0,
                "boxes": [np.full((row % 3, 4), row, np.float32) for row in range(ROWS)],
                "text": [f"row {row}" for row in range(ROWS)],
            }
        )
        ds.commit("rows")
    return root


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with listening(create_app(Settings(url=str(folder), public_read=True))) as address:
        yield address


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The memory of the batches that came by descriptor."""
    found: list[np.ndarray] = []
    taken = SlabReader.next

    def noted(self: SlabReader) -> np.ndarray:
        found.append(taken(self))
        return found[-1]

    monkeypatch.setattr(SlabReader, "next", noted)
    return found


class Clients:
    """Counts sockets that were offered and clients that came."""

    def __init__(self) -> None:
        self.waited_for = 0
        self.changed = threading.Condition()

    def add(self, count: int) -> None:
        with self.changed:
            self.waited_for += count
            self.changed.notify_all()

    def wait(self) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.waited_for <= 0, 60)


@pytest.fixture
def come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no batch while a client is on its way: all small ones could be sent before it comes."""
    clients = Clients()
    begin, accept, make = SlabSocket.__init__, SlabSocket._came, Member.next

    def begun(self: SlabSocket) -> None:
        begin(self)
        clients.add(1)

    def accepted(self: SlabSocket, *given: Any) -> None:
        accept(self, *given)
        clients.add(-1)

    def made(self: Member, *, by_descriptor: bool = False) -> Any:
        if self._has_schema:
            clients.wait()
        return make(self, by_descriptor=by_descriptor)

    monkeypatch.setattr(SlabSocket, "__init__", begun)
    monkeypatch.setattr(SlabSocket, "_came", accepted)
    monkeypatch.setattr(Member, "next", made)


def epoch(url: str, **given: Any) -> list[dict[str, Any]]:
    with tl.open(url).loader(**PLAN | given) as loader:
        return list(loader)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if not isinstance(one, np.ndarray):
        return one == other
    return one.dtype == other.dtype and np.array_equal(one, other)


@pytest.mark.usefixtures("come")
def test_batches_by_descriptor_are_those_of_a_local_loader(
    folder: Path, address: str, received: list[np.ndarray]
) -> None:
    local = epoch(str(folder / "pets"), columns=[*TYPES])

    there = epoch(f"{address}/pets", columns=[*TYPES], decode_on="server")

    assert all(
        same(one[name], other[name])
        for one, other in zip(local, there, strict=True)
        for name in TYPES
    )
    assert received, "at most the first batches come over HTTP"


@pytest.mark.usefixtures("come")
def test_arrays_are_part_of_the_memory_and_their_own_when_written(
    address: str, received: list[np.ndarray]
) -> None:
    url = f"{address}/pets"
    with (
        tl.open(url).loader(**PLAN, columns=["image"], decode_on="server") as one,
        tl.open(url).loader(**PLAN, columns=["image"], decode_on="server") as other,
    ):
        for ours, theirs in zip(one, other, strict=True):
            was = theirs["image"].copy()
            ours["image"][:] = 7

            assert np.array_equal(theirs["image"], was)
            last = ours["image"]

    assert any(np.shares_memory(last, memory) for memory in received)


def test_a_client_that_cannot_reach_the_socket_gets_all_over_http(
    folder: Path, address: str, received: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slab_socket, "slab_address", lambda name: slab_address(f"elsewhere-{name}"))

    there = epoch(f"{address}/pets", columns=["image"], decode_on="server")

    local = epoch(str(folder / "pets"), columns=["image"])
    assert all(same(a["image"], b["image"]) for a, b in zip(local, there, strict=True))
    assert not received


def test_a_server_without_descriptors_left_sends_bytes(
    folder: Path, address: str, received: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Slab, "of", lambda *_: None)

    there = epoch(f"{address}/pets", columns=["image"], decode_on="server")

    local = epoch(str(folder / "pets"), columns=["image"])
    assert all(same(a["image"], b["image"]) for a, b in zip(local, there, strict=True))
    assert not received


@pytest.mark.usefixtures("come")
def test_a_lost_socket_is_a_lost_stream_and_the_next_continues(
    folder: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, count = SlabReader.next, 0

    def lost(self: SlabReader) -> np.ndarray:
        nonlocal count
        count += 1
        if count == 3:
            self.close()
        return taken(self)

    monkeypatch.setattr(SlabReader, "next", lost)

    there = epoch(f"{address}/pets", columns=["image"], decode_on="server")

    local = epoch(str(folder / "pets"), columns=["image"])
    assert all(same(a["image"], b["image"]) for a, b in zip(local, there, strict=True))
    assert count >= 3


def test_who_does_not_ask_is_offered_nothing(address: str) -> None:
    body = {"batch_size": 2}
    route = f"{address}/v1/datasets/pets/stream"

    plain = httpx.post(route, json=body)
    asked = httpx.post(route, json=body, headers={SLABS_HEADER: "accept"})

    assert SLABS_HEADER not in plain.headers
    assert SLABS_HEADER in asked.headers
    assert asked.content == plain.content, "who does not come gets the same bytes"


def test_memory_is_sealed_against_all_its_receivers() -> None:
    slab = Slab.of(b"schema", b"batch")
    assert slab is not None

    with pytest.raises(OSError, match="not permitted"):
        os.write(slab.descriptor, b"x")
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(slab.descriptor, 1)
    with pytest.raises(OSError, match="not permitted"):
        mmap.mmap(slab.descriptor, 5)
    assert slab.last(5) == b"batch"


def test_memory_that_could_shrink_is_refused() -> None:
    server, client = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with server, client:
        file = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
        os.write(file, b"batch")
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
        socket.send_fds(server, [b"\x01"], [file])
        os.close(file)

        with pytest.raises(OSError, match="not sealed"):
            SlabReader(client).next()


@pytest.mark.parametrize("offer", [None, "", "a b", "../x " + "0" * 32, "0" * 32 + " " + "0" * 32])
def test_an_offer_from_elsewhere_is_ignored(offer: str | None) -> None:
    assert SlabReader.offered(offer) is None


def test_a_wrong_key_gets_nothing_and_the_right_one_still_comes() -> None:
    async def talk() -> None:
        slabs = SlabSocket.asked({SLABS_HEADER: "accept"})
        assert slabs is not None
        offer = slabs.headers[SLABS_HEADER]
        stranger = SlabReader.offered(f"{offer[:32]} {'0' * 32}")
        client = SlabReader.offered(offer)
        assert stranger is not None
        assert client is not None
        with anyio.fail_after(30):
            while not slabs.is_connected:
                await checkpoint()
        slab = Slab.of(b"batch")
        assert slab is not None

        assert await slabs.has_room(1)
        assert slabs.send(slab)

        assert bytes(client.next()) == b"batch"
        with pytest.raises(OSError, match="closed"):
            stranger.next()
        stranger.close()
        slabs.close()
        client.close()

    anyio.run(talk)


def test_a_client_that_acknowledges_nothing_is_not_sent_more() -> None:
    async def talk() -> None:
        slabs = SlabSocket.asked({SLABS_HEADER: "accept"})
        assert slabs is not None
        client = SlabReader.offered(slabs.headers[SLABS_HEADER])
        assert client is not None
        with anyio.fail_after(30):
            while not slabs.is_connected:
                await checkpoint()
        slab = Slab.of(b"batch")
        assert slab is not None
        for _ in range(slab_socket.AHEAD):
            assert await slabs.has_room(1)
            assert slabs.send(slab)

        assert not await slabs.has_room(0.01)

        client.next()
        assert await slabs.has_room(30)
        client.close()
        slabs.close()

    anyio.run(talk)


@pytest.mark.usefixtures("come")
def test_descriptors_do_not_outlive_their_streams(address: str, received: list[np.ndarray]) -> None:
    def count() -> int:
        found = 0
        for one in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # that of the listing
                found += "tensorlake-batch" in str(one.readlink())
        return found

    epoch(f"{address}/pets", columns=["image"], decode_on="server")

    assert received
    received.clear()
    for _ in range(600):  # the server's stream ends a little later
        if not count():
            return
        threading.Event().wait(0.05)
    pytest.fail(f"{count()} descriptors are left")


@pytest.mark.usefixtures("come")
def test_a_client_that_keeps_many_batches_keeps_few_descriptors(
    folder: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_slabs, "MAPPED_MOST", 3)

    there = epoch(f"{address}/pets", columns=["image"], decode_on="server")

    local = epoch(str(folder / "pets"), columns=["image"])
    assert len(batch_slabs._mapped) == 3
    assert all(same(a["image"], b["image"]) for a, b in zip(local, there, strict=True))
