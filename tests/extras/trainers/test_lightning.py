"""Lightning: training, validation, sanity check, resume, two processes; loaders given as they are.

A2: Lightning draws exactly ``len(loader)`` batches, tries ``iter()`` first, and keeps the iterator
of its sanity check. A1: with two processes it makes the group after the loaders.
"""

from __future__ import annotations

from itertools import chain

import pytest

from tests.extras.trainers.conftest import EPOCHS, found, joined, loaders_of, run

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")
pytestmark = [
    pytest.mark.extras,
    pytest.mark.filterwarnings("ignore"),  # of Lightning's, about its own
]


class Watching(lightning.LightningModule):
    """A model that notes which rows it gets, batch by batch."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.trained, self.validated = [], []

    def training_step(self, batch, _):
        self.trained.append(batch["_row"].tolist())
        return self.layer(batch["x"]).square().mean()

    def validation_step(self, batch, _):
        self.validated.append(batch["_row"].tolist())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def trainer(**given):
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    return lightning.Trainer(
        **{"accelerator": "cpu", "devices": 1, "enable_checkpointing": False, **quiet, **given}
    )


@pytest.mark.parametrize("workers", [None, 0, 2])
def test_each_epoch_is_trained_on_and_all_of_validation_read(url, expected, workers):
    """By our loader, and by a DataLoader over it."""
    orders, validation = expected
    train, validated = loaders_of(url)
    if workers is not None:
        context = "fork" if workers else None
        train, validated = (
            torch.utils.data.DataLoader(
                one, batch_size=None, num_workers=workers, multiprocessing_context=context
            )
            for one in (train, validated)
        )
    module = Watching()

    trainer(max_epochs=EPOCHS).fit(module, train, validated)

    assert module.trained == [*chain(*orders[:EPOCHS])]
    assert module.validated == validation[:2] + validation * EPOCHS  # two: the sanity check


def test_epochs_that_are_cut_short_are_epochs(url, expected):
    train, validated = loaders_of(url)
    module = Watching()

    trainer(max_epochs=EPOCHS, limit_train_batches=3, limit_val_batches=1).fit(
        module, train, validated
    )

    assert module.trained == [*chain(*(order[:3] for order in expected[0][:EPOCHS]))]
    assert module.validated == expected[1][:1] * (EPOCHS + 1)


@pytest.mark.parametrize("step", [3, 5, 8])
def test_a_run_goes_on_from_a_checkpoint(url, expected, tmp_path, step):
    """In the middle of an epoch, at its end, and in the next; the loader's state is in it."""
    train, validated = loaders_of(url)
    keeper = lightning.pytorch.callbacks.ModelCheckpoint(
        tmp_path, filename="{step}", every_n_train_steps=step, save_top_k=-1
    )
    trainer(max_steps=step, callbacks=[keeper], enable_checkpointing=True).fit(
        Watching(), train, validated
    )
    train, validated = loaders_of(url)
    module = Watching()

    trainer(max_epochs=EPOCHS).fit(
        module, train, validated, ckpt_path=str(tmp_path / f"step={step}.ckpt")
    )

    assert module.trained == [*chain(*expected[0][:EPOCHS])][step:]


def test_two_processes_train_on_each_row_once_an_epoch(url, expected, tmp_path):
    done = run("lightning_script.py", url, str(tmp_path))

    assert done.returncode == 0, done.stderr[-4000:]
    ranks = found(tmp_path)
    assert len(ranks) == 2
    assert joined(rank[0] for rank in ranks) == [*chain(*expected[0][:EPOCHS])]
    assert joined(rank[1] for rank in ranks) == expected[1][:2] + expected[1] * EPOCHS
