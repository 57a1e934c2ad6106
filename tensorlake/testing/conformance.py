"""The requirements of every store, as a test suite to inherit.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self):
            return MyStore(...)          # empty at the start of each test

Each test is one clause of the `Store` protocol.  Commits rely on all of them: a store that fails
one loses data, however rarely.
"""

# ruff: noqa: D102 - a test's name is its claim

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tensorlake.errors import CorruptionError, InvalidInputError, StorageError
from tensorlake.storage import (
    MissingObjectError,
    ObjectExistsError,
    ObjectMeta,
    Store,
    probe,
    run,
)

WRITERS = 16


class StoreConformance:
    """The clauses of the `Store` protocol, one per test; subclasses define the fixture `store`."""

    @pytest.fixture
    def store(self) -> Store:
        """Return an empty store."""
        raise NotImplementedError("a subclass of StoreConformance defines the fixture 'store'")

    def test_object_reads_back_as_written(self, store: Store) -> None:
        run(store.put_if_absent("packs/3f/a.tlp", b"pack"))

        assert run(store.get("packs/3f/a.tlp")) == b"pack"

    def test_pieces_are_written_one_after_another(self, store: Store) -> None:
        pieces = [b"ab", bytearray(b"cd"), memoryview(b"xefx")[1:3], b""]

        run(store.put_if_absent("pieces", pieces))

        assert run(store.get("pieces")) == b"abcdef"

    def test_no_pieces_make_an_empty_object(self, store: Store) -> None:
        run(store.put_if_absent("empty", []))

        assert run(store.get("empty")) == b""
        assert _meta(store, "empty").nbytes == 0

    def test_large_object_reads_back_as_written(self, store: Store) -> None:
        data = bytes(range(256)) * 4096 * 6  # 6 MiB: above the multipart threshold of clients

        run(store.put_if_absent("large", data))

        assert run(store.get("large")) == data
        assert (
            bytes(run(store.get_range("large", 5_000_000, 6_000_000))) == data[5_000_000:6_000_000]
        )

    def test_absent_object_is_none(self, store: Store) -> None:
        assert run(store.get("branches/main/00000000.json")) is None
        assert run(store.head("branches/main/00000000.json")) is None

    def test_folder_is_no_object(self, store: Store) -> None:
        run(store.put_if_absent("a/b/c", b"1"))

        assert run(store.get("a/b")) is None
        assert run(store.head("a/b")) is None

    def test_second_put_if_absent_fails_and_changes_nothing(self, store: Store) -> None:
        run(store.put_if_absent("entry", b"first"))

        with pytest.raises(ObjectExistsError, match="'entry'"):
            run(store.put_if_absent("entry", b"second"))

        assert run(store.get("entry")) == b"first"

    def test_one_of_many_writers_wins(self, store: Store) -> None:
        for round_number in range(5):
            path = f"branches/main/{round_number}"
            start = threading.Barrier(WRITERS)

            def write(writer: int, path: str = path, start: threading.Barrier = start) -> bool:
                start.wait(timeout=60)
                try:
                    run(store.put_if_absent(path, b"%d" % writer))
                except ObjectExistsError:
                    return False
                return True

            with ThreadPoolExecutor(WRITERS) as threads:
                outcomes = [*threads.map(write, range(WRITERS))]

            assert outcomes.count(True) == 1
            assert run(store.get(path)) == b"%d" % outcomes.index(True)

    def test_a_fleeting_object_is_written_once_too(self, store: Store) -> None:
        run(store.put_if_absent("probe", b"first", durable=False))

        with pytest.raises(ObjectExistsError):
            run(store.put_if_absent("probe", b"second", durable=False))
        assert run(store.get("probe")) == b"first"

    def test_an_object_is_seen_after_what_it_waits_for(self, store: Store) -> None:
        called: list[str] = []

        run(store.put_if_absent("entry", b"whole", after=lambda: called.append("once")))

        assert called == ["once"]
        assert run(store.get("entry")) == b"whole"

    def test_an_object_is_never_seen_when_what_it_waits_for_fails(self, store: Store) -> None:
        def fail() -> None:
            raise StorageError("the pack is lost")

        with pytest.raises(StorageError, match="the pack is lost"):
            run(store.put_if_absent("branches/main/1", b"entry", after=fail))

        assert run(store.get("branches/main/1")) is None
        assert _paths(store, "") == []
        run(store.put_if_absent("branches/main/1", b"another"))

    def test_a_taken_name_is_refused_whatever_it_waits_for(self, store: Store) -> None:
        run(store.put_if_absent("entry", b"first"))

        with pytest.raises(ObjectExistsError):
            run(store.put_if_absent("entry", b"second", after=lambda: None))

        assert run(store.get("entry")) == b"first"

    def test_objects_are_synced_together(self, store: Store) -> None:
        for path in ("packs/3f/a.tlp", "packs/3f/b.tlp", "packs/40/c.tlp"):
            run(store.put_if_absent(path, path.encode(), durable=False))

        run(store.sync(["packs/3f/a.tlp", "packs/40/c.tlp"]))
        run(store.sync(["packs/3f/a.tlp"]))  # by who found it there
        run(store.sync([]))

        assert run(store.get("packs/40/c.tlp")) == b"packs/40/c.tlp"

    def test_put_replaces(self, store: Store) -> None:
        run(store.put("HEAD", b"a longer hint"))
        run(store.put("HEAD", b"hint", durable=False))

        assert run(store.get("HEAD")) == b"hint"

    def test_range_is_exact(self, store: Store) -> None:
        run(store.put_if_absent("pack", b"0123456789"))

        assert bytes(run(store.get_range("pack", 0, 10))) == b"0123456789"
        assert bytes(run(store.get_range("pack", 3, 4))) == b"3"
        assert bytes(run(store.get_range("pack", 5, 5))) == b""

    @pytest.mark.parametrize(("start", "stop"), [(5, 11), (9, 20), (10, 11), (50, 60)])
    def test_range_past_the_end_is_corruption(self, store: Store, start: int, stop: int) -> None:
        run(store.put_if_absent("pack", b"0123456789"))

        with pytest.raises(CorruptionError, match="'pack'"):
            run(store.get_range("pack", start, stop))

    def test_range_of_absent_object_is_missing(self, store: Store) -> None:
        with pytest.raises(MissingObjectError, match=r"'packs/00/gone\.tlp'"):
            run(store.get_range("packs/00/gone.tlp", 0, 4))

    @pytest.mark.parametrize(("start", "stop"), [(-1, 4), (4, 3)])
    def test_impossible_range_is_refused(self, store: Store, start: int, stop: int) -> None:
        run(store.put_if_absent("pack", b"0123456789"))

        with pytest.raises(InvalidInputError):
            run(store.get_range("pack", start, stop))

    def test_ranges_come_in_the_order_asked(self, store: Store) -> None:
        data = bytes(range(256)) * 2048
        run(store.put_if_absent("pack", data))
        ranges = [(400_000, 400_003), (7, 7), (0, 10), (5, 15), (0, 10), (524_280, 524_288)]

        found = run(store.get_ranges("pack", ranges))

        assert [bytes(piece) for piece in found] == [data[start:stop] for start, stop in ranges]

    def test_short_object_among_ranges_is_corruption(self, store: Store) -> None:
        run(store.put_if_absent("pack", b"0123456789"))

        with pytest.raises(CorruptionError):
            run(store.get_ranges("pack", [(0, 4), (8, 12)]))

    def test_no_ranges_are_no_work(self, store: Store) -> None:
        run(store.put_if_absent("pack", b"0123456789"))

        assert run(store.get_ranges("pack", [])) == []

    def test_head_tells_size_and_time(self, store: Store) -> None:
        run(store.put_if_absent("pack", b"0123456789"))

        meta = _meta(store, "pack")

        assert (meta.path, meta.nbytes) == ("pack", 10)
        assert abs(meta.modified - datetime.now(UTC)) < timedelta(minutes=1)

    def test_a_read_tells_the_time_of_the_object_where_it_is_told(self, store: Store) -> None:
        run(store.put_if_absent("entry", b"0123456789"))

        found = run(store.read("entry"))

        assert found is not None
        assert found.data == b"0123456789"
        assert found.modified in (None, _meta(store, "entry").modified)
        assert run(store.read("nothing")) is None

    def test_now_is_by_the_store_s_clock(self, store: Store) -> None:
        run(store.put_if_absent("pack", b"0123456789"))

        assert abs(run(store.now()) - _meta(store, "pack").modified) < timedelta(minutes=1)

    def test_list_is_in_the_order_of_paths(self, store: Store) -> None:
        paths = ["a/0", "a/b/c", "a/b.json", "a/b0", "a-b", "b/x", "a/b/a"]
        for path in paths:
            run(store.put_if_absent(path, b"1"))

        assert _paths(store, "") == sorted(paths)

    def test_list_keeps_to_its_prefix(self, store: Store) -> None:
        for path in [
            "tags/pin-1.json",
            "tags/pin-2.json",
            "tags/v1.json",
            "tags/pip",
            "tagsx/pin-3",
        ]:
            run(store.put_if_absent(path, b"1"))

        assert _paths(store, "tags/") == [
            "tags/pin-1.json",
            "tags/pin-2.json",
            "tags/pip",
            "tags/v1.json",
        ]
        assert _paths(store, "tags/pin-") == ["tags/pin-1.json", "tags/pin-2.json"]
        assert _paths(store, "tags/v1.json") == ["tags/v1.json"]
        assert _paths(store, "branches/") == []

    def test_list_tells_what_head_tells(self, store: Store) -> None:
        run(store.put_if_absent("packs/3f/a.tlp", b"0123"))

        assert _list(store, "packs/") == [_meta(store, "packs/3f/a.tlp")]

    def test_list_sees_what_was_written_before_it(self, store: Store) -> None:
        for number in range(20):
            run(store.put_if_absent(f"branches/main/{number:08d}.json", b"1"))

            assert len(_paths(store, "branches/main/")) == number + 1

    def test_folders_are_those_that_hold_objects(self, store: Store) -> None:
        for path in ("b/x/1", "b/x/2", "b/y", "a-b/1", "a/1", "file", "gone/1"):
            run(store.put_if_absent(path, b"1"))
        run(store.delete("gone/1"))

        assert [*run(store.folders(""))] == ["a", "a-b", "b"]
        assert [*run(store.folders("b/"))] == ["x"]
        assert [*run(store.folders("absent/"))] == []

    def test_deleted_object_is_gone(self, store: Store) -> None:
        run(store.put_if_absent("packs/3f/a.tlp", b"0123"))

        run(store.delete("packs/3f/a.tlp"))

        assert run(store.get("packs/3f/a.tlp")) is None
        assert _paths(store, "") == []

    def test_deleting_nothing_is_fine(self, store: Store) -> None:
        run(store.delete("packs/3f/a.tlp"))

        assert _paths(store, "") == []

    def test_deleted_name_can_be_written_again(self, store: Store) -> None:
        run(store.put_if_absent("a/b", b"first"))
        run(store.delete("a/b"))

        run(store.put_if_absent("a/b", b"second"))

        assert run(store.get("a/b")) == b"second"

    @pytest.mark.parametrize("path", ["", "/a", "a//b", "../a", "a/../../b", "a/.", "a\0b", "a\\b"])
    def test_path_outside_of_the_store_is_refused(self, store: Store, path: str) -> None:
        with pytest.raises(InvalidInputError, match="path"):
            run(store.put_if_absent(path, b"1"))
        with pytest.raises(InvalidInputError, match="path"):
            run(store.get(path))

    def test_clone_sees_the_same_objects(self, store: Store) -> None:
        run(store.put_if_absent("a", b"1"))

        twin = store.clone()
        run(twin.put_if_absent("b", b"2"))

        assert twin.url == store.url
        assert run(twin.get("a")) == b"1"
        assert run(store.get("b")) == b"2"

    def test_mapping_is_the_object_or_not_offered(self, store: Store) -> None:
        run(store.put_if_absent("pack", b"0123456789"))

        view = store.map_range("pack", 2, 5)

        assert (view is not None) == store.is_local
        assert view is None or bytes(view) == b"234"

    def test_reading_into_memory_is_the_object_or_not_offered(self, store: Store) -> None:
        run(store.put_if_absent("pack", b"0123456789"))
        memory = bytearray(b"......")

        is_here = store.read_into("pack", 2, [memoryview(memory)[:1], memoryview(memory)[2:5]])

        assert is_here == store.is_local
        assert bytes(memory) == (b"2.345." if is_here else b"......")

    def test_many_reads_at_once_are_all_right(self, store: Store) -> None:
        data = bytes(range(256)) * 16
        run(store.put_if_absent("pack", data))

        def read(start: int) -> bytes:
            return bytes(run(store.get_range("pack", start, start + 64)))

        starts = [*range(0, 4032, 61)]
        with ThreadPoolExecutor(8) as threads:
            found = [*threads.map(read, starts)]

        assert found == [data[start : start + 64] for start in starts]

    def test_probe_accepts_the_store_and_leaves_nothing(self, store: Store) -> None:
        run(probe(store))

        assert _paths(store, "") == []


def _meta(store: Store, path: str) -> ObjectMeta:
    meta = run(store.head(path))
    assert meta is not None
    return meta


def _list(store: Store, prefix: str) -> list[ObjectMeta]:
    async def collect() -> list[ObjectMeta]:
        return [meta async for meta in store.list(prefix)]

    return run(collect())


def _paths(store: Store, prefix: str) -> list[str]:
    return [meta.path for meta in _list(store, prefix)]
