"""diagnose() names what was slowed down on purpose, and its settings are arguments of a loader."""

from __future__ import annotations

import time
import zlib

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.storage import MemoryStore
from tensorlake.testing import ThrottledStore
from tests.support.commands import tensorlake
from tests.support.handles import create_on, open_on, wait_for_storage

ROWS, ROW_NBYTES, BATCH = 600, 20_000, 16
BUDGET_S = 5.0
SIDE = 640


def filled(rows):
    store = MemoryStore()
    with create_on(store, {"x": tl.Array("uint8", shape=(ROW_NBYTES,)), "y": "int64"}) as writer:
        x = np.random.default_rng(0).integers(0, 255, (rows, ROW_NBYTES), np.uint8)
        writer.extend({"x": x, "y": np.arange(rows)})
        writer.commit()
        wait_for_storage()
    return store


@pytest.fixture(scope="module")
def stored():
    return filled(ROWS)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    url = str(tmp_path_factory.mktemp("pictures") / "pictures.tl")
    noise = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), np.uint8)
    with tl.create(url, {"image": tl.Image(codec="jpeg")}) as writer:
        writer.extend({"image": [noise] * 64})
        writer.commit()
    return url


def spend(seconds):
    """Take processor time without the interpreter's lock."""
    data, stop = bytes(1 << 20), time.thread_time() + seconds
    while time.thread_time() < stop:
        zlib.crc32(data)


def hold(seconds):
    """Take processor time with the interpreter's lock."""
    stop = time.thread_time() + seconds
    while time.thread_time() < stop:
        pass


def sleeps(row):
    time.sleep(0.03)
    return {"y": row["y"]}


def computes(row):
    spend(0.03)
    return {"y": row["y"]}


def locks(row):
    hold(0.03)
    return {"y": row["y"]}


FAR = {"latency_s": 0.25}
CASES = {
    "slow store": ("latency", FAR, {"cache": 0, "shuffle": "full"}),
    "narrow store": ("bandwidth", {"nbytes_per_s": 1e6}, {"cache": 0, "shuffle": "full"}),
    "transform that sleeps": ("transform", {}, {"transform": sleeps}),
    "transform that computes": ("transform", {}, {"transform": computes}),
    "transform that holds the lock": ("transform", {}, {"transform": locks}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_was_slowed_down_is_named(stored, case):
    name, conditions, arguments = CASES[case]
    store = ThrottledStore(stored, **conditions) if conditions else stored
    with open_on(store) as ds, ds.loader(batch_size=BATCH, **arguments) as loader:
        found = loader.diagnose(budget_s=BUDGET_S)
        with ds.loader(batch_size=BATCH, **{**arguments, **found.settings}) as faster:
            assert len(faster) == len(loader)

    assert found.bottleneck == name, found
    low, high = found.interval
    assert low <= found.rate <= high
    if name == "transform":
        assert found.model.transform.wall.value == pytest.approx(0.03, rel=0.1, abs=0.002)
    if case == "transform that sleeps":
        assert found.settings["workers"] > 2


@pytest.mark.slow
def test_a_small_prefetch_is_named_and_made_larger():
    store = ThrottledStore(filled(7 * ROWS), **FAR)  # of many chunks
    with open_on(store) as ds, ds.loader(batch_size=BATCH, cache=0, prefetch="64KiB") as loader:
        found = loader.diagnose(budget_s=BUDGET_S)

    assert found.bottleneck == "prefetch", found
    assert found.settings["prefetch"] == "256MiB"


@pytest.mark.slow
def test_a_slow_step_is_named_and_its_time_recovered(stored):
    with open_on(stored) as ds, ds.loader(batch_size=BATCH) as loader:
        found = loader.diagnose(lambda batch: time.sleep(0.2), budget_s=BUDGET_S)

    assert found.bottleneck == "step"
    assert found.stalls["compute"] == pytest.approx(0.2, rel=0.1, abs=0.002)
    assert sum(found.stalls.values()) == pytest.approx(0.2, rel=0.1, abs=0.002)
    assert not found.settings


@pytest.mark.slow
def test_slow_decoding_is_named(pictures):
    with (
        tl.open(pictures) as ds,
        ds.loader(batch_size=8, decode={"image": tl.decode.Resize(32, 32)}) as loader,
    ):
        found = loader.diagnose(budget_s=BUDGET_S)

    assert found.bottleneck == "decode"


def test_a_diagnosis_is_text_a_dict_and_a_page_and_moves_nothing(stored, tmp_path):
    with open_on(stored) as ds, ds.loader(batch_size=BATCH, shuffle=True, seed=1) as loader:
        batches = iter(loader)
        next(batches)
        before = loader.state_dict()

        found = loader.diagnose(step=len, budget_s=0.4)
        found.to_html(tmp_path / "page.html")

        assert loader.state_dict() == before
        assert next(batches)
    page = (tmp_path / "page.html").read_text()
    assert found.bottleneck
    assert found.sentence in str(found)
    assert set(found.to_dict()["stalls"]) == set(found.stalls)
    assert "<svg" in page
    assert "<script" not in page


@pytest.mark.parametrize(("step", "budget_s"), [(3, 1), (None, 0), (None, -1), (None, 10**6)])
def test_what_cannot_be_a_step_or_a_budget_is_refused(stored, step, budget_s):
    with (
        open_on(stored) as ds,
        ds.loader(batch_size=BATCH) as loader,
        pytest.raises(InvalidInputError, match=r"step=|budget_s"),
    ):
        loader.diagnose(step, budget_s)


def test_a_loader_without_batches_is_refused():
    ds = tl.create("memory://diagnose-nothing", {"x": "int64"})
    ds.extend({"x": [1]})
    ds.commit()

    with pytest.raises(InvalidInputError, match="no batch"):
        ds.query("WHERE x > 1").loader(batch_size=2).diagnose(budget_s=0.2)


def test_a_run_is_diagnosed_while_it_records_and_afterwards():
    ds = tl.create("memory://diagnose-run", {"x": "int64"})
    ds.extend({"x": range(64)})
    ds.commit()
    with ds.run("first") as recorded:
        loader = recorded.loader(batch_size=8)
        for _ in loader:
            time.sleep(0.002)
        live = recorded.diagnose(budget_s=0.4)

    again = ds.runs["first"].diagnose(budget_s=0.4)

    assert live.has_step
    assert again.has_step
    with ds.run("second") as nothing, pytest.raises(InvalidInputError, match="no pass"):
        nothing.diagnose()


@pytest.mark.slow
def test_bench_diagnoses_a_dataset(pictures, tmp_path):
    arguments = ["bench", pictures, "--diagnose", "--decode", "32", "--html", "page.html"]

    status, printed = tensorlake(arguments, folder=tmp_path)

    assert status == 0, printed
    assert "formula" in printed
    assert (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_explain_says_that_a_store_does_not_answer(stored):
    store = ThrottledStore(stored)
    with open_on(store) as ds, ds.loader(batch_size=BATCH) as loader:
        loader.order  # noqa: B018 - which reads the index
        store.latency_s = 60.0

        text = loader.explain()

    assert "unknown: no batch within" in text
