"""The probe refuses stores that cannot decide between two writers."""

import pytest

from tensorlake.errors import UnsupportedStoreError
from tensorlake.storage import MemoryStore, ObjectExistsError, probe, run


class IgnoresTheCondition(MemoryStore):
    """As S3-compatible servers that accept If-None-Match and ignore it."""

    async def put_if_absent(self, path, data, **_promises):
        await self.put(path, data)


class DecidesForNobody(MemoryStore):
    """Only the very first writer of all ever wins."""

    wins = 1

    async def put_if_absent(self, path, data, **promises):
        if self.wins == 0:
            raise ObjectExistsError("taken")
        self.wins -= 1
        await super().put_if_absent(path, data, **promises)


class WritesBeforeItRefuses(MemoryStore):
    async def put_if_absent(self, path, data, **_promises):
        taken = await self.get(path) is not None
        await self.put(path, data)
        if taken:
            raise ObjectExistsError("taken")


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (IgnoresTheCondition(), "a second write of one name replaced the first"),
        (WritesBeforeItRefuses(), "a refused write changed the object"),
        (DecidesForNobody(), "of 8 writers of one name 0 succeeded"),
    ],
)
def test_store_that_cannot_decide_is_refused(store, reason):
    with pytest.raises(UnsupportedStoreError, match=reason):
        run(probe(store))

    assert store._objects == {}
