"""A merge decides rows that one branch deleted, and tensors that are ``per`` another together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tests.unit.server.written import Written

MERGE = "/v1/datasets/drawn/merge"


@pytest.fixture
def written(tmp_path: Path, connect: Callable[..., httpx.Client]) -> Written:
    return Written(tmp_path, connect)


@pytest.fixture
def drawn(written: Written) -> tl.Dataset:
    """Both changed the boxes of row 0, and each deleted a row that the other changed."""
    ds = tl.create(
        str(written.lake / "drawn"),
        {"boxes": tl.BBox("xyxy"), "labels": tl.ClassLabel(["a", "b"], per="boxes"), "n": "int64"},
    )
    one = [[0, 0, 1, 1]]
    ds.extend({"boxes": [one] * 4, "labels": [[0]] * 4, "n": range(4)})
    ds.commit("four")
    fix = ds.branch("fix")
    fix["boxes"][0] = [[0, 0, 5, 5]]  # one box, moved: its label is as it was
    fix["n"][2] = 20
    fix.delete([3])
    fix.commit("fix")
    ds["boxes"][0] = one * 3
    ds["labels"][0] = [1, 1, 1]
    ds["n"][3] = 30
    ds.delete([2])
    ds.commit("main")
    return ds


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_what_both_changed_is_decided_by_row(
    written: Written, drawn: tl.Dataset, side: str
) -> None:
    client = written.client("write:drawn")
    preview = client.post(MERGE, json={"source": "fix", "dry_run": True}).json()
    rows = {one["row_id"]: side for one in preview["disputed_rows"]}
    cells: dict[str, dict[str, str]] = {}
    for one in preview["disputed"]:
        cells.setdefault(one["tensor"], {})[one["row_id"]] = side
    asked: dict[str, Any] = {"source": "fix", "decisions": cells}
    some = client.post(MERGE, json={**asked, "rows": dict(list(rows.items())[:1])})
    done = client.post(MERGE, json={**asked, "rows": rows})

    assert [
        (one["deleted_by"], one["version"], one["row"], one["tensors"])
        for one in preview["disputed_rows"]
    ] == [
        ("ours", "fix@2", 2, ["n"]),
        ("theirs", "main@2", 2, ["n"]),
    ]
    assert [(one["tensor"], one["row"]) for one in preview["disputed"]] == [
        ("boxes", 0),
        ("labels", 0),
    ]
    assert (some.status_code, done.status_code) == (409, 200)
    assert "decide the rows that one deleted" in some.json()["detail"]
    merged = tl.open(str(written.lake / "drawn"))
    assert merged["labels"][0].tolist() == ([1, 1, 1] if side == "ours" else [0])
    assert np.asarray(merged["boxes"][0]).shape == (3 if side == "ours" else 1, 4)
    assert sorted(merged["n"][:].tolist()) == ([0, 1, 30] if side == "ours" else [0, 1, 20])
