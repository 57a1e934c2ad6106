"""A damaged tag or saved view hides no other; what removes or copies data stops at it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.errors import CorruptionError
from tests.support.commands import tensorlake


@pytest.fixture
def ds(tmp_path: Path) -> tl.Dataset:
    ds = tl.create(str(tmp_path / "pets"), {"x": "int64"}, durability="none")
    ds.extend({"x": [1, 2, 3]})
    ds.commit("three")
    for name in ("v1", "v2"):
        ds.tag(name)
        ds.query("WHERE x > 1").save(f"large-{name}")
    return ds


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"branch": "main", "digest": "00"}'])
def test_tags_and_views_are_listed_but_the_damaged_and_it_is_named(
    ds: tl.Dataset, tmp_path: Path, damage: bytes
) -> None:
    (tmp_path / "pets/tags/v1.json").write_bytes(damage)

    with pytest.warns(tl.DamagedTagWarning, match="'v1' of .* cannot be read"):
        tags = sorted(ds.tags)
    with pytest.warns(tl.DamagedTagWarning, match="'v1'"):
        views = sorted(ds.views)
    status, printed = tensorlake(["tag", "pets"], folder=tmp_path)

    assert (tags, views) == (["v2"], ["large-v1", "large-v2"])
    assert len(ds.views["large-v1"]) == 2
    assert (status, "v2" in printed) == (0, True)
    assert [one.object for one in ds.check().findings] == ["tags/v1.json"]


def test_a_damaged_tag_stops_the_collector_and_a_copy(ds: tl.Dataset, tmp_path: Path) -> None:
    (tmp_path / "pets/tags/v1.json").write_bytes(b"{")

    with pytest.raises(CorruptionError, match="v1"):
        ds.gc()
    with pytest.raises(CorruptionError, match="v1"):
        tl.copy(str(tmp_path / "pets"), str(tmp_path / "copy"))


def test_a_damaged_tag_is_an_error_where_it_is_named(ds: tl.Dataset, tmp_path: Path) -> None:
    (tmp_path / "pets/tags/v1.json").write_bytes(b"{")

    # a warning is an error in this suite
    with pytest.raises(CorruptionError, match="v1"):
        ds.at("v1")
    with pytest.raises(CorruptionError, match="v1"):
        tl.open(ds.url, "v1")
