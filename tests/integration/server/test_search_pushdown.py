"""``ds.search`` over ``http://``: it runs at the server, and finds what it finds on the lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import InvalidInputError, QueryNameError, RunsHereWarning
from tensorlake.storage import counted
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

ROWS = 6000
VECTOR = np.linspace(-1, 1, 16).astype(np.float32)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("searched")
    types = {"vec": tl.Embedding(16), "text": "str", "n": "int64"}
    ds = tl.create(str(root / "notes"), types, durability="none")
    rng = np.random.default_rng(1)
    texts = [f"note {row} {'red' if row % 9 == 0 else 'blue'}" for row in range(ROWS)]
    vectors = rng.standard_normal((ROWS, 16)).astype(np.float32)
    ds.extend({"vec": vectors, "text": texts, "n": np.arange(ROWS)})
    ds.create_index("vec")
    ds.create_index("text", "text")
    ds.commit("notes")
    return root


@pytest.fixture(scope="module")
def address(lake: Path) -> Iterator[str]:
    with listening(create_app(Settings(url=str(lake), public_read=True))) as url:
        yield url


def shown(view: tl.View) -> list[Any]:
    computed = {
        name: list(map(repr, one.present())) for name, one in rowset_of(view).computed.items()
    }
    rows = rowset_of(view)
    return [rows.selection.columns, computed, view.rows.tolist(), view.explain()]


SEARCHES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("vec", VECTOR), {}),
    (("vec", [VECTOR, -VECTOR], 3), {"recall": 0.99}),
    (("vec", VECTOR, 5), {"exact": True, "where": "n % 2 = $odd", "params": {"odd": 1}}),
    (("text", "red note"), {"k": 7}),
    (("text", ["red", "none", "blue"]), {"k": 2}),
    (("vec", VECTOR, 4), {"hybrid": ("text", "red")}),
    (("vec", [VECTOR, VECTOR], 4), {"hybrid": ("text", ["red", "12 13"])}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "named"), SEARCHES)
def test_a_search_finds_the_same_through_a_server(
    lake: Path, address: str, asked: tuple[Any, ...], named: dict[str, Any]
) -> None:
    here, there = tl.open(str(lake / "notes")), tl.open(f"{address}/notes")

    assert shown(there.search(*asked, **named)) == shown(here.search(*asked, **named))


def test_nothing_is_read_through_the_client(address: str) -> None:
    there = tl.open(f"{address}/notes")
    there.search("vec", VECTOR)  # what opens once

    with counted() as tally:
        found = there.search("vec", VECTOR, where=there["n"] > 100)

    assert len(found) == 10
    assert min(found["n"][:]) > 100
    assert tally.nbytes == 0


def test_a_view_that_queries_made_is_searched_at_the_server(lake: Path, address: str) -> None:
    views = [
        tl.open(url).where("n < 900")[["text", "n"]]
        for url in (str(lake / "notes"), f"{address}/notes")
    ]

    assert shown(views[1].search("text", "red")) == shown(views[0].search("text", "red"))


def test_a_search_that_a_server_cannot_run_runs_here(lake: Path, address: str) -> None:
    here, there = tl.open(str(lake / "notes")), tl.open(f"{address}/notes")
    chosen = np.arange(40)[::-1]

    with pytest.warns(RunsHereWarning, match="chosen by hand"):
        found = there[chosen].search("vec", VECTOR, 3)
    with pytest.warns(RunsHereWarning, match="more than the 1,000"):
        many = there.search("text", "red", 2000)

    assert found.rows.tolist() == here[chosen].search("vec", VECTOR, 3).rows.tolist()
    assert many.rows.tolist() == here.search("text", "red", 2000).rows.tolist()


def test_errors_are_those_of_a_search_here(address: str) -> None:
    there = tl.open(f"{address}/notes")

    with pytest.raises(InvalidInputError, match="params"):
        there.search("text", "a", params={"x": 1})
    with pytest.raises(QueryNameError, match="nothing"):
        there.search("text", "a", where="nothing = 1")
