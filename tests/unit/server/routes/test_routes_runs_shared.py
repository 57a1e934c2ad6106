"""Runs over HTTP that several ranks shared, or that read a mix or packed rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tensorlake as tl
from tensorlake_server import Settings

TOKEN = "a-token-of-tests"
INVALID = 400


def test_a_mix_has_the_rows_that_values_were_logged_of(tmp_path: Path, connect: Any) -> None:
    one = tl.create(str(tmp_path / "one"), {"x": "int64"}, durability="none")
    one.extend({"x": range(20)})
    one.commit("one")
    other = tl.create(str(tmp_path / "other"), {"x": "int64"}, durability="none")
    other.extend({"x": range(100, 120)})
    other.commit("other")
    log: list[tuple[list[int], list[float]]] = []
    mix = tl.mix({"one": (one, 0.5), "other": (other, 0.5)}, stop="first")
    with one.run("mixed") as run:
        for batch in run.loader(mix, batch_size=6):
            run.log(loss=1.0, per_row={"loss": batch["x"] / 10}, rows=batch)
            log.append((batch["x"].tolist(), (batch["x"] / 10).tolist()))
    packed = tl.create(
        str(tmp_path / "packed"), {"t": tl.Array("uint16", (None,))}, durability="none"
    )
    packed.extend({"t": [np.arange(5)] * 8})
    packed.commit("packed")
    with packed.run("packed") as run:
        for _ in run.loader(packed.pack("t", 8), batch_size=2):
            run.log(loss=2.0)
    client = connect(Settings(url=str(tmp_path), token=TOKEN, static=tmp_path), token=TOKEN)

    def get(path: str) -> Any:
        answer = client.get(f"/v1/datasets/{path}")
        assert answer.is_success, answer.text
        return answer.json()

    step = get("one/runs/mixed/steps/1")
    rows = client.get("/v1/datasets/one/rows", params={"view": step["view"]}).json()["rows"]
    seen = get("one/runs/mixed/rows/3")
    own = [x if x < 20 else None for x in log[1][0]]  # rows of the other dataset are not of this
    assert step["rows"] == own
    assert "a mix" in step["missing"]
    assert step["scalars"]["loss"] == 1.0
    assert [(row["x"], row["loss"]) for row in rows] == [
        pair for pair in zip(*log[1], strict=True) if pair[0] < 20
    ]
    assert seen["steps"] == [step for step, (xs, _) in enumerate(log) if 3 in xs]
    assert seen["values"] == {"loss": [0.3] * len(seen["steps"])}
    assert "a mix" in seen["missing"]
    assert get("packed/runs/packed/metrics/loss")["mean"] == [2.0] * 3
    assert get("packed/runs/packed/steps/0")["rows"] == []
    assert "packed rows" in get("packed/runs/packed/steps/0")["missing"]
    assert get("packed/runs/packed/rows/0")["steps"] == []


def test_a_rank_has_its_part_of_a_batch_and_other_ranks_are_refused(
    tmp_path: Path, connect: Any
) -> None:
    ds = tl.create(str(tmp_path / "shared"), {"x": "int64"}, durability="none")
    ds.extend({"x": range(24)})
    ds.commit("shared")
    log: dict[int, list[int]] = {}
    for rank in (0, 1):
        with ds.run("both") as run:
            for batch in run.loader(batch_size=4, rank=rank, world_size=2):
                run.log(loss=float(rank), per_row={"loss": batch["x"]}, rows=batch["_row"])
                log.setdefault(rank, []).extend(batch["_row"].tolist())
    client = connect(Settings(url=str(tmp_path), token=TOKEN, static=tmp_path), token=TOKEN)
    path = "/v1/datasets/shared/runs/both/steps"

    whole, first, second = (
        client.get(f"{path}/1", params=params).json() for params in ({}, {"rank": 0}, {"rank": 1})
    )

    assert whole["pass"]["ranks"] == 2
    assert first["rows"] == log[0][4:8]
    assert second["rows"] == log[1][4:8]
    assert sorted(whole["rows"]) == sorted(first["rows"] + second["rows"])
    refused = client.get(f"{path}/1", params={"rank": 2})
    assert refused.status_code == INVALID
    assert "rank 2 is not one of the 2 ranks" in refused.json()["detail"]
