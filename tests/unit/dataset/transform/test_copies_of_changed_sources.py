"""``refresh_copy`` of a source whose columns changed, or that is elsewhere."""

from __future__ import annotations

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidStateError


def doubled(x):
    return 2 * x


def test_a_column_that_the_source_dropped_is_an_error_that_changes_nothing(source, url):
    copy = source[:].materialize(url, encode={})
    source.drop_tensor("y")
    source["x"][0] = 9
    source.commit()

    with pytest.raises(InvalidStateError, match=r"copy\.drop_tensor\('y'\)") as error:
        copy.refresh_copy()

    assert "nothing was changed" in str(error.value)
    assert copy["y"][:].tolist() == [0, 10, 20, 30]
    copy.drop_tensor("y")
    copy.commit()
    copy.refresh_copy()
    assert copy["x"][:].tolist() == [9, 1, 2, 3]


@pytest.mark.parametrize("made", [False, True])
def test_null_at_the_source_is_an_error_until_the_copy_takes_it(source, url, made):
    given = {"functions": {"y": doubled}} if made else {}
    copy = source[:].materialize(url, encode={"y": (doubled, "int64")} if made else {})
    copy.rename_tensor("y", "height")
    copy.commit()
    source.alter_tensor("y", nullable=True)
    source["y"][2] = None
    source.commit()

    with pytest.raises(InvalidStateError, match=r"row 2 of .* is NULL in 'y'") as error:
        copy.refresh_copy(**given)
    assert (
        str(error.value)
        .splitlines()[-1]
        .endswith("copy.alter_tensor('height', nullable=True), commit, refresh_copy()")
    )
    assert not copy.has_changes
    copy.alter_tensor("height", nullable=True)
    copy.commit()
    copy.refresh_copy(**given)
    assert copy[2]["height"] is None


def test_a_column_that_the_copy_alone_has_must_allow_null_for_new_rows(source, url):
    copy = source[:].materialize(url, encode={})
    copy.add_tensor("mine", "int64", fill=9)
    copy.commit()
    source["x"][0] = 5
    source.commit()
    assert copy.refresh_copy().updated == 1  # no row is new
    source.append({"x": 7, "y": 70, "label": None})
    source.commit()

    with pytest.raises(InvalidStateError, match=r"copy\.alter_tensor\('mine', nullable=True\)"):
        copy.refresh_copy()
    assert not copy.has_changes
    copy.alter_tensor("mine", nullable=True)
    copy.commit()
    copy.refresh_copy()
    assert [copy[at]["mine"] for at in (0, 4)] == [9, None]


def test_a_wider_dtype_at_the_source_is_an_error_until_the_copy_has_it(url):
    ds = tl.create(f"{url}-of", {"x": "int8"})
    ds.extend({"x": [1, 2]})
    ds.commit()
    copy = ds[:].materialize(url, encode={})
    ds.alter_tensor("x", dtype="int32")
    ds["x"][0] = 70_000
    ds.commit()

    with pytest.raises(InvalidStateError, match=r"copy\.alter_tensor\('x'"):
        copy.refresh_copy()
    copy.alter_tensor("x", dtype="int32")
    copy.commit()
    copy.refresh_copy()
    assert copy["x"][:].tolist() == [70_000, 2]


def test_a_source_that_is_gone_leaves_the_copy_whole(source, url):
    copy = source[:].materialize(url, encode={})
    tl.copy(source.url, f"{url}-elsewhere")
    tl.delete(source.url, confirm=source.url)

    with pytest.raises(InvalidStateError, match=r"refresh_copy\(source=url\)"):
        copy.refresh_copy()

    assert copy["x"][:].tolist() == [0, 1, 2, 3]
    elsewhere = tl.open(f"{url}-elsewhere")
    elsewhere["x"][0] = 5
    elsewhere.commit()
    copy.refresh_copy(source=elsewhere.url)
    assert copy["x"][:].tolist() == [5, 1, 2, 3]
    elsewhere["x"][1] = 6
    elsewhere.commit()
    copy.refresh_copy()
    assert copy["x"][:].tolist() == [5, 6, 2, 3]


def test_a_source_that_only_moved_is_followed_from_then_on(source, url):
    copy = source[:].materialize(url, encode={})
    tl.copy(source.url, f"{url}-elsewhere")
    tl.delete(source.url, confirm=source.url)

    for _ in range(2):
        assert copy.refresh_copy(source=f"{url}-elsewhere").unchanged == 4

    assert copy.version == "main@2"
    assert next(iter(copy.log())).message == f"copy: follows {url}-elsewhere"
    assert copy.refresh_copy().unchanged == 4


def test_another_dataset_in_the_place_of_the_source_is_refused(source, url):
    copy = source[:].materialize(url, encode={})
    tl.delete(source.url, confirm=source.url)
    other = tl.create(source.url, {"x": "int64", "y": "int64", "label": tl.ClassLabel(["cat"])})
    other.append({"x": 1, "y": 1, "label": "cat"})
    other.commit()

    with pytest.raises(InvalidStateError, match="made again"):
        copy.refresh_copy()
    assert len(copy) == 4
