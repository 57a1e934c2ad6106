"""A mesh of data, tensor, pipeline and context ranks: what each process reads, and how much."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import InvalidInputError
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, wait_for_storage

ROWS, ROW_NBYTES = 240, 110 << 10  # as large as photographs
MESH = {"pp": 2, "dp": 2, "cp": 2, "tp": 2}  # sixteen processes, as torchtitan lays them out
READ = {"seed": 3, "columns": ["x", "_row"], "cache": 0, "prefetch": "8MiB"}


@pytest.fixture(scope="module")
def store():
    """240 rows of 110 KiB, which are 26 MB."""
    store = CountingStore(MemoryStore())
    with create_on(store, {"x": tl.Array("uint8", shape=(ROW_NBYTES,))}) as dataset:
        x = np.random.default_rng(1).integers(0, 255, (ROWS, ROW_NBYTES), np.uint8)
        x[:, :8] = np.arange(ROWS)[:, np.newaxis].view(np.uint8)
        dataset.extend({"x": x})
        dataset.commit("rows")
    wait_for_storage()
    return store


@pytest.fixture
def pass_of(store, monkeypatch):
    """Read a pass as one process of a mesh does, which knows its number from the environment."""

    def read(mesh, process, *, state=None, batches=None, **arguments):
        processes = int(np.prod([*mesh.values()]))
        monkeypatch.setenv("RANK", str(process))
        monkeypatch.setenv("WORLD_SIZE", str(processes))
        loader = open_on(store).loader(mesh=mesh, **{**READ, **arguments})
        if state is not None:
            loader.load_state_dict(json.loads(json.dumps(state)))
        passed, seen = iter(loader), []
        for batch in itertools.islice(passed, batches):
            assert np.array_equal(batch["x"][:, :8].copy().view(np.int64)[:, 0], batch["_row"])
            seen.append(batch["_row"].tolist())
        passed.close()
        return seen, loader.state_dict()

    return read


def coordinates(mesh):
    """By process, its place along each axis: the last axis runs fastest."""
    for place in itertools.product(*map(range, mesh.values())):
        yield dict(zip(mesh, place, strict=True))


def joined(ranks):
    """The rows of each global batch, of ranks that split it."""
    return [[*itertools.chain(*parts)] for parts in zip(*ranks, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("shuffle", ["full", "window"])
def test_peers_of_a_mesh_read_equal_batches_and_no_byte_too_many(store, pass_of, shuffle):
    read = {"shuffle": shuffle, "global_batch_size": 24}
    alone, _ = pass_of({"dp": 1}, 0, **read)
    rowset_of(open_on(store)).reader().locate("x", np.arange(ROWS))  # pages of the index
    seen, nbytes = {}, {}
    for process, place in enumerate(coordinates(MESH)):
        store.reset()
        seen[process], _ = pass_of(MESH, process, **read)
        nbytes[process] = sum(
            one.nbytes for one in store.requests if "get" in one.call and one.nbytes >= ROW_NBYTES
        )
        first = next(
            one for one, other in enumerate(coordinates(MESH)) if other["dp"] == place["dp"]
        )
        assert seen[process] == seen[first]  # its peers along pp, cp and tp

    whole = joined([seen[0], seen[4]])  # dp 0 and dp 1
    assert [*map(sorted, whole)] == [*map(sorted, alone)]
    needed = ROWS // MESH["dp"] * ROW_NBYTES
    assert max(nbytes.values()) <= 1.05 * needed


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_data_ranks(pass_of):
    """Four data ranks, then two, then three: no row is lost or repeated in the epoch."""
    read = {"shuffle": "window", "global_batch_size": 24}
    whole, _ = pass_of({"dp": 1}, 0, **read)
    seen, state = [], None
    for dp, batches in ((4, 3), (2, 4), (3, None)):
        mesh = {"dp": dp, "tp": 2}
        found = [
            pass_of(mesh, process, state=state, batches=batches, **read)
            for process in range(2 * dp)
        ]
        assert all(found[one] == found[one + 1] for one in range(0, 2 * dp, 2))  # tp peers
        assert len({json.dumps(one) for _, one in found}) == 1  # a state is every rank's
        seen += joined([rows for rows, _ in found[::2]])
        state = found[0][1]

    assert [*map(sorted, seen)] == [*map(sorted, whole)]
    assert sorted(itertools.chain(*seen)) == list(range(ROWS))


def test_a_mesh_that_disagrees_with_rank_and_world_size_is_refused(pass_of):
    with pytest.raises(InvalidInputError) as caught:
        pass_of(MESH, 5, global_batch_size=24, rank=5, world_size=16)

    assert "rank= and world_size=  rank 5 of 16" in str(caught.value)
    assert "mesh=  rank 1 of 2" in str(caught.value)
    assert str(caught.value).endswith("give one of them")
