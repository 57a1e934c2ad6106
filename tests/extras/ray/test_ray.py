"""Ray on this machine: ray.data from a dataset and back, and loaders inside its tasks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl

ray = pytest.importorskip("ray")
pytest.importorskip("torch")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs


def test_ray_data_maps_batches_of_a_dataset_and_they_are_ingested_again(cluster, samples, tmp_path):
    given = ray.data.from_arrow(samples.to_arrow())

    doubled = given.map_batches(lambda batch: {"twice": batch["total"] * 2}, batch_size=16)
    table = pa.concat_tables(ray.get(doubled.to_arrow_refs(), timeout=200))
    with tl.ingest.arrow(table, str(tmp_path / "twice.tl")) as written:
        found = np.sort(written["twice"][:])

    assert given.count() == len(samples)
    assert found.tolist() == np.sort(samples["total"][:] * 2).tolist()


def test_tasks_read_ranks_of_one_torch_loader(cluster, samples):
    @ray.remote
    def rows_of(url, rank):
        with tl.open(url) as dataset:
            loader = dataset.torch(
                global_batch_size=10,
                shuffle=True,
                seed=4,
                columns=["_row"],
                rank=rank,
                world_size=2,
            )
            return [batch["_row"].tolist() for batch in loader]

    first, second = ray.get([rows_of.remote(samples.url, rank) for rank in range(2)], timeout=200)

    read = {"batch_size": 10, "shuffle": True, "seed": 4, "columns": ["_row"]}
    alone = samples.loader(**read, rank=0, world_size=1)
    assert [one + other for one, other in zip(first, second, strict=True)] == [
        batch["_row"].tolist() for batch in alone
    ]


def test_a_handle_and_a_view_travel_to_a_task(cluster, samples):
    @ray.remote
    def total_of(view):
        return float(view["total"][:].sum())

    view = samples.query("WHERE total > 1.5")

    assert ray.get(total_of.remote(samples), timeout=200) == pytest.approx(
        samples["total"][:].sum()
    )
    assert ray.get(total_of.remote(view), timeout=200) == pytest.approx(view["total"][:].sum())
