"""JAX loaders: jax arrays, global ones along a sharding, batches that keep their size."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.unit.loader.conftest import ROWS, fill_pets

jax = pytest.importorskip("jax")


@pytest.fixture(scope="module")
def pets():
    with fill_pets("memory://loader-jax-pets") as dataset:
        yield dataset


def test_batches_are_jax_arrays_that_say_which_rows_count(pets):
    loader = pets.jax(
        global_batch_size=16, decode={"image": tl.decode.Resize(8, 8)}, columns=["image", "label"]
    )

    batches = list(loader)

    assert all(isinstance(batches[0][name], jax.Array) for name in ("image", "label", "_valid"))
    assert batches[0]["image"].shape == (16, 8, 8, 3)
    assert sum(int(batch["_valid"].sum()) for batch in batches) == ROWS


def test_a_sharding_makes_global_arrays(pets):
    devices = np.array(jax.devices())
    mesh = jax.sharding.Mesh(devices, ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))

    loader = pets.jax(global_batch_size=20, sharding=sharding, columns=["tokens", "_row"])
    batch = next(iter(loader))

    assert batch["tokens"].sharding == sharding
    assert batch["tokens"].shape == (20, 300)
    assert np.asarray(batch["_row"]).tolist() == list(range(20))


@pytest.fixture(scope="module")
def wide():
    schema = {
        "time": tl.Timestamp(),
        "id": "int64",
        "hash": "uint64",
        "mass": "float64",
        "wave": "complex128",
        "ids": tl.Array("int64", (None,)),
    }
    with tl.create("memory://loader-jax-wide", schema) as dataset:
        dataset.extend(
            {
                "time": ["2024-01-01", "2025-01-01"],
                "id": [2**31, -(2**31) - 1],
                "hash": np.array([2**32, 2**64 - 1], np.uint64),
                "mass": [1e300, np.inf],
                "wave": [1e300 + 1j, 0],
                "ids": [[1], [2, 2**40]],
            }
        )
        dataset.commit()
        yield dataset


@pytest.mark.parametrize("is_sharded", [False, True])
@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("time", "1704067200000000", "int32"),
        ("id", "2147483648", "int32"),
        ("hash", "4294967296", "uint32"),
        ("mass", r"1e\+300", "float32"),
        ("wave", r"\(1e\+300\+1j\)", "complex64"),
        ("ids", "1099511627776", "int32"),
    ],
)
def test_a_value_outside_of_32_bits_is_refused(wide, column, value, stored, is_sharded):
    one = jax.sharding.SingleDeviceSharding(jax.devices()[0]) if is_sharded else None
    collate = {"ids": "pad"} if column == "ids" else None
    loader = wide.jax(global_batch_size=2, columns=[column], collate=collate, sharding=one)

    with pytest.raises(InvalidInputError, match=rf"'{column}' .* {value}, .* {stored}.*\n.*x64"):
        next(iter(loader))


def test_64_bits_are_exact_where_jax_has_them(wide):
    columns = ["time", "id", "hash", "mass", "wave", "ids"]
    read = {"batch_size": 2, "columns": columns, "collate": {"ids": "pad"}}

    with jax.enable_x64(new_val=True):
        batch = next(iter(wide.jax(**read)))

    expected = next(iter(wide.loader(**read)))
    for column in columns:
        assert batch[column].dtype == expected[column].dtype, column
        np.testing.assert_array_equal(np.asarray(batch[column]), expected[column])


def test_values_within_32_bits_become_them():
    numbers = [-(2**31), 2**31 - 1, 0]
    masses = [0.1, -np.inf, np.finfo(np.float32).max]
    with tl.create("memory://loader-jax-narrow", {"id": "int64", "mass": "float64"}) as dataset:
        dataset.extend({"id": numbers, "mass": masses})
        dataset.commit()

        batch = next(iter(dataset.jax(batch_size=3)))

    assert (batch["id"].dtype, batch["mass"].dtype) == ("int32", "float32")
    assert batch["id"].tolist() == numbers
    np.testing.assert_array_equal(np.asarray(batch["mass"]), np.float32(masses))


def test_sharding_and_rank_are_two_ways_to_say_one_thing(pets):
    device = jax.devices()[0]
    sharding = jax.sharding.SingleDeviceSharding(device)

    read = {"global_batch_size": 20, "drop_last": True, "columns": ["tokens"]}
    loader = pets.jax(sharding=sharding, rank=0, world_size=1, **read)
    assert next(iter(loader))["tokens"].shape == (20, 300)

    with pytest.raises(InvalidInputError) as caught:
        pets.jax(sharding=sharding, rank=1, world_size=2, **read)
    assert "world_size=  rank 1 of 2" in str(caught.value)
    assert "sharding=  rank 0 of 1" in str(caught.value)


def test_a_sharding_of_more_than_rows_is_refused_when_the_loader_is_made(pets):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data", None))
    more = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data", "model"))

    with pytest.raises(InvalidInputError, match="splits more than the rows"):
        pets.jax(global_batch_size=20, sharding=more, columns=["tokens"])
    pets.jax(global_batch_size=20, sharding=rows, columns=["tokens"])


def test_what_is_no_sharding_is_refused(pets):
    with pytest.raises(InvalidInputError, match=r"sharding= is a jax\.sharding.*got 'data'"):
        pets.jax(global_batch_size=20, sharding="data")


# ---- two processes of two devices each: what a process reads follows from its devices

PROCESS = """
import json, sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

process, address, url = int(sys.argv[1]), sys.argv[2], sys.argv[3]
import tensorlake as tl

READ = {"global_batch_size": 8, "shuffle": True, "seed": 3, "columns": ["tokens", "_row"]}
ds = tl.open(url)
early = [ds.jax(**READ), ds.loader(**READ)]
alone = [(len(loader), bool(repr(loader))) for loader in early]
jax.distributed.initialize(address, num_processes=2, process_id=process)
devices = np.array(jax.devices())


def error_of(loader):
    try:
        next(iter(loader))
    except tl.TensorlakeError as error:
        return type(error).__name__, str(error)


def rows_held(loader):
    rows = next(iter(loader))["_row"]
    return rows.shape, {
        shard.device.id: np.asarray(shard.data).tolist() for shard in rows.addressable_shards
    }


found = {"alone": alone}
found["early"] = [np.asarray(next(iter(loader))["_row"]).tolist() for loader in early]
early[0].set_epoch(6 if process else 5)
found["epoch"] = error_of(early[0])
if process:
    found["late"] = error_of(ds.jax(batch_size=2, columns=["tokens"], timeout=0.05))
with ds:
    for name, shape, spec in [
        ("split", (4, 1), P("data")),
        ("model within", (2, 2), P("data")),
        ("model across", (2, 2), P("model")),
        ("repeated", (4, 1), P()),
        ("both", (2, 2), P(("data", "model"))),
    ]:
        mesh = Mesh(devices.reshape(shape), ("data", "model"))
        found[name] = rows_held(ds.jax(sharding=NamedSharding(mesh, spec), drop_last=True, **READ))
    scattered = Mesh(devices.reshape(2, 2).T.reshape(4), ("data",))
    from jax._src.distributed import global_state

    found["keys"] = [key for key, _ in global_state.client.key_value_dir_get("tensorlake/")]
    try:
        ds.jax(sharding=NamedSharding(scattered, P("data")), drop_last=True, **READ)
    except tl.TensorlakeError as error:
        found["scattered"] = str(error)
print(json.dumps(found))
"""


@pytest.mark.slow  # two processes, each of which compiles
def test_what_a_process_reads_follows_from_its_devices(tmp_path):
    with fill_pets(str(tmp_path / "pets.tl")) as dataset:
        url = dataset.url
        whole = next(iter(dataset.loader(batch_size=8, shuffle=True, seed=3, columns=["_row"])))
        expected = whole["_row"].tolist()

    first, second = _two_processes(url)
    held = {
        name: (found[0], {**found[1], **second[name][1]})
        for name, found in first.items()
        if name not in ("alone", "early", "epoch", "late", "keys", "scattered")
    }

    assert all(shape == [8] for shape, _ in held.values())
    quarters = [expected[start : start + 2] for start in range(0, 8, 2)]
    halves = [expected[:4], expected[4:]]
    assert _by_device(held["split"]) == quarters
    assert _by_device(held["both"]) == quarters
    assert _by_device(held["model within"]) == [halves[0], halves[0], halves[1], halves[1]]
    assert _by_device(held["model across"]) == [halves[0], halves[1], halves[0], halves[1]]
    assert _by_device(held["repeated"]) == [expected] * 4
    for rank, found in enumerate((first, second)):
        assert found["alone"] == [[8, True]] * 2
        assert found["early"] == [expected[rank * 4 : rank * 4 + 4]] * 2
        assert found["epoch"][0] == "StateMismatchError"
        assert "epoch  rank 0 5, rank 1 6" in found["epoch"][1]
        assert len(found["keys"]) <= 4, found["keys"]  # of 8 passes: what the last of each needs
    assert "rank 0 did not start" in second["late"][1]
    assert "process 0  parts [0, 2]" in first["scattered"]
    assert "process 1  parts [1, 3]" in second["scattered"]


def _by_device(found):
    _, rows = found
    return [rows[device] for device in sorted(rows, key=int)]


def _two_processes(url):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(process), address, url],
            env=environment,
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    said = [process.communicate(timeout=300) for process in running]
    assert all(process.returncode == 0 for process in running), said
    return [json.loads(out.splitlines()[-1]) for out, _ in said]
