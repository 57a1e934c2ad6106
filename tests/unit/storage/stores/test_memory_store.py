"""The in-process store: conformance, and what is its own."""

import pytest

from tensorlake.storage import MemoryStore, Store, open_store, run
from tensorlake.testing import StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestMemoryStoreBelowAPrefix(StoreConformance):
    @pytest.fixture
    def store(self, request) -> Store:
        return open_store(f"memory://{request.node.name}/lake/pets")


def test_stores_of_one_name_share_objects():
    run(open_store("memory://shared").put_if_absent("a", b"1"))

    assert run(open_store("memory://shared").get("a")) == b"1"
    assert run(open_store("memory://other").get("a")) is None


def test_nameless_stores_share_nothing():
    run(MemoryStore().put_if_absent("a", b"1"))

    assert run(MemoryStore().get("a")) is None


def test_prefix_is_a_folder_of_the_named_store():
    run(open_store("memory://prefixed/lake/pets").put_if_absent("a", b"1"))

    assert run(open_store("memory://prefixed").get("lake/pets/a")) == b"1"
    assert run(open_store("memory://prefixed/lake").get("pets/a")) == b"1"


def test_read_range_copies_nothing():
    store = MemoryStore()
    run(store.put_if_absent("a", b"0123456789"))

    first, second = run(store.get_ranges("a", [(0, 4), (2, 6)]))

    assert first.obj is second.obj
