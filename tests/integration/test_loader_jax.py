"""JAX loaders: jax arrays, global ones along a sharding, batches that keep their size."""

from __future__ import annotations

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


def test_sharding_and_rank_are_two_ways_to_say_one_thing(pets):
    device = jax.devices()[0]
    sharding = jax.sharding.SingleDeviceSharding(device)

    with pytest.raises(InvalidInputError, match="sharding="):
        pets.jax(global_batch_size=20, sharding=sharding, rank=0, world_size=1)
