"""Rows by the values of two tensors, against DuckDB, NumPy and the queries that cells become."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import duckdb
import httpx
import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tensorlake_server.stats import pairs, row_budget, sampled_rows
from tests.unit.server.conftest import HOST, InProcess

TOKEN = "a-token-of-tests"
ROWS = 400
CLASSES = ["cat", "dog", "it's", "never"]


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    rng = np.random.default_rng(24)
    score = rng.normal(size=ROWS).astype(np.float32)
    score[:4] = [np.nan, np.inf, -np.inf, 0.0]
    found = [sorted(map(int, rng.integers(0, 4, i % 4))) for i in range(ROWS)]
    labels = [None if i % 9 == 0 else int(one) for i, one in enumerate(rng.integers(0, 3, ROWS))]
    return {
        "label": labels,
        "score": [None if i % 11 == 5 else one for i, one in enumerate(score)],
        "wide": [2**62 + int(one) for one in rng.integers(0, 40, ROWS)],
        "split": [None if i % 50 == 1 else ["train", "it's"][i % 3 == 0] for i in range(ROWS)],
        "found": found,
        "boxes": [np.zeros((len(one), 4), np.float32) for one in found],
        "caption": [f"number {i}" for i in range(ROWS)],
        "ok": [bool(i % 3) for i in range(ROWS)],
        "nothing": [None] * ROWS,
        "one": [7] * ROWS,
        "many": [int(one) for one in rng.integers(0, 100_000, ROWS)],
        "id": ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"] * ROWS,
    }


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any]) -> Path:
    root = tmp_path_factory.mktemp("pairs")
    types = {
        "label": tl.ClassLabel(CLASSES, nullable=True),
        "score": tl.Scalar("float32", nullable=True),
        "wide": "int64",
        "split": tl.Text(nullable=True),
        "boxes": tl.BBox("xyxy"),
        "found": tl.ClassLabel(["a", "b", "c", "d"], per="boxes"),
        "caption": tl.Text(),
        "ok": tl.Bool(),
        "nothing": tl.Scalar("float64", nullable=True),
        "one": "int32",
        "many": tl.ClassLabel([f"class {i}" for i in range(100_000)]),
        "id": tl.Uuid(),
    }
    ds = tl.create(str(root / "pairs"), types, durability="none")
    ds.extend(given)
    ds.commit("pairs")
    tl.create(str(root / "empty"), types, durability="none").commit("nothing")
    return root


@pytest.fixture(scope="module")
def client(lake: Path) -> httpx.Client:
    settings = Settings(url=str(lake), token=TOKEN, signing_key=b"k" * 16, static=lake / "none")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.Client(
        transport=InProcess(create_app(settings)), base_url=HOST, headers=headers, timeout=60
    )


def ask(client: httpx.Client, x: str, y: str, dataset: str = "pairs", **params: str) -> Any:
    answer = client.get(f"/v1/datasets/{dataset}/statistics/{x}/by/{y}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def conditions(axis: dict[str, Any]) -> list[str]:
    """What the viewer asks for the places of an axis (viewer/src/query/conditions.ts)."""
    name = axis["tensor"]
    if axis["classes"] is not None:
        texts = [one["name"].replace("'", "''") for one in axis["classes"]["entries"]]
        if name == "found":
            return [f"CONTAINS(found, '{one}')" for one in texts]
        return [f"{name} = {one}" if name == "ok" else f"{name} = '{one}'" for one in texts]
    x, bounds = axis["histogram"]["expression"], axis["histogram"]["bounds"]
    last = len(bounds) - 2
    return [
        f"{x} >= {low} AND {x} {'<=' if bar == last else '<'} {high}"
        for bar, (low, high) in enumerate(pairwise(bounds))
    ]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("label", "split"),
        ("score", "wide"),
        ("label", "score"),
        ("found", "ok"),
        ("found", "found"),
    ],
)
def test_a_cell_is_a_filter_that_finds_the_rows_it_counts(
    client: httpx.Client, lake: Path, x: str, y: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensorlake_server.stats.histograms.MOST_BARS", 4)  # each cell is a query
    monkeypatch.setattr(sampled_rows, "ROWS_AT_ONCE", 150)
    found = ask(client, x, y)
    ds = tl.open(str(lake / "pairs"))
    columns, lines = conditions(found["x"]), conditions(found["y"])
    assert len(found["counts"]) == len(lines)
    asked = [[len(ds.query(f"WHERE {a} AND {b}")) for a in columns] for b in lines]
    assert found["counts"] == asked
    is_placed = " AND ".join(
        f"({' OR '.join(f'({one})' for one in all_)})" for all_ in (columns, lines)
    )
    assert found["placed"] == len(ds.query(f"WHERE {is_placed}"))


def test_labels_by_labels_and_medians_are_those_of_duckdb(
    client: httpx.Client, given: dict[str, Any]
) -> None:
    table = pa.table({name: given[name] for name in ("label", "split", "score", "wide")})
    con = duckdb.connect()
    con.register("pairs", table)
    counted = con.execute(
        "SELECT label, split, COUNT(*) FROM pairs WHERE label IS NOT NULL AND split IS NOT NULL"
        " GROUP BY ALL"
    ).fetchall()
    found = ask(client, "label", "split")
    columns, lines = (
        [one["name"] for one in found[axis]["classes"]["entries"]] for axis in ("x", "y")
    )
    cells = {
        (CLASSES.index(a), b): found["counts"][j][i]
        for (i, a), (j, b) in product(enumerate(columns), enumerate(lines))
    }
    assert cells == {(label, split): count for label, split, count in counted}
    assert "never" not in columns  # it does not occur
    assert found["medians"] is None

    medians = con.execute(
        "SELECT label, MEDIAN(score) FROM pairs WHERE isfinite(score) AND label IS NOT NULL"
        " GROUP BY label"
    ).fetchall()
    for x, y in (("label", "score"), ("score", "label")):
        by = ask(client, x, y)
        classes = (by["x"]["classes"] or by["y"]["classes"])["entries"]
        told = dict(zip((one["code"] for one in classes), by["medians"], strict=True))
        assert told == pytest.approx(dict(medians))


def test_numbers_by_numbers_are_those_of_numpy(client: httpx.Client, given: dict[str, Any]) -> None:
    found = ask(client, "score", "wide")
    score = np.array([np.nan if one is None else one for one in given["score"]])
    wide = np.array(given["wide"])
    edges = [found[axis]["histogram"]["bounds"] for axis in ("x", "y")]
    is_finite = np.isfinite(score)
    base = int(edges[1][0])  # differences are exact as doubles
    x_edges = np.array(edges[0], np.float32).astype(float)
    counts, _, _ = np.histogram2d(
        wide[is_finite] - base,
        score[is_finite],
        bins=[[int(one) - base for one in edges[1]], x_edges],
    )
    assert found["counts"] == counts.astype(int).tolist()
    assert found["placed"] == int(is_finite.sum())
    assert found["counted"] == found["rows"] == ROWS


def test_a_hundred_thousand_classes_one_value_no_values_and_no_rows(client: httpx.Client) -> None:
    many = ask(client, "many", "one")
    assert len(many["x"]["classes"]["entries"]) == pairs.MOST_CLASSES
    assert many["x"]["classes"]["distinct"] > pairs.MOST_CLASSES
    assert many["counts"] == [[one["rows"] for one in many["x"]["classes"]["entries"]]]
    assert many["placed"] == sum(many["counts"][0])
    assert many["medians"] == [7.0] * pairs.MOST_CLASSES

    nothing = ask(client, "nothing", "label")
    assert (nothing["placed"], nothing["x"]["histogram"]["counts"]) == (0, [])
    assert nothing["counts"] == [[]] * 3

    assert ask(client, "caption", "ok")["x"]["histogram"]["expression"] == "LENGTH(caption)"
    empty = ask(client, "label", "score", "empty")
    assert (empty["rows"], empty["counted"], empty["placed"], empty["counts"]) == (0, 0, 0, [])


def test_the_rows_of_a_query_are_counted_and_a_part_is_spread(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = {"tql": "SELECT score * 2 AS twice, ok WHERE wide % 2 = 0", "limit": 0}
    view = client.post("/v1/datasets/pairs/query", json=query).json()["view"]
    assert ask(client, "twice", "ok", view=view)["x"]["histogram"]["expression"] == "twice"

    monkeypatch.setattr(row_budget, "MAX_ROWS", 40)
    part = ask(client, "one", "ok")
    assert (part["counted"], part["placed"], sum(map(sum, part["counts"]))) == (40, 40, 40)


def test_a_tensor_without_classes_or_numbers_is_refused(client: httpx.Client) -> None:
    answer = client.get("/v1/datasets/pairs/statistics/label/by/id")
    assert answer.status_code == 400
    assert "neither classes nor a number" in answer.json()["detail"]
    assert client.get("/v1/datasets/pairs/statistics/label/by/gone").status_code == 404
