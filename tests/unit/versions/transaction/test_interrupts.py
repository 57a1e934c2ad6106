"""Ctrl-C while packs are filled and sent: the next commit stores whatever was staged before.

In a folder it may also come between any two steps of what the storage loop does elsewhere.
"""

import os

import pytest

from tensorlake.storage import LocalStore, MemoryStore, runtime
from tensorlake.storage.stores import local
from tensorlake.testing import Fault, FaultyStore
from tensorlake.versions.log import log
from tensorlake.versions.packs import pending_packs as unsent
from tensorlake.versions.packs import writer as stage
from tensorlake.versions.transaction import commit, publish
from tests.support.handles import create_on, open_on
from tests.support.interrupts import interrupted_at

WITHIN = frozenset({stage.__file__, unsent.__file__})


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("pack_nbytes", "fault"), [(1, None), (1, Fault.NOT_STORED), (stage.PACK_NBYTES, None)]
)
def test_an_interrupt_at_any_step_leaves_out_no_pack(monkeypatch, pack_nbytes, fault, stride):
    monkeypatch.setattr(stage, "PACK_NBYTES", pack_nbytes)  # 1: each chunk fills one
    step, was_interrupted = 1, True

    while was_interrupted:
        store = FaultyStore(MemoryStore())
        dataset = create_on(store, {"x": "int64", "text": "str"})
        dataset.extend({"x": [0, 1], "text": ["0", "1"]})
        if fault is not None:
            store.inject(fault, call="put_if_absent", path="packs/", skip=step % 2)
        was_interrupted = interrupted_at(step, dataset.commit, within=WITHIN)
        store.heal()
        dataset.extend({"x": [2], "text": ["2"]})
        dataset.commit()

        read = open_on(store)
        assert read["x"][:].tolist() == [0, 1, 2], f"interrupted at step {step}"
        assert read["text"][:] == dataset["text"][:] == ["0", "1", "2"]
        step += stride

    assert step > 30


@pytest.mark.soak
def test_an_interrupt_at_any_step_leaves_out_no_pack_of_a_folder(monkeypatch, tmp_path):
    """Those are synced later, all at once: an interrupt may come before, between and after."""
    monkeypatch.setattr(stage, "PACK_NBYTES", 1)
    monkeypatch.setattr(
        unsent, "UNSYNCED_NBYTES", 200
    )  # so some are synced while others are staged
    step, was_interrupted = 1, True

    while was_interrupted:
        store = LocalStore(tmp_path / str(step))
        dataset = create_on(store, {"x": "int64", "text": "str"})

        def staged_and_committed(dataset=dataset) -> None:
            dataset.extend({"x": [0, 1], "text": ["0", "1"]})
            dataset.commit()

        was_interrupted = interrupted_at(step, staged_and_committed, within=WITHIN)
        kept = dataset["x"][:].tolist()
        dataset.extend({"x": [2], "text": ["2"]})
        dataset.commit()

        assert kept in ([], [0, 1]), f"interrupted at step {step}"
        read = open_on(store)
        assert read["x"][:].tolist() == [*kept, 2], f"interrupted at step {step}"
        assert read.check().ok
        step += 1

    assert step > 30


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["fsync", "none"])
@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.soak)])
def test_an_interrupt_at_any_step_of_a_commit_in_a_folder_publishes_once(
    tmp_path, monkeypatch, stride, durability
):
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)  # dozens of datasets are made
    step, was_interrupted = 1, True
    steps_of = frozenset(module.__file__ for module in (stage, commit, publish, log, local))

    while was_interrupted:
        store = LocalStore(tmp_path / str(step), durability=durability)
        dataset = create_on(store, {"x": "int64"})
        dataset.append({"x": 0})
        was_interrupted = interrupted_at(step, dataset.commit, within=steps_of)
        assert not runtime.runs_here(), f"interrupted at step {step}"
        dataset.commit()  # what was staged, unless it was published already
        dataset.append({"x": 1})
        dataset.commit()

        read = open_on(store)
        assert read["x"][:].tolist() == [0, 1], f"interrupted at step {step}"
        assert read.version == "main@2", f"interrupted at step {step}"
        step += stride

    assert step > 50
