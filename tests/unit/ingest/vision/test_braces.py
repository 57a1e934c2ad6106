"""Braces in the URLs of shards, as WebDataset's users write them."""

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError


@pytest.fixture
def shards(tmp_path):
    """Three shards of a row each, 00.tar … 02.tar."""
    for number in range(3):
        ds = tl.create(f"memory://braces-{tmp_path.name}-{number}", {"x": "int64"})
        ds.append({"x": number})
        ds.to_webdataset(tmp_path / f"out{number}")
        ds.discard()
        [shard] = (tmp_path / f"out{number}").glob("*.tar")
        shard.rename(tmp_path / f"{number:02d}.tar")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "rows"), [("{00..02}.tar", [0, 1, 2]), ("{02,00}.tar", [2, 0])]
)
def test_braces_name_the_shards(shards, pattern, rows):
    ds = tl.ingest.webdataset(shards / pattern, f"memory://braces-{shards.name}-{len(rows)}")

    assert ds["x"][:].tolist() == rows


def test_missing_shard_of_a_range_is_named(shards):
    with pytest.raises(InvalidInputError, match=r"03\.tar"):
        tl.ingest.webdataset(shards / "{00..03}.tar", "memory://braces-missing")


@pytest.mark.parametrize("pattern", ["{0..9999999}.tar", "{3..1}.tar", "{0..999}{0..9999}.tar"])
def test_braces_of_no_names_or_too_many_are_refused(shards, pattern):
    with pytest.raises(InvalidInputError, match="names"):
        tl.ingest.webdataset(shards / pattern, "memory://braces-refused")
