"""A copy that is refreshed has the rows of a copy made anew, whatever happened to its source."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tests.support.examples import examples

NUMBER = itertools.count()

SCHEMA = {
    "key": "int64",
    "x": tl.Scalar("int32", nullable=True),
    "image": tl.Image("png", nullable=True),
    "boxes": tl.BBox(of="image"),
    "label": tl.ClassLabel(["a", "b"], multi=True, per="boxes"),
}
ENCODE = {
    "image": tl.Image("png", max_side=5, nullable=True),
    "x": (lambda x: -x, tl.Scalar("int32", nullable=True)),
}
VIEWS = {
    "all": lambda ds: ds[:],
    "some": lambda ds: ds.query("WHERE x IS NULL OR x < 60"),
    "sorted": lambda ds: ds.query("SELECT *, x + key AS sum ORDER BY key DESC"),
}


def rows(keys: list[int], random: np.random.Generator) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for key in keys:
        height, width = random.integers(1, 12, 2).tolist()
        count = int(random.integers(0, 3))
        corners = np.sort(random.uniform(0, min(height, width), (count, 2, 2)), axis=1)
        is_null = random.random() < 0.2
        image = random.integers(0, 255, (height, width, 3), np.uint8)
        made.append(
            {
                "key": key,
                "x": None if is_null else int(random.integers(0, 100)),
                "image": None if random.random() < 0.2 else image,
                "boxes": corners.reshape(count, 4),
                "label": random.integers(0, 2, count),
            }
        )
    return made


def change(ds: tl.Dataset, what: str, random: np.random.Generator, keys: itertools.count) -> None:
    count = len(ds)
    some = random.permutation(count)[: 1 + count // 4]
    match what:
        case "extend":
            ds.extend(rows([next(keys) for _ in range(random.integers(1, 5))], random))
        case "delete" if count > 2:
            ds.delete(some)
        case "x" if count:
            ds["x"][some] = random.integers(0, 100, len(some))
        case "rows" if count:
            for at in some.tolist():
                (row,) = rows([0], random)
                for name in ("image", "boxes", "label"):
                    ds[name][[at]] = [row[name]]
        case "optimize":
            ds.optimize(order_by="x")
        case "revert" if ds.version != "main@0":
            ds.restore(ds.log()[-1 - int(random.integers(0, 2))].version)
        case "names":
            ds["label"].rename(ds["label"].names[0], f"class {next(keys)}")
        case _:
            return
    if ds.has_changes:
        ds.commit(what)


def table(ds: tl.Dataset) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    names = ds["label"].names
    for at in range(len(ds)):
        row = {name: ds[at][name] for name in ds.schema}
        row["image"] = None if row["image"] is None else ds["image"].bytes(at)
        row["label"] = [names[code] for code in np.asarray(row["label"]).tolist()]
        row["boxes"] = row["boxes"].tolist()
        found[int(row["key"])] = row
    assert len(found) == len(ds)
    return found


CHANGES = ["extend", "delete", "x", "rows", "optimize", "revert", "names", "refresh"]


@given(
    st.sampled_from(sorted(VIEWS)),
    st.lists(st.sampled_from(CHANGES), max_size=7),
    st.integers(0, 2**32),
)
@examples(6, deadline=None)
def test_a_refreshed_copy_is_one_made_anew(view, changes, seed):
    random, keys, url = np.random.default_rng(seed), itertools.count(), f"memory://p{next(NUMBER)}"
    ds = tl.create(url, SCHEMA)
    ds.extend(rows([next(keys) for _ in range(int(random.integers(0, 9)))], random))
    ds.commit("begun")
    copy = VIEWS[view](ds).materialize(f"{url}-copy", encode=ENCODE)
    functions = {"x": ENCODE["x"][0]}

    for what in changes:
        if what == "refresh":
            copy.refresh_copy(functions=functions)
        else:
            change(ds, what, random, keys)
    copy.refresh_copy(functions=functions)
    version = copy.version
    again = copy.refresh_copy(functions=functions)

    anew = VIEWS[view](ds).materialize(f"{url}-anew", encode=ENCODE)
    assert table(copy) == table(anew)
    assert (copy.version, again.commits) == (version, [])
    assert copy.check(decode=True).ok
