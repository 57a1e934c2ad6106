"""One stream: equal batches in NumPy, torch and JAX, also after a resume."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tests.support import golden_batches
from tests.support.golden_batches import digest_of, digests_of
from tests.unit.loader.conftest import fill_pets

ROOT = Path(__file__).parents[3]
FRAMEWORKS = ("loader", "torch", "jax")
READ = {
    "global_batch_size": 12,
    "shuffle": True,
    "seed": 11,
    "columns": ["image", "label", "boxes", "name", "tokens", "_row"],
    "decode": {
        "image": [tl.decode.RandomResizedCrop(16, 20), tl.decode.Flip(), tl.decode.ToFloat()]
    },
    "collate": {"boxes": "pad"},
    "drop_last": True,
}


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    with fill_pets(str(tmp_path_factory.mktemp("pets") / "pets.tl")) as dataset:
        yield dataset


@pytest.fixture(scope="module", params=FRAMEWORKS)
def framework(request):
    if request.param != "loader":
        pytest.importorskip(request.param)
    return request.param


@pytest.fixture(scope="module")
def expected(pets):
    pytest.importorskip("torch")  # once it is loaded, it resizes for all three frameworks
    return [digest_of(batch) for batch in pets.loader(**READ)]


def test_batches_are_equal_in_every_framework(expected, pets, framework):
    assert [digest_of(batch) for batch in getattr(pets, framework)(**READ)] == expected


def test_a_state_of_one_framework_continues_in_another(expected, pets, framework):
    first = getattr(pets, framework)(**READ)
    iterator = iter(first)
    digests = [digest_of(next(iterator)), digest_of(next(iterator))]
    state = json.loads(json.dumps(first.state_dict()))
    other = FRAMEWORKS[(FRAMEWORKS.index(framework) + 1) % len(FRAMEWORKS)]
    second = getattr(pets, other)(**READ)

    second.load_state_dict(state)
    digests += [digest_of(batch) for batch in second]

    assert digests == expected


def test_batches_are_those_recorded_for_all_frameworks_before_and_after_a_resume(pets, framework):
    first = getattr(pets, framework)(**golden_batches.READ)
    again = getattr(pets, framework)(**golden_batches.READ)

    digests = digests_of(itertools.islice(first, 2))
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))

    assert digests + digests_of(again) == golden_batches.golden()


# ---- several devices, in a process of their own: JAX counts them when it is imported

DEVICES = 8
CHILD = """
import json, sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import tensorlake as tl

url, state = sys.argv[1], json.loads(sys.argv[2])
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
sharding = NamedSharding(mesh, P("data"))
with tl.open(url) as ds:
    loader = ds.jax(
        global_batch_size=12, sharding=sharding, shuffle=True, seed=11, columns=["tokens", "_row"]
    )
    if state:
        loader.load_state_dict(state)
    batches = list(loader)

total = jax.jit(lambda x: x.astype("int32").sum(), in_shardings=sharding)
print(json.dumps({
    "devices": jax.device_count(),
    "rows": [np.asarray(batch["_row"]).tolist() for batch in batches],
    "sums": [int(total(batch["tokens"])) for batch in batches],
    "shards": sorted({
        (shard.device.id // 2, shard.index[0].start or 0, shard.index[0].stop, len(shard.data))
        for shard in batches[0]["tokens"].addressable_shards
    }),
    "is_global": all(batch["tokens"].sharding == sharding for batch in batches),
    "valid": [np.asarray(batch["_valid"]).all().item() for batch in batches],
}))
"""


def in_child(url, state):
    environment = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, url, json.dumps(state)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_mesh_of_several_devices_gets_global_arrays_sharded_by_rows(pets):
    pytest.importorskip("jax")
    plain = pets.loader(global_batch_size=12, shuffle=True, seed=11, columns=["tokens", "_row"])
    iterator = iter(plain)
    head = [next(iterator) for _ in range(2)]
    state = plain.state_dict()
    expected = [*head, *iterator]

    whole = in_child(pets.url, None)
    rest = in_child(pets.url, state)

    assert whole["devices"] == DEVICES
    assert whole["is_global"]
    assert whole["rows"] == [batch["_row"].tolist() for batch in expected]
    assert whole["sums"] == [int(batch["tokens"].sum()) for batch in expected]
    assert all(whole["valid"])
    # Four rows of the mesh have three rows of the batch each, on both of their devices.
    assert whole["shards"] == [[i, 3 * i, 3 * i + 3, 3] for i in range(4)]
    assert rest["rows"] == whole["rows"][2:]
    assert list(itertools.chain(*rest["rows"])) != sorted(itertools.chain(*rest["rows"]))


# ---- dtypes that only NumPy has


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (np.datetime64("2020-01-01"), "return its .astype('int64')"),
        (np.array(["a", "b"]), "return its .tolist(): text and objects are listed"),
        (np.longdouble(1), "return it as float32 or float64"),
    ],
)
def test_an_array_without_a_dtype_of_the_framework_is_refused_by_name(
    pets, framework, value, advice
):
    loader = getattr(pets, framework)(
        batch_size=2, columns=["label"], transform=lambda _: {"at": value}
    )

    if framework == "loader":
        assert next(iter(loader))["at"].dtype == np.asarray(value).dtype
        return
    with pytest.raises(tl.InvalidInputError, match="'at' of a batch is an array of") as caught:
        next(iter(loader))

    assert str(value.dtype) in str(caught.value)
    assert str(caught.value).splitlines()[-1] == advice


def test_text_of_numpy_is_listed_as_other_text(pets, framework):
    loader = getattr(pets, framework)(
        batch_size=2, columns=["name"], transform=lambda row: {"name": np.str_(row["name"])}
    )

    assert next(iter(loader))["name"] == ["pet 0", "pet 1"]
