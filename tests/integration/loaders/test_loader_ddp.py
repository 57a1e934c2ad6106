"""Ranks of torch.distributed: real processes over gloo, a model in DDP, then another world.

What ranks have to agree on before each pass is here too.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import socket
import traceback
import warnings
from contextlib import contextmanager
from itertools import chain

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


def run_worlds(url):
    """Train in a world of three, then in one of two of them; return their answers, by rank."""
    context = multiprocessing.get_context("forkserver")  # fresh, but torch is imported once
    context.set_forkserver_preload([__name__, "torch.distributed.device_mesh"])
    results = context.Queue()
    ports = [_free_port(), _free_port()]
    ranks = [context.Process(target=_rank, args=(rank, ports, results, url)) for rank in range(3)]
    return _answers(ranks, results)


def _answers(ranks, results):
    for process in ranks:
        process.start()
    answers = dict(results.get(timeout=JOIN_S) for _ in ranks)
    for process in ranks:
        process.join(JOIN_S)
    failures = [answer for answer in answers.values() if isinstance(answer, str)]
    assert not failures, failures[0]
    return [answers[rank] for rank in range(len(ranks))]


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _rank(rank, ports, results, url):
    warnings.simplefilter("ignore")  # torch's own, about its own
    try:
        with tl.open(url) as dataset:  # made before the group, as Lightning's fit() gets it
            early = dataset.torch(global_batch_size=12, **READ)
            with _world(3, rank, ports[0]):
                found = [_train_three_steps(rank, url, early)]
        if rank < 2:
            state = json.loads(json.dumps(found[0][1]))
            with _world(2, rank, ports[1]):
                found.append(_finish_epoch(rank, url, state))
        results.put((rank, found))
    except BaseException:  # noqa: BLE001 - the parent shows it
        results.put((rank, traceback.format_exc()))


@contextmanager
def _world(size, rank, port):
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size
    )
    yield
    torch.distributed.barrier()  # rank 0 has the store that others may still read
    torch.distributed.destroy_process_group()


def _train_three_steps(rank, url, loader):
    """Train a model in DDP on three global batches of twelve rows; say what was seen."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 1))
    seen = []
    for step, batch in enumerate(loader):
        seen.append(batch["_row"].tolist())
        loss = model(batch["tokens"].float()).square().mean()
        loss.backward()
        if step == 2:
            break
    gradient = model.module.weight.grad.sum().item()
    return seen, loader.state_dict(), gradient, _disagree(rank, url, loader)


def _disagree(rank, url, loader):
    """Differ on the last rank, in several ways; return what is raised."""
    is_last = rank == torch.distributed.get_world_size() - 1
    found = []
    with tl.open(url, version="main@2" if is_last else None) as dataset:
        found.append(_error_of(dataset.torch(global_batch_size=12, **READ)))
    with tl.open(url) as dataset:
        loader.set_epoch(6 if is_last else 5)  # and not in its first pass
        found.append(_error_of(loader))
        loader.set_epoch(7)
        found.append(next(iter(loader))["_row"].tolist())
        found.append(_error_of(dataset.loader(batch_size=4, columns=["label"], drop_last=is_last)))
        found.append(_errors_of_functions(dataset, is_last))
        step = tl.decode.Cast("int32" if is_last else "int64")
        read = {"columns": ["tokens"], "batch_transform": _same if is_last else None}
        found.append(_error_of(dataset.torch(batch_size=4, decode={"tokens": step}, **read)))
        found.append(_errors_of_a_mix(dataset, rank))
        found.append(_keys_left_by_passes(loader))
        loader.set_epoch(8)
        found.append(_rows_of_workers(loader, "fork"))
        if is_last:
            found.append(_error_of(dataset.torch(batch_size=12, columns=["label"], timeout=0.05)))
            told = dataset.torch(batch_size=12, columns=["label"], rank=0, world_size=1)
            found.append(len(next(iter(told))["label"]))
    return found


def _error_of(loader):
    try:
        next(iter(loader))
    except (StateMismatchError, StorageTimeoutError) as error:
        return str(error)


def _keys_left_by_passes(loader):
    """Return how many texts the store of the group has after one pass, and after three more."""
    store, found = torch.distributed.distributed_c10d._get_default_store(), []
    for passes in (1, 3):
        for _ in range(passes):
            next(iter(loader))
        torch.distributed.barrier()
        found.append(store._underlying_non_prefix_store.num_keys())
        torch.distributed.barrier()
    return found


def _rows_of_workers(loader, method):
    """Return what workers of a DataLoader read, which compare ranks through this process."""
    workers = torch.utils.data.DataLoader(
        loader, batch_size=None, num_workers=2, multiprocessing_context=method
    )
    return [batch["_row"].tolist() for batch in workers]


def _same(batch):
    return batch


def _errors_of_functions(dataset, is_last):
    """Return what is raised for transforms of one name, first the same ones and then others."""

    def one():
        return lambda row: {name: row[name] for name in row if name in {"label", "a", "b"}}

    def other():
        return lambda row: row | {"more": row["label"] + (2 if is_last else 1)}

    functions = (lambda row: dict(row)) if is_last else (lambda row: row)  # noqa: PLW0108 - another
    read = {"batch_size": 4, "columns": ["label"], "deterministic": False}
    return [
        _error_of(dataset.torch(transform=given, **read)) for given in (one(), other(), functions)
    ]


def _errors_of_a_mix(dataset, rank):
    """Return in which batch of 2¹⁴ rows a mix differs whose weights do from place 65,536 on."""
    weight = lambda place: 2.0 if place >= 65_536 and rank else 1.0  # noqa: E731 - one use
    mixed = tl.mix({"a": (dataset[:20], weight), "b": (dataset[20:], 1.0)}, stop="never")
    loader = mixed.torch(global_batch_size=1 << 14, shuffle=True, columns=["label"])
    batches = 0
    try:
        for batches, _ in enumerate(loader, start=1):  # noqa: B007 - it is what is returned
            pass
    except StateMismatchError as error:
        return batches, str(error)


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


@pytest.mark.slow
def test_ranks_in_ddp_share_one_order_and_another_world_continues_it(pets):
    (whole,) = pets.loader(batch_size=ROWS, shuffle=True, seed=SEED, columns=["_row"])
    expected = whole["_row"].tolist()

    answers = run_worlds(pets.url)
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

    assert np.unique(expected).size == ROWS
    first, second, (*last, late, rows) = (rank[3] for rank in three)
    for version, epoch, _, size, functions, steps, mixed, keys, _ in (
        first,
        second,
        last,
    ):  # all raise
        assert keys[0] == keys[1]
        assert "rank 2 would stream a different order than rank 0" in version
        assert "version  rank 0 'main@3', rank 2 'main@2'" in version
        assert "rank 0: epoch differ\n   epoch  rank 0 5, rank 2 6\n" in epoch
        assert "drop_last  rank 0 False, rank 2 True" in size
        assert functions[:2] == [None, None]  # the values that they close over are not compared
        assert "rank 0: transform differ" in functions[2]
        assert "_errors_of_functions.<locals>.<lambda> (code " in functions[2]
        assert "decode, batch_transform differ" in steps
        assert mixed[0] == 65_536 >> 14
        assert "rank 1 would stream a different order than rank 0: order differ" in mixed[1]
    found = zip(first[-1], second[-1], last[-1], strict=True)
    alone = pets.loader(global_batch_size=12, **READ)
    alone.set_epoch(8)
    assert [[*chain(*batch)] for batch in found] == [batch["_row"].tolist() for batch in alone]
    agreed = [row for found in (first, second, last) for row in found[2]]
    assert len(set(agreed)) == len(agreed) == 12
    assert "rank 0, 1 did not start" in late
    assert rows == 12


def _differ_in_workers(rank, port, results, url):
    """Differ in DataLoader workers, by each way to start them; then read an epoch."""
    warnings.simplefilter("ignore")
    try:
        with _world(2, rank, port), tl.open(url) as dataset:
            loader, found = dataset.torch(global_batch_size=12, **READ), []
            for method in ("fork", "spawn", "forkserver"):
                loader.set_epoch(6 if rank else 5)
                try:
                    _rows_of_workers(loader, method)
                except StateMismatchError as error:
                    found.append(str(error))
                loader.set_epoch(8)
                found.append(_rows_of_workers(loader, method))
        results.put((rank, found))
    except BaseException:  # noqa: BLE001 - the parent shows it
        results.put((rank, traceback.format_exc()))


@pytest.mark.soak  # torch waits five seconds for each worker of a DataLoader that has raised
def test_ranks_whose_workers_differ_raise_in_each_way_to_start_them(pets):
    context = multiprocessing.get_context("spawn")
    results, port = context.Queue(), _free_port()
    ranks = [
        context.Process(target=_differ_in_workers, args=(rank, port, results, pets.url))
        for rank in range(2)
    ]
    alone = pets.loader(global_batch_size=12, **READ)
    alone.set_epoch(8)
    expected = [batch["_row"].tolist() for batch in alone]

    first, second = _answers(ranks, results)

    for start in range(0, 6, 2):
        for found in (first, second):
            assert "epoch  rank 0 5, rank 1 6" in found[start]
        read = zip(first[start + 1], second[start + 1], strict=True)
        assert [[*chain(*batch)] for batch in read] == expected
