"""Twelve changes of a source, or by hand, and the words that a curator reads after each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tensorlake as tl
from tests.support.sources import write
from tests.unit.ingest.vision.test_annotations import jpeg

CONFLICT = "  conflict: cat/0.jpg, row 0, 'label': changed by hand, and at its source: "
BROKEN = (
    "  rejected: cat/1.jpg, 'image': 'image' cannot take a sample (4 bytes), not a whole JPEG: it"
    " does not begin with a JPEG's FF D8; its row stays as it was"
)
DELETED = (
    "  conflict: cat/0.jpg: its row was deleted by hand, and the source has it: the dataset stays"
    " as it is"
)


def relabel(ds: tl.Dataset) -> None:
    ds["label"][0] = "dog"


def delete_first(ds: tl.Dataset) -> None:
    ds.delete([0])


def nothing(_: object) -> None:
    pass


def added(folder: Path) -> None:
    write(folder / "cat/7.jpg", jpeg(7))


def corrected(folder: Path) -> None:
    write(folder / "cat/0.jpg", jpeg(8))


def touched(folder: Path) -> None:
    for file in folder.rglob("*.jpg"):
        os.utime(file)


def moved(folder: Path) -> None:
    (folder / "cat/1.jpg").rename(folder / "dog/1.jpg")


def removed(folder: Path) -> None:
    (folder / "dog/3.jpg").unlink()


def of_a_new_class(folder: Path) -> None:
    write(folder / "fox/1.jpg", jpeg(9))


def damaged(folder: Path) -> None:
    write(folder / "cat/1.jpg", b"torn")


Case = tuple[Callable[[Path], None], Callable[[tl.Dataset], None], dict[str, object], str]
CASES: dict[str, Case] = {
    "unchanged": (nothing, nothing, {}, "0 images added, 4 unchanged"),
    "added": (added, nothing, {}, "1 image added, 4 unchanged\n  added: cat/7.jpg"),
    "corrected": (
        corrected,
        nothing,
        {},
        "0 images added, 1 updated, 3 unchanged\n  updated: cat/0.jpg",
    ),
    "touched": (touched, nothing, {}, "0 images added, 4 unchanged"),
    "moved to its class": (
        moved,
        nothing,
        {},
        (
            "0 images added, 1 renamed or moved, 3 unchanged\n"
            "  renamed or moved: cat/1.jpg → dog/1.jpg"
        ),
    ),
    "removed": (
        removed,
        nothing,
        {},
        (
            "0 images added, 3 unchanged, 1 no longer in the source\n"
            "  no longer in the source: dog/3.jpg\n"
            "  its row stays in the dataset; to remove: delete=True"
        ),
    ),
    "removed, with its row": (
        removed,
        nothing,
        {"delete": True},
        (
            "0 images added, 3 unchanged, 1 no longer in the source\n"
            "  no longer in the source: dog/3.jpg\n"
            "  1 row of vanished items deleted"
        ),
    ),
    "of a new class": (
        of_a_new_class,
        nothing,
        {},
        "1 image added, 4 unchanged\n  added: fox/1.jpg\n  'label' has new classes: 'fox'",
    ),
    "changed on both sides": (
        corrected,
        relabel,
        {},
        (
            "0 images added, 1 updated, 3 unchanged, 1 conflict\n"
            f"  updated: cat/0.jpg\n{CONFLICT}the dataset stays as it is"
        ),
    ),
    "changed on both sides, decided for the source": (
        corrected,
        relabel,
        {"on_conflict": "source"},
        (
            "0 images added, 1 updated, 3 unchanged, 1 conflict\n"
            f"  updated: cat/0.jpg\n{CONFLICT}the source was taken"
        ),
    ),
    "deleted by a hand": (
        nothing,
        delete_first,
        {},
        f"0 images added, 3 unchanged, 1 conflict\n{DELETED}",
    ),
    "damaged": (
        damaged,
        nothing,
        {"on_error": "skip"},
        f"0 images added, 3 unchanged, 1 rejected\n{BROKEN}",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_report_has_what_changed_in_words(name, tmp_path):
    change, hand, options, words = CASES[name]
    folder, url = tmp_path / "animals", f"memory://{tmp_path.name}"
    for number in range(4):
        write(folder / f"{'cat' if number < 2 else 'dog'}/{number}.jpg", jpeg(number))
    ds = tl.ingest.images(folder, url)
    hand(ds)
    ds.commit("by hand")
    change(folder)

    report = str(tl.ingest.images(folder, url, **options).ingest_report)

    first, *others = report.splitlines()
    assert "\n".join((first.partition(";")[0], *others)) == words


def test_of_many_items_the_first_are_named(tmp_path):
    folder, url = tmp_path / "animals", f"memory://{tmp_path.name}"
    for number in range(8):
        write(folder / f"cat/{number}.jpg", jpeg(number))
    assert "added:" not in str(tl.ingest.images(folder, url).ingest_report)  # all are new
    for number in range(6):
        write(folder / f"cat/{number}.jpg", jpeg(number + 50))

    report = tl.ingest.images(folder, url).ingest_report

    assert "\n  updated: cat/0.jpg, cat/1.jpg, cat/2.jpg, …" in str(report)
    assert report.names == {"updated": ["cat/0.jpg", "cat/1.jpg", "cat/2.jpg"]}
