"""The decoded tier: the batches of a loader without it, whose later epochs decode nothing."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake import decode
from tensorlake.errors import InvalidInputError

ROWS = 40
NUMBER = itertools.count()


def pictures(*, channels: int = 3, differ: bool = False) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    sizes = [(60 + 3 * (at % 5 if differ else 0), 80) for at in range(ROWS)]
    shapes = [(*size, channels) if channels > 1 else size for size in sizes]
    return [rng.integers(0, 255, shape, np.uint8) for shape in shapes]


def dataset(images: list[np.ndarray], mode: Any = None, url: Any = None) -> tl.Dataset:
    ds = tl.create(url or f"memory://decoded-{next(NUMBER)}", {"image": tl.Image("png", mode)})
    ds.extend({"image": images})
    ds.commit("images")
    return ds


def epochs(ds: Any, count: int = 2, **given: Any) -> tuple[list[Any], tl.LoaderStats]:
    found: list[Any] = []
    with ds.loader(batch_size=16, seed=5, shuffle=True, **given) as loader:
        for _ in range(count):
            found += [image for batch in loader for image in batch["image"]]
        return found, loader.stats()


def equal(one: list[Any], other: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    "steps",
    [
        [decode.Resize(32, 32)],
        [decode.Resize(40), decode.CenterCrop(32, 32), decode.Flip(), decode.ToFloat()],
        [decode.Letterbox(32, 32), decode.Rotate90(), decode.ColorJitter(brightness=0.4)],
        [decode.RandomResizedCrop(32, 32, exact=True), decode.Flip()],
        [decode.CenterCrop(50, 50), decode.Normalize((0.5,), (0.2,))],
    ],
    ids=lambda steps: type(steps[0]).__name__,
)
def test_batches_are_those_without_the_tier(steps: Any, tmp_path: Path) -> None:
    with dataset(pictures()) as ds:
        plain, _ = epochs(ds, decode={"image": steps})
        given: Any = {"decode": {"image": steps}, "cache_dir": tmp_path, "cache_decoded": True}

        first, filled = epochs(ds, **given)
        again, cached = epochs(ds, **given)

    assert equal(first, plain)
    assert equal(again, plain)
    assert (filled.decoded_hits, cached.decoded_hits) == (ROWS, 2 * ROWS)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_different_sizes_are_kept_too(channels: int, tmp_path: Path) -> None:
    with dataset(pictures(channels=channels, differ=True), "L" if channels == 1 else "RGB") as ds:
        given: Any = {"collate": {"image": "list"}, "decode": {"image": [decode.Flip()]}}
        plain, _ = epochs(ds, **given)

        found, stats = epochs(ds, **given, cache_dir=tmp_path, cache_decoded=True)

    assert equal(found, plain)
    assert stats.decoded_hits == ROWS


def test_an_image_that_changed_is_decoded_again(tmp_path: Path) -> None:
    given: Any = {"decode": {"image": decode.Resize(32, 32)}, "cache_dir": tmp_path}
    with dataset(pictures()) as ds:
        before, _ = epochs(ds, 1, **given, cache_decoded=True)
        ds["image"][7] = np.full((60, 80, 3), 200, np.uint8)
        ds.commit("another picture")

        after, stats = epochs(ds, 1, **given, cache_decoded=True)

    changed = [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
    assert sum(changed) == 1
    assert np.all(after[changed.index(True)] == 200)
    assert stats.decoded_hits == ROWS - 1


def test_other_steps_do_not_find_the_pixels(tmp_path: Path) -> None:
    with dataset(pictures()) as ds:
        epochs(
            ds, 1, decode={"image": decode.Resize(32, 32)}, cache_dir=tmp_path, cache_decoded=True
        )

        found, stats = epochs(
            ds,
            1,
            decode={"image": decode.Resize(32, 32, antialias=False)},
            cache_dir=tmp_path,
            cache_decoded=True,
        )

    assert stats.decoded_hits == 0
    assert len(found) == ROWS


def test_damaged_pixels_are_made_again(tmp_path: Path) -> None:
    given: Any = {"decode": {"image": decode.Resize(32, 32)}, "cache_dir": tmp_path}
    with dataset(pictures()) as ds:
        plain, _ = epochs(ds, 1, **given, cache_decoded=True)
        for path in tmp_path.rglob("*.data"):
            os.truncate(path, path.stat().st_size // 2)

        found, stats = epochs(ds, 1, **given, cache_decoded=True)

    assert equal(found, plain)
    assert 0 < stats.decoded_hits < ROWS


def test_a_folder_that_fails_leaves_the_epoch_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with dataset(pictures()) as ds:
        given: Any = {"decode": {"image": decode.Resize(32, 32)}, "cache_decoded": True}

        found, stats = epochs(ds, 2, **given, cache_dir=tmp_path / "file")

    assert (len(found), stats.decoded_hits) == (2 * ROWS, 0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cache_decoded": True}, "add cache_dir="),
        ({"cache_decoded": "yes", "cache_dir": "."}, "cache_decoded"),
        ({"cache_decoded": True, "cache_dir": ".", "decode_on": "server"}, "the server decodes"),
    ],
)
def test_arguments_that_cannot_be_are_refused(given: Any, words: str) -> None:
    with dataset(pictures()) as ds, pytest.raises(InvalidInputError, match=words):
        ds.loader(batch_size=1, **given)


def test_a_loader_explains_what_its_folder_is_for(tmp_path: Path) -> None:
    with tl.create(str(tmp_path / "d"), {"x": "int64"}) as ds:
        ds.extend({"x": range(4)})
        ds.commit("numbers")
        given: Any = {"batch_size": 2, "cache_dir": tmp_path / "nvme"}

        unused = ds.loader(**given).explain()
    with dataset(pictures(), url=tmp_path / "pictures") as ds:
        given |= {"decode": {"image": decode.Resize(8, 8)}, "cache": {"disk": "1GB"}}
        used = ds.loader(**given, cache_decoded=True).explain()

    assert "is not used: the dataset is local" in unused
    assert "1 GB of disk for decoded images in" in used


@pytest.mark.parametrize("differ", [False, True])
def test_files_are_not_much_larger_than_the_pixels(differ: Any, tmp_path: Path) -> None:
    steps = [decode.Flip()] if differ else [decode.Resize(32, 32), decode.Flip()]
    given: Any = {"decode": {"image": steps}, "collate": {"image": "list"} if differ else {}}
    with dataset(pictures(differ=differ), url=tmp_path / "local") as ds:
        found, stats = epochs(ds, **given, cache_dir=tmp_path / "nvme", cache_decoded=True)

    pixels = sum(image.nbytes for image in found[:ROWS])
    files = sum(path.stat().st_size for path in tmp_path.rglob("nvme/**/*.data"))
    assert stats.decoded_hits == ROWS
    assert pixels < files < (4 if differ else 1.01) * pixels
