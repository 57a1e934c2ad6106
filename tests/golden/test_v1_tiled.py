"""Images in tiles, masks with tables of classes, frames and scaled images stay readable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.types.tiles import Overview
from tests.golden.make_v1_tiled import (
    AFFINE,
    HEIGHT,
    WIDTH,
    cars,
    moving,
    organs,
    roofs,
    scan,
    slide,
)

DATASET = Path(__file__).parent / "v1_tiled"
LOSSY = 24  # of JPEG tiles at the edges of bands


@pytest.fixture(scope="module")
def ds() -> tl.Dataset:
    return tl.open(DATASET.as_posix(), read_only=True)


def test_every_sample_reads_as_it_was_written(ds: tl.Dataset) -> None:
    row = ds[0]

    assert np.array_equal(row["slide"], slide())
    photo = np.asarray(row["photo"]).astype(int)
    assert np.abs(photo - slide()).max() <= LOSSY
    assert np.abs(photo - slide()).mean() < 1
    assert np.array_equal(row["roofs"], roofs())
    assert np.array_equal(np.asarray(row["scan"]), scan())
    assert np.array_equal(row["scan"].affine, AFFINE)
    assert np.array_equal(row["organs"], organs())
    assert [frame.tolist() for frame in row["frames"]] == [one.tolist() for one in moving()]
    assert np.asarray(row["thumb"]).shape == (16, 32, 3)
    assert np.array_equal(row["cars"], cars().astype(np.float32))
    assert ds.check(decode=True).ok


def test_regions_read_their_tiles(ds: tl.Dataset) -> None:
    assert np.array_equal(ds["slide"][0, 500:520, -40:], slide()[500:520, -40:])
    assert np.array_equal(ds["roofs"][0, 90:410, 650:720], roofs()[90:410, 650:720])
    assert np.array_equal(ds["organs"][0, 30:40, 5:9], organs()[30:40, 5:9])


def test_patches_find_classes_by_the_table(ds: tl.Dataset) -> None:
    step = tl.decode.RandomPatch((8, 8, 8), n=4, center_on="organs", positive=1.0)
    loader = ds.loader(batch_size=1, columns=["scan", "organs"], decode={"scan": step})

    (batch,) = loader

    assert batch["organs"].shape == (1, 4, 8, 8, 8)
    assert (batch["organs"] == 1).any((2, 3, 4)).all()
    assert ((np.abs(batch["scan"].astype(int) - 9_000) < 500) == (batch["organs"] == 1)).all()


def test_overviews_are_read_alone(ds: tl.Dataset) -> None:
    (handle,) = rowset_of(ds).handles("slide", np.array([0]))

    overview = handle.read(Overview())

    assert overview.shape == (433, 512, 3)
    expected = slide()[:: HEIGHT // 4, :: WIDTH // 4].astype(int)[:4, :4]
    found = overview[:: 433 // 4, :: 512 // 4].astype(int)[:4, :4]
    assert np.abs(found - expected).max() <= LOSSY
