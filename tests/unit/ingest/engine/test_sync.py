"""What a sync does where a hand, a store or a source that changes meanwhile comes into it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.sync import ledger
from tensorlake.dataset.sync.digests import CELL_GROUPS
from tensorlake.dataset.sync.ledger import ITEMS, Ledger
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source
from tests.support.sources import write
from tests.unit.ingest.vision.test_annotations import jpeg

Cells = dict[str, int]


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


@pytest.fixture
def photos(tmp_path) -> Path:
    for number in range(4):
        write(
            tmp_path / "photos" / ("cat" if number < 2 else "dog") / f"{number}.jpg", jpeg(number)
        )
    return tmp_path / "photos"


def source(items: dict[str, Cells], stamps: dict[str, int] | None = None) -> Source[str]:
    """A source of a row per item, compared by its cells unless by stamps."""
    names = next(iter(items.values())).keys()

    def load(some: Sequence[str]) -> dict[str, Any]:
        return {cell: [items[name][cell] for name in some] for cell in names}

    return Source(
        kind="test",
        schema=dict.fromkeys(names, "int64"),
        items=[*items],
        sizes=[1] * len(items),
        name=lambda name: name,
        stamp=lambda name: stamps[name] if stamps else items[name],
        load=load,
    )


def by_hand(url: str, **cells: Any) -> None:
    with tl.open(url) as ds:
        for name, (row, value) in cells.items():
            ds[name][row] = value
        ds.commit("by hand")


def test_the_other_cells_of_a_conflict_are_updated_and_it_is_reported_until_decided(photos, url):
    tl.ingest.images(photos, url)
    by_hand(url, label=(1, "dog"))
    write(photos / "cat" / "1.jpg", jpeg(71))

    for _ in range(2):
        ds = tl.ingest.images(photos, url)
        (conflict,) = ds.ingest_report.conflicts
        assert (conflict.item, conflict.row, conflict.tensor) == ("cat/1.jpg", 1, "label")
        assert ds.ingest_report.items == [conflict]
        assert (ds[1]["label"], ds["image"].bytes(1)) == (1, jpeg(71))
    ds = tl.ingest.images(photos, url, on_conflict="source")

    assert ds[1]["label"] == 0
    assert tl.ingest.images(photos, url).ingest_report.conflicts == []


def test_a_conflict_that_is_an_error_changes_nothing(photos, url):
    tl.ingest.images(photos, url)
    by_hand(url, label=(1, "dog"))
    write(photos / "cat" / "1.jpg", jpeg(71))
    write(photos / "cat" / "new.jpg", jpeg(9))

    with pytest.raises(tl.ConflictError, match=r"'cat/1\.jpg' \(row 1\), tensor 'label': changed"):
        tl.ingest.images(photos, url, on_conflict="error")

    with tl.open(url) as ds:
        assert (ds.version, len(ds), ds.has_changes) == ("main@2", 4, False)


def test_the_same_change_on_both_sides_is_no_conflict(url):
    items = {"a": {"x": 1, "y": 1}, "b": {"x": 2, "y": 2}}
    run_ingest(source(items), url)
    by_hand(url, y=(1, 7))

    report = run_ingest(source(items | {"b": {"x": 2, "y": 7}}), url).ingest_report

    assert (report.conflicts, report.updated, report.unchanged) == ([], 0, 2)


def test_a_row_deleted_by_hand_stays_deleted_until_the_source_is_taken(photos, url):
    tl.ingest.images(photos, url)
    with tl.open(url) as ds:
        ds.delete([2])
        ds.commit("by hand")

    report = tl.ingest.images(photos, url).ingest_report
    back = tl.ingest.images(photos, url, on_conflict="source")

    assert [(one.item, one.row) for one in report.conflicts] == [("dog/2.jpg", None)]
    assert (report.unchanged, report.commits) == (3, [])
    assert [back["image"].bytes(row) for row in range(4)] == [jpeg(n) for n in (0, 1, 3, 2)]


def test_a_row_changed_by_hand_is_not_deleted_with_its_item(photos, url):
    tl.ingest.images(photos, url)
    by_hand(url, label=(1, "dog"))
    for number in range(2):
        (photos / "cat" / f"{number}.jpg").unlink()

    ds = tl.ingest.images(photos, url, delete=True)

    assert (ds.ingest_report.vanished, ds.ingest_report.deleted, len(ds)) == (2, 1, 3)
    assert [one.item for one in ds.ingest_report.conflicts] == ["cat/1.jpg"]
    assert len(tl.ingest.images(photos, url, delete=True, on_conflict="source")) == 2


def test_boxes_and_labels_of_an_image_are_brought_together_or_not_at_all(tmp_path, url):
    """A label corrected by hand is one of two; the source then has three boxes."""
    write(tmp_path / "p" / "0.jpg", jpeg(0))

    def annotated(count: int) -> None:
        document = {
            "images": [{"id": 1, "file_name": "0.jpg"}],
            "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
            "annotations": [
                {"id": n, "image_id": 1, "category_id": 1, "bbox": [n, 0, 2, 2]}
                for n in range(count)
            ],
        }
        (tmp_path / "a.json").write_text(json.dumps(document))

    def ingest(**options: Any) -> tl.Dataset:
        return tl.ingest.coco(tmp_path / "a.json", tmp_path / "p", url, **options)

    annotated(2)
    ingest()
    by_hand(url, label=(0, ["cat", "dog"]))
    annotated(3)

    kept = ingest()
    assert (len(kept[0]["boxes"]), kept[0]["label"].as_names()) == (2, ["cat", "dog"])
    assert {"boxes", "label"} <= {one.tensor for one in kept.ingest_report.conflicts}
    taken = ingest(on_conflict="source")
    assert (len(taken[0]["boxes"]), taken[0]["label"].as_names()) == (3, ["cat"] * 3)


def test_a_change_that_keeps_size_and_time_is_found_by_digest(photos, url):
    tl.ingest.images(photos, url)
    path = photos / "cat" / "1.jpg"
    before = path.stat()
    changed = bytearray(path.read_bytes())
    changed[-3] ^= 1  # the last byte of the scan
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert tl.ingest.images(photos, url).ingest_report.unchanged == 4
    report = tl.ingest.images(photos, url, verify=True).ingest_report
    assert (report.updated, report.unchanged) == (1, 3)


def test_pieces_that_keep_their_stamp_are_compared_by_digest(url):
    rows = [(1.0, 2), (2.0, 3)]
    tl.ingest.torch(rows, url, names=("x", "y"))

    assert tl.ingest.torch(rows, url, names=("x", "y"), verify=True).ingest_report.unchanged == 2
    with pytest.raises(tl.InvalidInputError, match="known by position"):
        tl.ingest.torch([(1.0, 2), (2.0, 4)], url, names=("x", "y"), verify=True)


def test_a_file_that_changes_while_it_is_read_is_read_again_by_the_next_run(url):
    items = {name: {"x": 1} for name in "abc"}
    stamps = dict.fromkeys(items, 1)
    first = source(items, stamps)

    def load(some: Sequence[str]) -> dict[str, Any]:
        items["b"], stamps["b"] = {"x": 2}, 2
        read = {"x": [items[name]["x"] for name in some]}
        items["b"], stamps["b"] = {"x": 3}, 3
        return read

    object.__setattr__(first, "load", load)
    run_ingest(first, url)

    ds = run_ingest(source(items, stamps), url)

    assert (ds["x"][:].tolist(), ds.ingest_report.updated) == ([1, 3, 1], 1)


def test_items_below_a_folder_that_was_left_out_did_not_vanish(url):
    items = {"a/1": {"x": 1}, "a/2": {"x": 2}, "b": {"x": 3}, "c": {"x": 4}}
    run_ingest(source(items), url)
    rest = source({"b": {"x": 3}})
    object.__setattr__(rest, "left_out", [tl.ingest.SkippedItem("a", "it cannot be read")])

    ds = run_ingest(rest, url, delete=True, on_error="skip")

    assert (ds["x"][:].tolist(), ds.ingest_report.vanished) == ([1, 2, 3], 1)


def test_tensors_beyond_the_digests_of_a_row_share_them(url):
    names = [f"t{number}" for number in range(2 * CELL_GROUPS + 1)]
    items = {key: {name: at for at, name in enumerate(names)} for key in "ab"}
    run_ingest(source(items), url)
    by_hand(url, t1=(0, 90))
    changed = items | {"a": items["a"] | {"t2": 91}, "b": items["b"] | {"t16": 92}}

    ds = run_ingest(source(changed), url)

    assert (ds["t1"][0], ds["t2"][0], ds["t16"][1]) == (90, 91, 92)
    assert ds.ingest_report.updated == 2


def test_items_with_one_name_are_told_apart_by_their_order(url):
    def twice(values: list[int]) -> Source[int]:
        return Source(
            kind="test",
            schema={"x": "int64"},
            items=range(len(values)),
            sizes=[1] * len(values),
            name=lambda _: "same",
            stamp=lambda at: values[at],
            load=lambda some: {"x": [values[at] for at in some]},
        )

    run_ingest(twice([1, 2]), url)
    ds = run_ingest(twice([1, 3, 4]), url)

    assert (ds["x"][:].tolist(), ds.ingest_report.updated) == ([1, 3, 4], 1)


def test_names_that_are_not_text_are_known_again(url):
    items = {"caf\udce9.jpg": {"x": 1}, "größe.jpg": {"x": 2}}
    run_ingest(source(items), url)

    assert run_ingest(source(items), url).ingest_report.unchanged == 2


def test_one_changed_item_rewrites_one_chunk(url):
    items = {f"{number:05}": {"x": number} for number in range(3000)}
    ds = run_ingest(source(items), url, commit_every=1000)
    before = extents(ds, "x")

    ds = run_ingest(source(items | {"01500": {"x": -1}}), url)

    assert len(before) == 3
    assert len(extents(ds, "x") - before) == 1
    assert ds["x"][1500] == -1


def test_many_changed_items_of_one_chunk_rewrite_it_once(tmp_path):
    items = {f"{number:05}": {"x": number * 7919 % 100_003} for number in range(3000)}
    target = tmp_path / "a.tl"
    run_ingest(source(items), str(target), durability="none").close()
    before = nbytes_below(target)
    changed = {name: {"x": -1 - one["x"]} for name, one in items.items() if int(name) % 10 == 0}

    ds = run_ingest(source(items | changed), str(target), durability="none")

    assert (ds.ingest_report.updated, ds["x"][10]) == (300, -1 - items["00010"]["x"])
    assert nbytes_below(target) < 2 * before


def nbytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def extents(ds: tl.Dataset, tensor: str) -> set[int]:
    """The checksums of a tensor's chunks."""
    snapshot = session_of(ds).snapshot()
    return {*snapshot.extents(snapshot.spec(tensor).id).checksum.tolist()}


def test_a_call_counts_only_what_it_published_itself(url):
    items = {"a": {"x": 0}}
    run_ingest(source(items), url)
    items |= {"b": {"x": 1}, "c": {"x": 2}}
    mine = source(items)
    others: list[Any] = []

    def load(some: Sequence[str]) -> Any:
        if not others:
            others.append(run_ingest(source(items), url).ingest_report)
        return mine.load(some)

    report = run_ingest(replace(mine, load=load), url).ingest_report

    assert (others[0].added, others[0].unchanged, others[0].rows) == (2, 1, 2)
    assert (report.added, report.unchanged, report.rows) == (0, 3, 0)
    assert (report.commits, report.already_there) == ([], 3)
    assert np.asarray(tl.open(url)["x"][:]).tolist() == [0, 1, 2]


def test_the_ledger_is_written_anew_when_it_has_many_chunks(url, monkeypatch):
    monkeypatch.setattr(ledger, "MAX_CHUNKS", 4)
    items = {"a": {"x": 0}}
    for number in range(6):
        items["a"] = {"x": number}
        ds = run_ingest(source(items), url)

    reader = session_of(ds).group(ITEMS)
    assert reader is not None
    assert reader.snapshot.num_rows < 5
    assert [*Ledger(session_of(ds)).entries(0).items] == ["a"]
    assert np.asarray(ds["x"][:]).tolist() == [5]


def test_the_ledger_takes_at_most_a_hundred_bytes_per_item(tmp_path):
    """Of a folder of 20,000 images, whose rows are small."""
    items = {f"class{n % 100:03}/image_{n:08}.jpg": {"x": 0} for n in range(20_000)}
    stamps = {name: 1_700_000_000_000_000_000 + 7919 * n * n for n, name in enumerate(items)}
    target = tmp_path / "a.tl"

    run_ingest(source(items, stamps), str(target), durability="none").close()

    assert nbytes_below(target) < 100 * len(items)
