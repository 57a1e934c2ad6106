"""Making datasets: once, whoever else does, on stores that can decide between two writers."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedStoreError
from tensorlake.format import DESCRIPTOR
from tensorlake.storage import Data, MemoryStore, run
from tensorlake.testing import Fault, FaultyStore
from tests.support.damage import objects_of
from tests.support.handles import create_on, open_on

NAMES = tuple(f"{'long':_<200} {number}" for number in range(200))
"""Of classes: 40 kB, so a schema that has them is a page of a pack."""


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


@pytest.mark.parametrize("fault", [Fault.NOT_STORED, Fault.ANSWER_LOST, Fault.LANDS_LATER])
@pytest.mark.parametrize("path", [DESCRIPTOR, "packs/", "branches/main/"])
def test_a_store_that_does_not_say_how_a_write_went_ends_no_creation(fault, path):
    memory = MemoryStore()
    store = FaultyStore(memory)
    store.inject(fault, call="put_if_absent", path=path)

    ds = create_on(store, {"x": "int64", "label": tl.ClassLabel(NAMES)})
    assert any(name.startswith("packs/") for name in objects_of(memory))
    ds.append({"x": 3, "label": NAMES[-1]})
    ds.commit("row")

    assert open_on(store)["x"][:].tolist() == [3]
    assert open_on(store)["label"].names == NAMES


@pytest.mark.parametrize("fault", [Fault.NOT_STORED, Fault.ANSWER_LOST, Fault.LANDS_LATER])
def test_a_store_that_does_not_say_how_a_write_went_ends_no_tag_view_or_branch(fault):
    store = FaultyStore(MemoryStore())
    ds = create_on(store, {"x": "int64"})
    ds.extend({"x": range(9)})
    ds.commit("rows")
    for name, make in (
        ("tag", ds.tag),
        ("view", lambda name: ds.where("x > 5").save(name)),
        ("pin-", lambda _: ds.branch("branch")),
    ):
        store.inject(fault, call="put_if_absent", path=f"tags/{name}")
        make(name)

    again = open_on(store)
    assert list(again.tags) == ["tag"]
    assert again.views["view"]["x"][:].tolist() == [6, 7, 8]
    assert again.at("branch")["x"][:].tolist() == list(range(9))


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
