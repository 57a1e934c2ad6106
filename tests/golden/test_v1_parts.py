"""Chunks of samples in parts stay readable for ever (docs/reference/format.md, Parts and Tiles)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tests.golden.make_v1_parts import scans, volumes

DATASET = Path(__file__).parent / "v1_parts"


@pytest.fixture
def ds():
    return tl.open(DATASET.as_posix(), read_only=True)


def test_every_array_reads(ds):
    expected = scans()
    expected[3] = expected[3] + np.uint16(1)

    for row, scan in enumerate(expected):
        found = ds["scan"][row]
        assert (found is None) is (scan is None)
        if scan is not None:
            np.testing.assert_array_equal(found, scan)
    np.testing.assert_array_equal(ds["volume"][:], np.stack(volumes()))


def test_regions_read(ds):
    np.testing.assert_array_equal(ds["scan"][0, 30:70:7, -3:], scans()[0][30:70:7, -3:])
    np.testing.assert_array_equal(ds["volume"][4, 1, 15:17], volumes()[4][1, 15:17])


def test_the_schema_names_the_feature_of_the_tensors_alone():
    entry = json.loads((DATASET / "branches" / "main" / "0000000001.json").read_bytes())

    features = [one.get("features") for one in entry["schema"]["tensors"]]
    assert features == [["parts"], ["parts"], None]
    assert entry["features"]["read"] == ["tensor-features"]
