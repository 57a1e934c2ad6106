"""Searches of a store that is far away: round trips and bytes of the first one."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on

ROWS = 40_000
random = np.random.default_rng(0)
CENTRES = random.standard_normal((200, 64)).astype(np.float32)
VECTORS = CENTRES[random.integers(0, 200, ROWS)] + 0.4 * random.standard_normal((ROWS, 64))


class DistantStore:
    """A store that counts requests, bytes, and round trips: requests that begin while none runs."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.is_local = False
        self.rounds = self.nbytes = self._running = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def counted(*given: Any, **named: Any) -> Any:
            self.rounds += self._running == 0
            self._running += 1
            try:
                for _ in range(20):  # until all that begin together have begun
                    await asyncio.sleep(0)
                answer = await found(*given, **named)
            finally:
                self._running -= 1
            parts = answer if isinstance(answer, list) else [answer]
            self.nbytes += sum(len(one) for one in parts if hasattr(one, "__len__"))
            return answer

        return counted


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    made = MemoryStore()
    dataset = create_on(made, {"vec": tl.Embedding(64), "text": "str", "n": "int64"})
    words = random.zipf(1.3, (ROWS, 3)) % 5000
    dataset.extend(
        {
            "vec": VECTORS.astype(np.float32),
            "text": [f"w{one} w{two} w{three}" for one, two, three in words],
            "n": random.integers(0, 10**6, ROWS),
        }
    )
    dataset.create_index("vec")
    dataset.create_index("text", "text")
    dataset.create_index("n")
    dataset.commit()
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "rounds", "nbytes"),
    [
        (("search", "vec", VECTORS[5], 10), 3, 600_000),
        (("search", "text", "w17 w3", 10), 3, 600_000),
        (("query", "WHERE MATCH(text, 'w17 w3')"), 3, 600_000),
        (("query", "WHERE n >= 500 AND n < 700"), 4, 400_000),
    ],
    ids=["vectors", "texts", "words", "numbers"],
)
def test_a_first_search_takes_few_round_trips(
    store: MemoryStore, asked: tuple[Any, ...], rounds: int, nbytes: int
) -> None:
    distant: Any = DistantStore(store)
    dataset = open_on(distant)
    len(dataset)
    distant.rounds = distant.nbytes = 0

    found = getattr(dataset, asked[0])(*asked[1:])

    assert len(found) > 0
    assert distant.rounds <= rounds
    assert distant.nbytes <= nbytes


def test_a_second_search_reads_only_new_lists(store: MemoryStore) -> None:
    distant: Any = DistantStore(store)
    dataset = open_on(distant)
    dataset.search("vec", VECTORS[5], 10)
    distant.rounds = distant.nbytes = 0

    dataset.search("vec", VECTORS[77], 10)

    assert distant.rounds <= 2  # codes with int8 numbers; vectors with their headers
    assert distant.nbytes <= 500_000
