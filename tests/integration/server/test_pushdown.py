"""Queries over ``http://``: they run at the server, and answer what they answer on the lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import QueryLimitError, QuerySyntaxError
from tensorlake.storage import counted
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

ROWS = 5000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pushed")
    ds = tl.create(
        str(root / "pets"),
        {
            "label": tl.ClassLabel(["cat", "dog", "bird"]),
            "score": "float32",
            "caption": tl.Text(nullable=True),
            "boxes": tl.BBox("xyxy"),
            "vector": tl.Embedding(16),
        },
        durability="none",
    )
    rng = np.random.default_rng(1)
    ds.extend(
        {
            "label": rng.integers(0, 3, ROWS),
            "score": rng.random(ROWS, dtype=np.float32),
            "caption": [None if row % 7 == 0 else f"picture {row}" for row in range(ROWS)],
            "boxes": [np.ones((row % 3, 4), np.float32) for row in range(ROWS)],
            "vector": rng.random((ROWS, 16), dtype=np.float32),
        }
    )
    ds.commit("rows")
    return root


@pytest.fixture(scope="module")
def address(lake: Path) -> Iterator[str]:
    with listening(create_app(Settings(url=str(lake), public_read=True))) as url:
        yield url


def shown(view: tl.View) -> list[Any]:
    """All that a view says: its columns, its rows, and what it computes."""
    computed = {
        name: list(map(repr, one.present())) for name, one in rowset_of(view).computed.items()
    }
    rows = view.rows.tolist() if rowset_of(view).has_rows else None
    return [
        rowset_of(view).selection.columns,
        computed,
        rows,
        len(view),
        view.tql,
        view.explain().partition("\nscans")[0],
    ]


QUERIES: list[tuple[str, dict[str, Any]]] = [
    ("WHERE label = 'dog' AND score > $low", {"low": 0.5}),
    ("SELECT label, score * 2 AS twice, boxes WHERE score > 0.99 ORDER BY score DESC LIMIT 20", {}),
    ("SELECT caption WHERE CONTAINS(caption, '99') OFFSET 2", {}),
    ("SELECT label, COUNT(*) AS n, AVG(score) AS mean GROUP BY label ORDER BY n DESC", {}),
    ("SELECT MAX(score) AS most, MIN(caption) AS first", {}),
    ("ORDER BY COSINE_SIMILARITY(vector, $v) DESC LIMIT 5", {"v": np.ones(16, np.float32)}),
    ("SELECT score, score + $more AS more WHERE label IN ('cat', 'bird') LIMIT 7", {"more": 1}),
]


@pytest.mark.parametrize(("text", "params"), QUERIES)
def test_a_query_answers_the_same_through_a_server(
    lake: Path, address: str, text: str, params: dict[str, Any]
) -> None:
    here, there = tl.open(str(lake / "pets")), tl.open(f"{address}/pets")

    assert shown(there.query(text, **params)) == shown(here.query(text, **params))


def test_no_column_is_read_through_the_client(address: str) -> None:
    there = tl.open(f"{address}/pets")
    len(there.query("WHERE score > 2"))  # what opens once

    with counted() as tally:
        found = there.query("SELECT score, caption WHERE CONTAINS(caption, '9') AND score > 0.5")

    assert len(found) > 0
    assert tally.nbytes == 0


def test_queries_over_queries_and_conditions_are_pushed_too(lake: Path, address: str) -> None:
    def views(ds: tl.Dataset) -> Iterator[tl.View]:
        yield ds.query("WHERE score > 0.2 ORDER BY score").query("WHERE label = 'cat' LIMIT 30")
        yield ds.where("score > 0.9")
        yield ds[["label", "score"]].order_by("score DESC")

    pairs = zip(views(tl.open(str(lake / "pets"))), views(tl.open(f"{address}/pets")), strict=True)
    for local, remote in pairs:
        assert shown(remote) == shown(local)
        assert rowset_of(remote).steps is not None


def test_random_rows_are_named_by_their_text_on_both_sides(lake: Path, address: str) -> None:
    found = tl.open(f"{address}/pets").query("WHERE RANDOM() < 0.1")

    assert found.tql is not None
    again = tl.open(str(lake / "pets")).query(found.tql)
    assert found.rows.tolist() == again.rows.tolist()


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda ds: ds[[3, 1, 2]].query("WHERE score >= 0"), "chosen by hand"),
        (lambda ds: ds.query("SELECT RANDOM() AS r WHERE score > 0.9"), "RANDOM"),
        (lambda ds: ds.query("WHERE score > 0.99 UNION WHERE score < 0.01"), "several"),
    ],
)
def test_what_a_server_cannot_run_runs_here_and_says_so(address: str, ask: Any, why: str) -> None:
    there = tl.open(f"{address}/pets")

    with pytest.warns(tl.RunsHereWarning, match=why):
        assert len(ask(there)) > 0


def test_errors_are_those_of_a_local_query(address: str) -> None:
    with pytest.raises(QuerySyntaxError, match="line 1"):
        tl.open(f"{address}/pets").query("WHERE score >")


def test_a_query_that_reads_too_much_is_ended_by_the_server(lake: Path) -> None:
    settings = Settings(url=str(lake), public_read=True, max_query_nbytes=10_000)
    with listening(create_app(settings)) as url:
        there = tl.open(f"{url}/pets")

        with pytest.raises(QueryLimitError, match="10,000"):
            there.query("ORDER BY COSINE_SIMILARITY(vector, $v) DESC LIMIT 5", v=np.ones(16))
