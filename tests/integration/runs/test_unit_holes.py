"""Runs of packed rows and of windows without some rows: nothing else moves."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl


@pytest.fixture
def lake(tmp_path):
    tokens = tl.Array("uint16", (None,))
    ds = tl.create(
        tmp_path / "lake.tl",
        {"tokens": tokens, "mask": tl.Array("uint8", (None,)), "x": "int64", "e": "int64"},
    )
    lengths = np.random.default_rng(2).integers(0, 12, 40)
    ds.extend(
        {
            "tokens": [np.full(n, x + 1, np.uint16) for x, n in enumerate(lengths)],
            "mask": [np.ones(n, np.uint8) for n in lengths],
            "x": range(40),
            "e": [x // 9 for x in range(40)],
        }
    )
    ds.commit("forty")
    return ds


def _recorded(lake, rows, **arguments):
    with lake.run("all") as run:
        loader = run.loader(rows, batch_size=3, **arguments)
        seen = [{name: value.copy() for name, value in batch.items()} for batch in loader]
    return seen, lake.runs["all"].of(rows)


@pytest.mark.parametrize("collate", [None, {"tokens": "concat"}])
@pytest.mark.parametrize("split", [True, False])
def test_tokens_of_documents_left_out_are_eos_and_all_others_stay(lake, split, collate):
    packed = lake.pack("tokens", 8, eos=0, split=split, mask="mask")
    seen, run = _recorded(lake, packed, shuffle=True, seed=4, collate=collate)

    other = run.without(lake.query("WHERE x % 4 = 1"))
    made = list(other.loader())

    assert len(made) == len(seen)
    for step, (batch, was) in enumerate(zip(made, seen, strict=True)):
        own, at = was["tokens"].ravel(), np.arange(was["tokens"].size)
        if collate is None:
            part = was["segments"].ravel() + 1000 * (at // 8)
        else:
            part = np.searchsorted(was["cu_seqlens"], at, "right")
        is_hole = np.isin(own, np.arange(2, 41, 4))
        is_hole |= (own == 0) & np.isin(part, part[is_hole])  # its eos
        known = is_hole | (own != 0) | np.isin(part, part[own != 0])  # not a part of eos alone
        for name, value in (("tokens", 0), ("segments", -1), ("positions", 0), ("mask", 0)):
            expected = np.where(is_hole, value, was[name].ravel())
            assert (batch[name].ravel() == expected)[known].all()
        if collate is not None:
            assert batch["cu_seqlens"].tolist() == was["cu_seqlens"].tolist()
        assert other.batch(step)["segments"].tolist() == batch["segments"].tolist()


@pytest.mark.parametrize("framework", ["loader", "torch"])
def test_windows_with_a_row_that_is_left_out_are_holes(lake, framework):
    if framework == "torch":
        pytest.importorskip("torch")
    windows = lake.windows(["x", "tokens"], by="e", size=3, step=2, tail="pad")
    seen, run = _recorded(lake, windows, shuffle=True, seed=4)

    made = list(getattr(run.without(lake.query("WHERE x % 7 = 1")), framework)())

    assert len(made) == len(seen)
    for batch, was in zip(made, seen, strict=True):
        is_hole = (was["x"] % 7 == 1).any(axis=1)
        assert np.asarray(batch["_valid"]).tolist() == (~is_hole).tolist()
        assert np.asarray(batch["x"]).tolist() == np.where(is_hole[:, None], 0, was["x"]).tolist()
        assert np.asarray(batch["_start"]).tolist() == was["_start"].tolist()
        assert not np.asarray(batch["_mask"])[is_hole].any()


def test_windows_of_a_row_that_is_left_out_are_holes_after_decoding(lake):
    windows = lake.windows(["tokens", "x"], size=3, tail="drop")
    steps = {"tokens": tl.decode.Normalize(mean=[5.0], std=[2.0])}
    seen, run = _recorded(lake, windows, decode=steps)

    for batch, was in zip(run.without(lake.query("WHERE x < 20")).loader(), seen, strict=True):
        is_hole = was["x"] < 20
        assert batch["_valid"].tolist() == (~is_hole).tolist()
        assert batch["tokens"].tolist() == np.where(is_hole[:, None], 0, was["tokens"]).tolist()


def test_documents_of_one_source_of_a_packed_mix_are_left_out(lake, tmp_path):
    other = tl.create(tmp_path / "other.tl", {"tokens": tl.Array("uint16", (None,))})
    other.extend({"tokens": [np.full(5, 100 + n, np.uint16) for n in range(10)]})
    other.commit("ten")
    packed = tl.mix({"a": (lake, 1.0), "b": (other, 1.0)}, by="tokens").pack("tokens", 8)
    seen, run = _recorded(lake, packed, shuffle=True, seed=1)

    for batch, was in zip(run.without(other[[2, 3]]).loader(), seen, strict=True):
        is_hole = np.isin(was["tokens"], [102, 103])
        assert batch["segments"].tolist() == np.where(is_hole, -1, was["segments"]).tolist()
        assert batch["tokens"].tolist() == np.where(is_hole, 0, was["tokens"]).tolist()
