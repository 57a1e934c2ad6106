"""Ranks of torch.distributed: real processes over gloo, a model in DDP, then another world."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import traceback
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, StateMismatchError, StorageTimeoutError
from tests.unit.loader.conftest import ROWS, fill_pets

torch = pytest.importorskip("torch")

SEED = 5
JOIN_S = 360
READ = {"shuffle": True, "seed": SEED, "columns": ["tokens", "_row"]}


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    with fill_pets(str(tmp_path_factory.mktemp("pets") / "pets.tl")) as dataset:
        yield dataset


def run_worlds(tmp_path, url):
    """Train in a world of three, then in one of two of them; return their answers, by rank."""
    context = multiprocessing.get_context("forkserver")  # fresh, but torch is imported once
    context.set_forkserver_preload([__name__, "torch.distributed.device_mesh"])
    results = context.Queue()
    ranks = [
        context.Process(target=_rank, args=(rank, f"file://{tmp_path}", results, url))
        for rank in range(3)
    ]
    for process in ranks:
        process.start()
    answers = dict(results.get(timeout=JOIN_S) for _ in ranks)
    for process in ranks:
        process.join(JOIN_S)
    failures = [answer for answer in answers.values() if isinstance(answer, str)]
    assert not failures, failures[0]
    return [answers[rank] for rank in range(3)]


def _rank(rank, folder, results, url):
    warnings.simplefilter("ignore")  # torch's own, about its own
    try:
        with _world(3, rank, folder):
            found = [_train_three_steps(rank, url)]
        if rank < 2:
            state = json.loads(json.dumps(found[0][1]))
            with _world(2, rank, folder):
                found.append(_finish_epoch(rank, url, state))
        results.put((rank, found))
    except BaseException:  # noqa: BLE001 - the parent shows it
        results.put((rank, traceback.format_exc()))


@contextmanager
def _world(size, rank, folder):
    torch.distributed.init_process_group(
        "gloo", init_method=f"{folder}/rendezvous-{size}", rank=rank, world_size=size
    )
    yield
    torch.distributed.destroy_process_group()


def _train_three_steps(rank, url):
    """Train a model in DDP on three global batches of twelve rows; say what was seen."""
    with tl.open(url) as dataset:
        loader = dataset.torch(global_batch_size=12, **READ)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 1))
        seen = []
        for step, batch in enumerate(loader):
            seen.append(batch["_row"].tolist())
            loss = model(batch["tokens"].float()).square().mean()
            loss.backward()
            if step == 2:
                break
        gradient = model.module.weight.grad.sum().item()
        return seen, loader.state_dict(), gradient, _disagree(rank, url)


def _disagree(rank, url):
    """Read an older version on the last rank, then start a loader on it alone."""
    last = torch.distributed.get_world_size() - 1
    with tl.open(url, version="main@2" if rank == last else None) as dataset:
        found = []
        try:
            next(iter(dataset.torch(global_batch_size=12, **READ)))
        except StateMismatchError as error:
            found.append(str(error))
        if rank == last:
            alone = dataset.torch(global_batch_size=12, columns=["label"], timeout=0.05)
            try:
                next(iter(alone))
            except StorageTimeoutError as error:
                found.append(str(error))
            told = dataset.torch(batch_size=12, columns=["label"], rank=0, world_size=1)
            found.append(len(next(iter(told))["label"]))
        return found


def _finish_epoch(rank, url, state):
    with tl.open(url) as dataset:
        loader = dataset.torch(global_batch_size=10, **READ)
        loader.load_state_dict(state)
        rows = [batch["_row"].tolist() for batch in loader]
        return rows, loader.state_dict(), _rows_of_meshes(dataset)


def _rows_of_meshes(dataset):
    """Return the first batch of meshes that split the data, repeat it, and are of others."""
    found = []
    for shape, names in [((2, 1), ("dp", "tp")), ((1, 2), ("dp_shard", "tp"))]:
        sizes = dict(zip(names, shape, strict=True))
        device_mesh = torch.distributed.device_mesh.init_device_mesh(
            "cpu", shape, mesh_dim_names=names
        )
        for mesh in (sizes, device_mesh):
            loader = dataset.torch(global_batch_size=10, mesh=mesh, **READ)
            found.append(next(iter(loader))["_row"].tolist())
    again = pickle.loads(pickle.dumps(loader))
    found.append(next(iter(again))["_row"].tolist())
    try:
        dataset.torch(global_batch_size=10, mesh={"dp": 3}, **READ)
    except InvalidInputError as error:
        found.append(str(error))
    return found


def test_ranks_in_ddp_share_one_order_and_another_world_continues_it(pets, tmp_path):
    (whole,) = pets.loader(batch_size=ROWS, shuffle=True, seed=SEED, columns=["_row"])
    expected = whole["_row"].tolist()

    answers = run_worlds(tmp_path, pets.url)
    three = [found[0] for found in answers]
    two = [found[1] for found in answers[:2]]

    seen = [rows for step in range(3) for rank in three for rows in rank[0][step]]
    assert seen == expected[:36]
    assert three[0][1] == three[1][1] == three[2][1]
    assert len({rank[2] for rank in three}) == 1  # DDP: all ranks have the same gradient
    rest = [row for step in range(3) for rank in two for row in rank[0][step]]
    assert seen + rest == expected
    assert two[0][1] == two[1][1]
    assert (two[0][1]["epoch"], two[0][1]["position"]) == (1, 0)

    for rank, (*_, meshes) in enumerate(two):
        split, split_too, repeated, repeated_too, elsewhere, refused = meshes
        assert split == split_too == expected[:10][rank * 5 : (rank + 1) * 5]
        assert repeated == repeated_too == expected[:10]
        assert elsewhere == expected[10:20]  # it goes on there
        assert "mesh= is of 3 processes (dp 3), but there are 2" in refused

    first, second, last = (rank[3] for rank in three)
    assert first == second == []  # rank 0 is who the others are compared with
    mismatch, alone, rows = last
    assert "rank 2 would stream another order than rank 0" in mismatch
    assert "version  rank 0 'main@3', rank 2 'main@2'" in mismatch
    assert "rank 0 did not start" in alone
    assert rows == 12
    assert np.unique(expected).size == ROWS
