"""Packs, names and queries with values of forgotten rows: none is left out."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.format import PackId
from tensorlake.storage import MemoryStore, Store, runtime
from tensorlake.testing import FaultyStore, SimulatedCrash
from tests.integration.runs.test_forget import found_in, pass_grace
from tests.support.handles import create_on, open_on, wait_for_storage

ROWS, PERSON = 30, 12


def test_every_pack_with_a_value_is_reported_and_goes(tmp_path):
    random = np.random.default_rng(1)
    first, second = (random.integers(0, 256, (ROWS, 4000), np.uint8) for _ in range(2))
    names = [f"person number {row}" for row in range(ROWS)]
    names[PERSON] = "Benjamin Secretname"
    image = tl.Array("uint8", (4000,))
    schema = {"x": "int64", "name": "str", "changed": image, "kept": image}
    ds = tl.create(tmp_path / "lake.tl", schema, grace="1min")
    ds.extend({"x": np.arange(ROWS), "name": names, "changed": 0 * first, "kept": first})
    ds.commit("rows")
    ds["changed"][:] = second
    ds.commit("values in another pack, of a tensor that is not the last one")
    ds.create_index("name")
    ds.commit("an index, in a third")
    values = [one[PERSON].tobytes()[1000:1040] for one in (first, second)]
    places = [set(found_in(ds.url, one)) for one in (*values, b"Secretname")]
    assert places[0].isdisjoint(places[1])
    assert places[2] - places[0], "the index"

    report = ds.forget(f"x = {PERSON}")

    reported = {str(tmp_path / "lake.tl" / PackId.parse(pack).path) for pack in report.packs}
    assert set.union(*places) <= reported
    pass_grace(ds.url)
    assert ds.forget(finish=True).is_finished
    assert found_in(ds.url, *values, b"Secretname") == []
    assert ds["changed"][:].tolist() == np.delete(second, PERSON, axis=0).tolist()


def test_a_name_that_is_given_while_rows_are_forgotten_is_deleted():
    for writes in count(1):
        store: Store = MemoryStore()
        with create_on(store, {"name": "str"}) as ds:
            ds.extend({"name": ["Ana", "Ben", "Cem"]})
            ds.commit("three")
            wait_for_storage()
        other = open_on(store, version="main@1")
        dying = FaultyStore(store)
        dying.crash_after(writes)
        with pytest.raises(SimulatedCrash):
            open_on(dying).forget("name = 'Ben'")
        if any(path.startswith("forgotten/") for path in paths_of(store)):
            break
    other.tag("late")

    report = open_on(store).forget("name = 'Ben'")

    ds = open_on(store)
    assert "late" in report.deleted
    assert "late" not in ds.tags
    assert ds["name"].to_list() == ["Ana", "Cem"]


def paths_of(store):
    async def listed():
        return [meta.path async for meta in store.list("")]

    return runtime.run(listed())


def test_rows_that_only_a_named_version_has_are_forgotten(tmp_path):
    ds = tl.create(tmp_path / "lake.tl", {"name": "str"}, grace="1min")
    ds.extend({"name": ["Ana", "Benjamin Secretname", "Cem"]})
    ds.commit("three")
    ds.tag("v1")
    ds["name"][1] = "anonymous"
    ds.commit("corrected")
    ds.expire(keep_last=1)

    report = ds.forget("name = 'Benjamin Secretname'")

    assert len(report.rows) == 1
    assert report.deleted == ("v1",)
    assert ds["name"].to_list() == ["Ana", "Cem"]
    pass_grace(ds.url)
    assert ds.forget(finish=True).is_finished
    assert found_in(ds.url, b"Secretname") == []


def test_a_name_with_a_quote_is_taken_out_of_queries_and_keys(tmp_path):
    ds = tl.create(tmp_path / "lake.tl", {"name": "str"}, grace="1min")
    ds.extend({"name": ["Ana", "Ben O'Neill", "Cem"]})
    ds.commit("three")
    others = ds.query("WHERE name != 'Ben O''Neill'")
    with ds.run("first", config={"weights": {"Ben O'Neill": 0, "other": 1}}) as run:
        list(run.loader(others, batch_size=2))
    assert found_in(ds.url, b"O''Neill", b"O'Neill")

    report = ds.forget("name = 'Ben O''Neill'")

    assert report.redacted == ("first",)
    assert ds.runs["first"].config == {"weights": {"***": 0, "other": 1}}
    assert found_in(f"{ds.url}/runs", b"Neill") == []


def test_runs_of_rows_in_another_order_than_their_ids_have_holes_at_their_places(tmp_path):
    ds = tl.create(tmp_path / "lake.tl", {"name": "str", "x": "int64"}, grace="1min")
    ds.extend({"name": [f"person {x}" for x in range(ROWS)], "x": np.arange(ROWS)})
    ds.commit("rows")
    ds.optimize(order_by="x DESC")
    with ds.run("first") as run:
        given = [batch["x"].tolist() for batch in run.loader(batch_size=5, shuffle=True, seed=1)]

    ds.query("WHERE x % 2 = 1 ORDER BY name").save("odd")
    listed = ds.views["odd"]["x"][:].tolist()

    ds.forget("x IN (3, 11, 25)")

    assert ds.views["odd.forgotten"]["x"][:].tolist() == [x for x in listed if x not in (3, 11, 25)]

    for step, seen in enumerate(given):
        batch = ds.runs["first"].batch(step)
        expected = [0 if x in (3, 11, 25) else x for x in seen]
        assert batch["x"].tolist() == expected
        assert batch["_valid"].tolist() == [x not in (3, 11, 25) for x in seen]
