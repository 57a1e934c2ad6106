"""torch's own ways to read: DataLoader, samplers, torchdata's resumable loader, checkpoints."""

from __future__ import annotations

from itertools import chain, islice

import pytest

torch = pytest.importorskip("torch")
stateful = pytest.importorskip("torchdata.stateful_dataloader")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

READ = {"batch_size": 6, "shuffle": True, "seed": 5, "columns": ["x", "_row"]}


def rows_of(batches):
    return [batch["_row"].tolist() for batch in batches]


def resumable(loader, workers):
    return stateful.StatefulDataLoader(
        loader,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_of_a_dataloader_give_the_batches_of_the_loader(samples, workers):
    expected = rows_of(samples.torch(**READ))

    stock = torch.utils.data.DataLoader(
        samples.torch(**READ), batch_size=None, num_workers=workers, multiprocessing_context="fork"
    )

    assert rows_of(stock) == expected


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [1, 4])
def test_torchdata_resumes_within_an_epoch(samples, workers, stop):
    expected = rows_of(samples.torch(**READ))
    stopped = resumable(samples.torch(**READ), workers)
    seen = rows_of(islice(stopped, stop))
    state = stopped.state_dict()

    again = resumable(samples.torch(**READ), workers)
    again.load_state_dict(state)

    assert seen + rows_of(again) == expected


def test_a_distributed_sampler_divides_the_rows_of_a_view(samples):
    view = samples[["x", "total"]]
    ranks = [
        torch.utils.data.DataLoader(
            view,
            batch_size=4,
            sampler=torch.utils.data.DistributedSampler(view, num_replicas=2, rank=rank),
        )
        for rank in range(2)
    ]

    totals = sorted(chain.from_iterable(batch["total"].tolist() for one in ranks for batch in one))

    assert totals == sorted(samples["total"][:].tolist())


def test_a_distributed_checkpoint_keeps_the_place_of_a_loader(samples, tmp_path):
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    loader = samples.torch(**READ)
    seen = rows_of(islice(loader, 3))
    checkpoint.save({"loader": loader}, checkpoint_id=tmp_path / "step-3", no_dist=True)

    again = samples.torch(**READ)
    checkpoint.load({"loader": again}, checkpoint_id=tmp_path / "step-3", no_dist=True)

    assert seen + rows_of(again) == rows_of(samples.torch(**READ))
