"""Streams of one plan: decoded once for all clients near each other, each with all its batches."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.dataset import serve_loader
from tensorlake.errors import CorruptSampleError
from tensorlake.loader import SharedStreams, WrittenBatches
from tensorlake.loader.sources.remote.wire import read_batches, wire_columns
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.integration.loaders.streamed_rows import picture
from tests.support.examples import examples
from tests.support.serving import listening

ROWS, BATCH = 60, 2
PLAN: dict[str, Any] = {
    "batch_size": BATCH,
    "shuffle": True,
    "seed": 3,
    "decode": {"image": tl.decode.RandomResizedCrop(16, 16)},
}
# Batches of 1.5 MiB: an epoch is more than sockets and a client hold, so that it waits for readers.
LARGE = PLAN | {"decode": {"image": tl.decode.RandomResizedCrop(512, 512)}}


class Served:
    def __init__(self, root: Path, address: str, streams: SharedStreams) -> None:
        self.root, self.address, self.streams = root, address, streams
        self.reader = self.token("read:pets", "read:damaged")

    def open(self, token: str = "") -> tl.Dataset:
        return tl.open(f"{self.address}/pets", token=token or self.reader)

    def token(self, *scopes: str) -> str:
        auth, now = self.root / "tokens.json", datetime.now(UTC)
        return create_token(auth, name="ana", scopes=scopes, expires=None, now=now)[0]

    def epoch(self, token: str = "", **given: Any) -> list[np.ndarray]:
        with self.open(token).loader(**PLAN | given, decode_on="server") as loader:
            return [batch["image"] for batch in loader]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("shared")
    fill(root / "lake/pets")
    auth = root / "tokens.json"
    create_token(auth, name="ana", scopes=["read:pets"], expires=None, now=datetime.now(UTC))
    app = create_app(Settings(url=str(root / "lake"), auth=auth))
    with listening(app) as address:
        yield Served(root, address, app.state.shared_streams)


@pytest.fixture
def served(server: Served) -> Iterator[Served]:
    server.streams.made = server.streams.sent = 0
    yield server
    for _ in range(600):  # connections of clients that are gone end a little later
        if not server.streams.count:
            return
        threading.Event().wait(0.1)
    pytest.fail("a stream outlived its clients")


def fill(url: Path) -> None:
    rng = np.random.default_rng(0)
    with tl.create(str(url), {"image": tl.Image("png")}) as ds:
        ds.extend({"image": [rng.integers(0, 255, (20, 20, 3), np.uint8) for _ in range(ROWS)]})
        ds.commit("images")


@pytest.fixture(scope="module")
def local(server: Served) -> list[np.ndarray]:
    with tl.open(str(server.root / "lake/pets")).loader(**PLAN) as loader:
        return [batch["image"] for batch in loader]


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def large(server: Served) -> list[np.ndarray]:
    with tl.open(str(server.root / "lake/pets")).loader(**LARGE) as loader:
        return [batch["image"] for batch in loader]


def test_three_clients_at_once_cost_one_decode(served: Served, large: list[np.ndarray]) -> None:
    have_begun = threading.Barrier(3)

    def read(_: int) -> list[np.ndarray]:
        with served.open().loader(**LARGE, decode_on="server", prefetch=1) as loader:
            batches = iter(loader)
            first = next(batches)["image"]
            have_begun.wait(60)
            return [first, *(batch["image"] for batch in batches)]

    with ThreadPoolExecutor(3) as pool:
        epochs = list(pool.map(read, range(3)))

    assert all(equal(one, large) for one in epochs)
    assert served.streams.made == len(large)
    assert served.streams.sent == 3 * len(large)


def test_a_client_that_resumes_a_few_batches_behind_joins(
    served: Served, large: list[np.ndarray]
) -> None:
    with served.open().loader(**LARGE, decode_on="server", prefetch=1) as first:
        ahead = iter(first)
        batches = [next(ahead)["image"] for _ in range(5)]
        state = first.state_dict()
        batches += [next(ahead)["image"] for _ in range(3)]
        with served.open().loader(**LARGE, decode_on="server", prefetch=1) as second:
            second.load_state_dict(state)
            resumed = [batch["image"] for batch in second]
        batches += [batch["image"] for batch in ahead]

    assert equal(batches, large)
    assert equal(resumed, large[5:])
    assert served.streams.made == len(large)


@pytest.mark.parametrize("given", [{"seed": 4}, {"batch_size": 3}, {"rank": 0, "world_size": 2}])
def test_other_plans_do_not_share(served: Served, local: list[np.ndarray], given: Any) -> None:
    with served.open().loader(**PLAN, decode_on="server", prefetch=1) as loader:
        first = iter(loader)
        next(first)
        with tl.open(str(served.root / "lake/pets")).loader(**PLAN | given) as here:
            wanted = [batch["image"] for batch in here]

        assert equal(served.epoch(**given), wanted)
        assert len(list(first)) == len(local) - 1

    assert served.streams.made == len(local) + len(wanted)


def test_other_scopes_do_not_share(served: Served, local: list[np.ndarray]) -> None:
    with served.open().loader(**PLAN, decode_on="server", prefetch=1) as loader:
        next(iter(loader))

        assert equal(served.epoch(served.token("read:pets", "read:cars")), local)

    assert served.streams.made > len(local)


@pytest.mark.slow
def test_clients_killed_and_suspended_hold_up_no_other(
    served: Served, local: list[np.ndarray]
) -> None:
    script = (
        "import sys, tensorlake as tl\n"
        "ds = tl.open(sys.argv[1], token=sys.argv[2])\n"
        f"loader = ds.loader(batch_size={BATCH}, shuffle=True, seed=3, decode_on='server',\n"
        "    decode={'image': tl.decode.RandomResizedCrop(16, 16)}, prefetch=1)\n"
        "for batch in loader:\n"
        "    print(flush=True); sys.stdin.readline()\n"
    )
    arguments = [sys.executable, "-c", script, f"{served.address}/pets", served.reader]
    clients = [
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        for client in clients:
            assert client.stdout is not None
            assert client.stdout.readline()
        clients[0].kill()
        clients[1].send_signal(signal.SIGSTOP)

        assert equal(served.epoch(), local)
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def test_a_damaged_row_is_an_error_of_each_client_and_of_the_next_try(server: Served) -> None:
    images = [picture(number) for number in range(12)]
    images[7] = images[7][: len(images[7]) * 3 // 4] + b"\xff\xd9"
    with tl.create(str(server.root / "lake/damaged"), {"image": tl.Image("jpeg")}) as ds:
        ds.extend({"image": images})
        ds.commit("damaged")
    there = tl.open(f"{server.address}/damaged", token=server.reader)
    given: Any = {"decode": {"image": tl.decode.Resize(16, 16)}, "batch_size": 2}

    for _ in range(2):
        loaders = [there.loader(**given, decode_on="server", prefetch=1) for _ in range(2)]
        passes = [iter(loader) for loader in loaders]
        for _ in range(3):
            one, other = (next(one)["image"] for one in passes)
            assert np.array_equal(one, other)
        for one in passes:
            with pytest.raises(CorruptSampleError, match="row 7"):
                next(one)
        for loader in loaders:
            loader.close()


@pytest.fixture(scope="module")
def numbers() -> Iterator[tl.Dataset]:
    with tl.create("memory://shared-numbers", {"x": "int64"}) as ds:
        ds.extend({"x": range(20)})
        ds.commit("numbers")
        yield ds


@examples(25)
@given(
    turns=st.lists(st.integers(0, 2), max_size=80),
    starts=st.tuples(st.just(0), st.integers(0, 9), st.integers(0, 9)),
    kept=st.integers(1, 6),
    nbytes=st.sampled_from([1, 3_000, 1 << 20]),
)
def test_every_member_gets_its_batches_whatever_the_pace(
    numbers: tl.Dataset, turns: list[int], starts: Any, kept: int, nbytes: int
) -> None:
    streams = SharedStreams(kept=kept, nbytes=nbytes)
    arguments = {"batch_size": 2}
    whole = serve_loader(numbers, arguments, state=None)
    state = whole.state_dict()

    def begin(number: int) -> Any:
        loader = serve_loader(numbers, arguments, state=state | {"position": 2 * number})
        return loader, WrittenBatches(loader, lambda error: {"detail": str(error)})

    members = [streams.enter("plan", start, begin) for start in starts]
    sent = [[b""] for _ in members]
    for number in turns:
        sent[number].append(members[number].next().content)
    for number, member in enumerate(members):
        while piece := member.next().content:
            sent[number].append(piece)
        member.leave()

    wire = wire_columns(whole.columns, with_valid=False)
    for start, pieces in zip(starts, sent, strict=True):
        content = io.BytesIO(b"".join(pieces))
        found = [batch["x"].tolist() for batch, *_ in read_batches(content, wire)] if pieces else []
        assert found == [[2 * at, 2 * at + 1] for at in range(start, 10)]
    assert streams.count == 0
    assert 0 <= streams.made <= streams.sent
