"""Hugging Face Trainer and Accelerate: epochs, evaluation, resume, two processes.

A2: they draw exactly ``len(loader)`` batches, set the epoch, and resume by making a ``DataLoader``
of the rest of what they were given.
"""

from __future__ import annotations

from itertools import chain

import pytest

from tests.extras.trainers.conftest import EPOCHS, found, joined, loaders_of, run

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

STEPS = 5  # of an epoch


class Watching(torch.nn.Module):
    """A model that notes which rows it gets, batch by batch."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.seen = []

    def forward(self, x, _row):
        self.seen.append(_row.tolist())
        return {"loss": self.layer(x).square().mean(), "logits": _row}


class Trainer(transformers.Trainer):
    """What the documentation says: the loaders are the dataloaders."""

    def get_train_dataloader(self):
        return self.train_dataset

    def get_eval_dataloader(self, eval_dataset=None):
        return self.eval_dataset


def arguments(folder, **given):
    return transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=EPOCHS,
        report_to="none",
        remove_unused_columns=False,
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
        **{"save_strategy": "no", "eval_strategy": "epoch", **given},
    )


def steps_of(expected, start=0):
    """List what is seen from a step on: each epoch, and what is evaluated on after it."""
    orders, validation = expected
    whole = [order + validation for order in orders[:EPOCHS]]
    epoch, step = divmod(start, STEPS)
    return [*whole[epoch][step:], *chain(*whole[epoch + 1 :])]


def test_a_trainer_reads_each_epoch_and_goes_on_from_any_step(url, expected, tmp_path):
    train, evaluated = loaders_of(url)
    model = Watching()
    given = arguments(tmp_path, save_strategy="steps", save_steps=1)
    Trainer(model, given, train_dataset=train, eval_dataset=evaluated).train()
    assert model.seen == steps_of(expected)

    for step in (3, 5, 6, 9):
        train, evaluated = loaders_of(url)
        model = Watching()
        again = Trainer(model, arguments(tmp_path), train_dataset=train, eval_dataset=evaluated)
        again.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))

        assert model.seen == steps_of(expected, step)
        skipped = step % STEPS * 8
        assert train.stats().rows == EPOCHS * 40 - step // STEPS * 40 - skipped  # and no more


def test_a_trainer_may_make_its_own_dataloader_of_a_loader(url, expected, tmp_path):
    train, evaluated = loaders_of(url)
    given = arguments(
        tmp_path,
        per_device_train_batch_size=1,
        per_device_eval_batch_size=1,
        save_strategy="steps",
        save_steps=1,
    )
    own = {"train_dataset": train, "eval_dataset": evaluated, "data_collator": the_batch}
    model = Watching()
    transformers.Trainer(model, given, **own).train()
    assert model.seen == steps_of(expected)

    train, evaluated = loaders_of(url)
    model = Watching()
    own |= {"train_dataset": train, "eval_dataset": evaluated}
    again = transformers.Trainer(model, given, **own)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-7"))
    assert model.seen == steps_of(expected, 7)


def the_batch(batches):
    (batch,) = batches
    return batch


# ---- Accelerate by itself


@pytest.mark.parametrize("wrapped", [False, True])
def test_accelerate_prepares_a_loader_and_reads_each_epoch(url, expected, wrapped):
    train, _ = loaders_of(url)
    if wrapped:
        train = torch.utils.data.DataLoader(train, batch_size=None)
    prepared = accelerate.Accelerator(cpu=True).prepare(train)

    epochs = [[batch["_row"].tolist() for batch in prepared] for _ in range(EPOCHS)]

    assert epochs == expected[0][:EPOCHS]


def test_accelerate_skips_the_first_batches_of_one_epoch(url, expected):
    train, _ = loaders_of(url)
    train.set_epoch(1)

    rest = accelerate.skip_first_batches(train, 3)
    found = [[batch["_row"].tolist() for batch in one] for one in (rest, train)]

    assert found == [expected[0][1][3:], expected[0][2]]
    assert len(rest) == STEPS - 3


# ---- two processes


def test_two_processes_read_each_row_once_and_go_on_from_a_step(url, expected, tmp_path):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")

    done = run("trainer_script.py", url, str(tmp_path), launcher=launcher)

    assert done.returncode == 0, done.stderr[-4000:]
    ranks = found(tmp_path)
    assert len(ranks) == 2
    whole, rest, prepared, refused = ([rank[part] for rank in ranks] for part in range(4))
    assert joined(whole) == steps_of(expected)
    assert joined(rest) == steps_of(expected, 7)
    assert joined(prepared) == expected[0][0]
    assert all("divided among 2 ranks already" in one for one in refused)
