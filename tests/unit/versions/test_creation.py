"""Making datasets: once, whoever else does, on stores that can decide between two writers."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tensorlake.errors import InvalidInputError, UnsupportedStoreError
from tensorlake.format import DESCRIPTOR
from tensorlake.storage import Data, MemoryStore, run
from tests.handles import create_on, open_on


class CarelessStore(MemoryStore):
    """As S3-compatible servers were that took `If-None-Match` and ignored it."""

    async def put_if_absent(self, path: str, data: Data, **_promises: Any) -> None:
        await self.put(path, data)


def test_a_store_that_cannot_decide_between_writers_is_refused():
    """Test 27; nothing is left behind that looks like a dataset."""
    store = CarelessStore()

    with pytest.raises(UnsupportedStoreError, match="overwrite"):
        create_on(store, {"x": "int64"})

    assert run(store.head(DESCRIPTOR)) is None


def test_of_many_creators_one_succeeds_and_the_others_are_told():
    store = MemoryStore()

    def create(number: int) -> bool:
        try:
            create_on(store, {f"x{number}": "int64"})
        except InvalidInputError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create, range(8)))

    assert sum(made) == 1
    assert list(open_on(store).schema) == [f"x{made.index(True)}"]
