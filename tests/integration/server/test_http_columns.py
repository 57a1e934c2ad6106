"""Computed columns and constraints of datasets behind a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.support.serving import listening


@dataclass(frozen=True)
class Served:
    """The address of a server over a lake, and a token that may do all."""

    address: str
    token: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("served")
    (root / "lake").mkdir()
    auth, now = root / "tokens.json", datetime.now(UTC)
    token, _ = create_token(auth, name="ana", scopes=["admin"], expires=None, now=now)
    settings = Settings(url=str(root / "lake"), auth=auth, write=True, signing_key=b"k" * 16)
    with listening(create_app(settings)) as address:
        yield Served(address, token)


def test_computed_columns_are_refreshed_and_merged(served: Served) -> None:
    url, token = f"{served.address}/columns", served.token
    ds = tl.create(url, {"x": "int64"}, token=token)
    ds.extend({"x": np.arange(100)})
    ds.add_tensor("y", "int64", compute=_square, inputs=["x"])
    ds.add_tensor("twice", "int64", compute="2 * x")
    ds.commit("declared")
    other = ds.branch("other")
    other.refresh_columns(where="x >= 50")
    other["x"][99] = 7
    other.commit("the second half")
    ds.refresh_columns(where="x < 50")
    ds["x"][60] = 8
    ds.commit("the first half")
    ds.merge("other")
    ds.optimize()

    opened = tl.open(url, token=token)
    assert opened.stale("y").rows.tolist() == [60, 99]
    assert opened.query("WHERE FRESH(y)").count() == 98
    assert opened["y"].to_list()[98] == 98 * 98
    assert opened["twice"][[60, 99]].tolist() == [16, 14]
    assert opened.check().ok


def test_rows_that_break_a_constraint_are_a_409(served: Served) -> None:
    url, token = f"{served.address}/constraints", served.token
    ds = tl.create(url, {"id": "int64", "x": "int64"}, unique="id", token=token)
    ds.add_check("positive", "x > 0")
    ds.extend({"id": [1, 2], "x": [1, 1]})
    ds.commit("two rows")
    ds.append({"id": 2, "x": 1})
    with pytest.raises(tl.ConstraintError):
        ds.commit("again")
    ds.discard()

    answer = httpx.post(
        f"{served.address}/v1/datasets/constraints/transactions",
        json={
            "message": "bad",
            "operations": [{"op": "append", "columns": {"id": [3], "x": [-1]}}],
        },
        headers={"Authorization": f"Bearer {token}"},
    )

    assert answer.status_code == 409, answer.text
    assert answer.json()["code"] == "constraint"
    assert answer.json()["constraint"] == {"check": "positive", "rows": [2]}
    assert tl.open(url, token=token).version == ds.version


def _square(row: dict[str, Any]) -> int:
    return row["x"] ** 2
