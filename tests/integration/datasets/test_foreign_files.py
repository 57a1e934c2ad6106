"""Files that are not a dataset's: never deleted with it, and no dataset is made among them."""

from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.dataset import left_by_deletion
from tensorlake.format import is_own_path
from tensorlake.storage import open_store, runtime

SCHEMA = {"x": "int64"}


def filled(url: str) -> tl.Dataset:
    """Make a dataset with every kind of object that a deletion meets."""
    ds = tl.create(url, SCHEMA)
    ds.extend({"x": [1, 2, 3]})
    ds.commit("rows")
    ds.tag("v1")
    ds.branch("work/a").extend({"x": [4]})
    ds.query("WHERE x < 3").save("small")
    with ds.run("Train 1") as run:
        run.log(step=0, loss=0.5)
    ds.check()
    return ds


def put(url: str, path: str) -> None:
    runtime.run(open_store(url).put(path, b"mine"))


def paths(url: str) -> list[str]:
    async def listed() -> list[str]:
        return [meta.path async for meta in open_store(url).list("")]

    return runtime.run(listed())


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "lake")
    return f"memory://foreign-{request.node.name}"


def test_a_deletion_removes_all_that_is_the_datasets(place):
    filled(place).close()
    assert [path for path in paths(place) if not is_own_path(path)] == []

    assert tl.delete(place, confirm=place) == []
    assert paths(place) == []


def test_a_deletion_leaves_and_names_other_files_and_datasets_below(place):
    filled(place).close()
    for path in ("NOTES.txt", "photos/cat/1.jpg", "packs/README", "tags/mine.txt", ".DS_Store"):
        put(place, path)
    others = ["a/tensorlake.json", "a/branches/main/0000000000.json", "packs/b/tensorlake.json"]
    for path in others:
        put(place, path)
    kept = ["NOTES.txt", "packs/README", "photos/", "tags/mine.txt", ".DS_Store", "a/"]
    kept = sorted([*kept, "packs/b/tensorlake.json"])

    assert left_by_deletion(place) == kept
    assert tl.delete(place, confirm=place) == kept
    assert sorted(paths(place)) == sorted(
        ["NOTES.txt", "photos/cat/1.jpg", "packs/README", "tags/mine.txt", ".DS_Store", *others]
    )


@pytest.mark.parametrize("make", ["create", "copy", "fork", "map"])
def test_no_dataset_is_made_among_other_files(place, tmp_path, make):
    put(place, "photos/cat/1.jpg")
    base = tl.create(str(tmp_path / "base.tl"), SCHEMA)
    base.extend({"x": [1]})
    base.commit()

    with pytest.raises(tl.InvalidInputError, match=r"other files, such as 'photos/cat/1\.jpg'"):
        _make(make, base, place)
    assert paths(place) == ["photos/cat/1.jpg"]


@pytest.mark.parametrize("make", ["create", "copy", "fork", "map"])
def test_no_dataset_is_made_around_or_inside_another(place, tmp_path, make):
    tl.create(f"{place}/a", SCHEMA).close()
    base = tl.create(str(tmp_path / "base.tl"), SCHEMA)
    base.extend({"x": [1]})
    base.commit()
    before = paths(place)

    with pytest.raises(tl.InvalidInputError, match=r"lake with datasets \('a'\)") as found:
        _make(make, base, place)
    assert str(found.value).endswith(f"such as '{place}/NAME'")
    with pytest.raises(tl.InvalidInputError, match="/a', which is a dataset: no other one is made"):
        _make(make, base, f"{place}/a/packs/x")
    assert paths(place) == before


def test_what_occupies_nothing_keeps_nobody_from_a_place(place):
    for path in (".gitignore", "branches/main/HEAD"):  # hidden; what a late hint leaves
        put(place, path)
    tl.delete(place, confirm=place)

    ds = tl.create(place, SCHEMA)
    put(place, "NOTES.txt")  # beside a dataset that is there
    assert tl.create(place, SCHEMA, exist_ok=True).version == ds.version
    assert tl.list(place) == ["."]


def test_a_types_file_of_an_old_export_makes_no_dataset(place):
    types = "tensorlake.json"
    for path in (types, f"photos/{types}"):
        runtime.run(open_store(place).put(path, b'{"tensors": {"x": "int64"}}'))

    tl.create(f"{place}/photos/new", SCHEMA).close()  # above it are types, and no dataset

    assert tl.list(place) == ["photos/new"]
    assert not tl.exists(place)
    with pytest.raises(tl.DatasetNotFoundError):
        tl.delete(place, confirm=place)
    with pytest.raises(tl.InvalidInputError, match=r"lake with datasets|other files, such as"):
        tl.create(place, SCHEMA)
    assert types in paths(place)


def test_no_dataset_is_made_inside_a_damaged_one(place):
    runtime.run(open_store(place).put("tensorlake.json", b'{"created":17,"for'))

    with pytest.raises(tl.InvalidInputError, match="which is a dataset"):
        tl.create(f"{place}/inner", SCHEMA)
    assert tl.exists(place)


def _make(make: str, base: tl.Dataset, url: str) -> None:
    if make == "create":
        tl.create(url, SCHEMA, exist_ok=True)
    elif make == "copy":
        tl.copy(base.url, url)
    elif make == "fork":
        tl.fork(base.url, url)
    else:
        base.map(lambda row: {"y": row["x"]}, schema={"y": "int64"}, to=url)
