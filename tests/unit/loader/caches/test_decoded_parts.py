"""The decoded tier for parts of samples: clips, windows, linked files, sequences of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl
from tensorlake import decode
from tensorlake.errors import InvalidInputError

FRAMES, ROWS = 12, 5
NUMBERS = np.random.default_rng(2)


def noise(count: int) -> np.ndarray:
    return NUMBERS.integers(0, 255, (count, 24, 32, 3), np.uint8)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: Any) -> Any:
    url = str(tmp_path_factory.mktemp("kept") / "videos")
    with tl.create(url, {"video": tl.Video("ffv1", fps=10), "x": "int64"}) as ds:
        ds.extend({"video": [noise(FRAMES + at) for at in range(ROWS)], "x": range(ROWS)})
        ds.commit("videos")
        yield ds


def epochs(ds: Any, name: str, folder: Path | None, **given: Any) -> tuple[list[Any], int]:
    """Return the samples of two epochs, and how many came from the folder."""
    kept: Any = {} if folder is None else {"cache_dir": folder, "cache_decoded": True}
    given = {"batch_size": 2, "seed": 5, "shuffle": True} | given
    with ds.loader(**given, **kept) as loader:
        found = [one for _ in range(2) for batch in loader for one in batch[name]]
        return found, loader.stats().decoded_hits


def same(one: list[Any], other: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    "steps",
    [
        [decode.Clip(4, start="center"), decode.Resize(16, 16)],
        [decode.Clip(4, stride=2, start=3), decode.CenterCrop(20, 20), decode.Flip()],
        [decode.Clip(4, start=0), decode.Resize(16, 20), decode.ToFloat()],
        [decode.Clip(3, start=99), decode.Resize(8, 8), decode.ColorJitter(brightness=0.4)],
    ],
    ids=["resized", "flipped", "numbers", "coloured"],
)
def test_clips_are_those_without_the_tier(videos: Any, steps: Any, tmp_path: Path) -> None:
    given: Any = {"columns": ["video"], "decode": {"video": steps}}
    plain, _ = epochs(videos, "video", None, **given)

    found, hits = epochs(videos, "video", tmp_path, **given)
    again, more = epochs(videos, "video", tmp_path, **given)

    assert same(found, plain)
    assert same(again, plain)
    assert (hits, more) == (ROWS, 2 * ROWS)


@pytest.mark.parametrize("tail", ["drop", "pad", "shift"])
def test_each_window_of_a_video_is_kept(videos: Any, tail: Any, tmp_path: Path) -> None:
    windows = videos.windows("video", size=4, step=3, tail=tail)
    given: Any = {"decode": {"video": decode.Resize(16, 16)}}
    plain, _ = epochs(windows, "video", None, **given)

    found, hits = epochs(windows, "video", tmp_path, **given)

    assert same(found, plain)
    assert hits == len(windows)


def test_a_video_that_changed_is_decoded_again(tmp_path: Path) -> None:
    steps = [decode.Clip(4, start="center"), decode.Resize(16, 16)]
    with tl.create("memory://kept-clips-change", {"video": tl.Video("ffv1", fps=10)}) as ds:
        ds.extend({"video": [noise(FRAMES) for _ in range(3)]})
        ds.commit("videos")
        epochs(ds, "video", tmp_path, decode={"video": steps})
        ds["video"][1] = np.full((FRAMES, 24, 32, 3), 77, np.uint8)
        ds.commit("another")
        plain, _ = epochs(ds, "video", None, decode={"video": steps})

        found, hits = epochs(ds, "video", tmp_path, decode={"video": steps})

    assert same(found, plain)
    assert hits == 2 + 3


def test_images_of_sequences_are_kept(tmp_path: Path) -> None:
    with tl.create("memory://kept-sequences", {"clip": tl.Sequence(tl.Image("png"))}) as ds:
        ds.extend({"clip": [list(noise(count)) for count in (3, 1, 4)]})
        ds.commit("clips")
        given: Any = {"decode": {"clip": [decode.Resize(16, 16), decode.Flip()]}}
        plain, _ = epochs(ds, "clip", None, **given)

        found, hits = epochs(ds, "clip", tmp_path, **given)

    assert same(found, plain)
    assert hits == 3 + 1 + 4


def test_linked_images_are_kept(tmp_path: Path) -> None:
    paths = [tmp_path / f"{at}.png" for at in range(ROWS)]
    for path, pixels in zip(paths, noise(ROWS), strict=True):
        Image.fromarray(pixels).save(path)
    url = str(tmp_path / "links")
    with tl.create(url, {"far": tl.Link(tl.Image("png"))}) as ds:
        ds.extend({"far": [path.as_uri() for path in paths]})
        ds.commit("links")
        given: Any = {"decode": {"far": [decode.Resize(16, 16), decode.Flip()]}}
        plain, _ = epochs(ds, "far", None, **given)

        found, hits = epochs(ds, "far", tmp_path / "nvme", **given)

    assert same(found, plain)
    assert hits == ROWS


@pytest.mark.parametrize(
    "given",
    [
        {"columns": ["x"]},
        {"columns": ["video"], "decode": {"video": [decode.Clip(4), decode.Resize(8, 8)]}},
        {
            "columns": ["video"],
            "decode": {"video": [decode.Clip(4, start=0), decode.RandomResizedCrop(8, 8)]},
        },
    ],
    ids=["numbers", "random", "open shape"],
)
def test_a_tier_that_would_keep_nothing_is_refused(videos: Any, given: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="leave cache_decoded out") as raised:
        videos.loader(batch_size=2, cache_dir=tmp_path, cache_decoded=True, **given)

    assert raised.value.argument == "cache_decoded"


def test_a_kept_sample_may_be_written_to(videos: Any, tmp_path: Path) -> None:
    steps = [decode.Clip(4, start="center"), decode.Resize(16, 16)]

    def blank(row: Any) -> Any:
        row["video"][0] = 0
        return row

    given: Any = {"columns": ["video"], "decode": {"video": steps}, "transform": blank}
    plain, _ = epochs(videos, "video", None, **given)

    found, hits = epochs(videos, "video", tmp_path, **given)

    assert same(found, plain)
    assert hits == ROWS
