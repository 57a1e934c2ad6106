"""Optimizing again and again while other processes append, update and delete."""

import numpy as np
import pytest

import tensorlake as tl
from tests.support.upkeepers import (
    COMMITS,
    GROUP,
    append_steadily,
    delete_steadily,
    update_steadily,
)
from tests.support.writers import fork_server

OPTIMIZATIONS = 6


@pytest.mark.slow
def test_optimizing_loses_nothing_that_appending_updating_and_deleting_processes_do(tmp_path):
    """format.md 11, with real processes on a folder: no conflict, no lost write, no row back."""
    url = str(tmp_path / "lake")
    ds = tl.create(url, {"kind": "int64", "number": "int64", "text": "str"})
    for kind in range(2):  # rows that are updated, and rows that are deleted
        for part in range(4):
            numbers = np.arange(part * GROUP // 4, (part + 1) * GROUP // 4)
            texts = [f"{kind} {number}" for number in numbers]
            ds.extend({"kind": np.full(len(numbers), kind), "number": numbers, "text": texts})
            ds.commit()
    context = fork_server()
    work = (append_steadily, update_steadily, delete_steadily)
    processes = [context.Process(target=one, args=(url,)) for one in work]
    for process in processes:
        process.start()

    optimizations = 0
    while any(process.is_alive() for process in processes) or optimizations < OPTIMIZATIONS:
        tl.open(url).optimize(order_by="number DESC" if optimizations % 4 == 3 else None)
        optimizations += 1

    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    end = tl.open(url)
    end.optimize()
    found = sorted(
        zip(end["kind"][:].tolist(), end["number"][:].tolist(), end["text"][:], strict=True)
    )
    updated = [(0, n, f"updated {n}" if n < COMMITS else f"0 {n}") for n in range(GROUP)]
    deleted = [(1, n, f"1 {n}") for n in range(COMMITS, GROUP)]
    appended = [(2, n, f"appended {n}") for n in range(COMMITS)]
    assert found == sorted([*updated, *deleted, *appended])
    assert end.check().ok
    assert len(set(end.row_ids)) == len(end)
