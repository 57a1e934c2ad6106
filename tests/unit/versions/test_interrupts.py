"""Ctrl-C while packs are filled and sent: the next commit stores whatever was staged before."""

import pytest

from tensorlake.storage import LocalStore, MemoryStore
from tensorlake.testing import Fault, FaultyStore
from tensorlake.versions import stage, unsent
from tests.handles import create_on, open_on
from tests.interrupts import interrupted_at

WITHIN = frozenset({stage.__file__, unsent.__file__})


@pytest.mark.parametrize(
    ("pack_nbytes", "fault"), [(1, None), (1, Fault.NOT_STORED), (stage.PACK_NBYTES, None)]
)
def test_an_interrupt_at_any_step_leaves_out_no_pack(monkeypatch, pack_nbytes, fault):
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
        step += 1

    assert step > 30


@pytest.mark.soak
def test_an_interrupt_at_any_step_leaves_out_no_pack_of_a_folder(monkeypatch, tmp_path):
    """Those are synced later, all at once: an interrupt may come before, between and after."""
    monkeypatch.setattr(stage, "PACK_NBYTES", 1)
    monkeypatch.setattr(stage, "UNSYNCED_NBYTES", 200)  # so some are synced while others are staged
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
