"""Runs under trainers that ask for batches ahead: metrics are of the batches that they are of."""

from __future__ import annotations

from itertools import chain

import pytest

import tensorlake as tl
from tests.extras.trainers.conftest import BATCH, EPOCHS
from tests.extras.trainers.test_hugging_face import Trainer, arguments
from tests.extras.trainers.test_hugging_face import Watching as Model
from tests.extras.trainers.test_lightning import Watching, trainer

accelerate = pytest.importorskip("accelerate")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]

READ = {"batch_size": BATCH, "shuffle": True, "seed": 1, "columns": ["x", "_row"]}


class Logging(Watching):
    """A model whose metric is the first row of its batch."""

    def training_step(self, batch, index):
        self.log("first_row", float(batch["_row"][0]))
        return super().training_step(batch, index)


def check(run, expected, name):
    """Every step has the rows that were trained on, and the metric of its own batch."""
    orders = [*chain(*expected[0][:EPOCHS])]
    assert run.steps.column("step").to_pylist() == list(range(len(orders)))
    assert [run.rows_at(step).tolist() for step in range(len(orders))] == orders
    assert run.steps.column(name).to_pylist() == [float(rows[0]) for rows in orders]


def test_lightning_logs_at_the_step_of_the_batch(url, expected):
    ds = tl.open(url)
    with ds.run("lightning") as run:
        logged = trainer(max_epochs=EPOCHS, callbacks=[run.lightning_callback()])
        logged.fit(Logging(), run.torch(**READ))

    check(ds.runs["lightning"], expected, "first_row")


class LoggingTrainer(Trainer):
    """A trainer whose metric is the first row of its batch."""

    def training_step(self, model, inputs, *given):
        loss = super().training_step(model, inputs, *given)
        self.log({"first_row": float(inputs["_row"][0])})
        return loss


def test_a_trainer_logs_at_the_step_of_the_batch(url, expected, tmp_path):
    ds = tl.open(url)

    class AtEnd(LoggingTrainer):
        def training_step(self, model, inputs, *given):
            self.first = float(inputs["_row"][0])
            return Trainer.training_step(self, model, inputs, *given)

        def log(self, logs, *given, **named):
            super().log({**logs, "first_row": self.first}, *given, **named)

    with ds.run("transformers") as run:
        given = arguments(tmp_path, logging_steps=1, eval_strategy="no")
        given.logging_strategy = "steps"
        fitted = AtEnd(
            Model(), given, train_dataset=run.torch(**READ), callbacks=[run.trainer_callback()]
        )
        fitted.train()

    check(ds.runs["transformers"], expected, "first_row")


def test_a_loop_of_accelerate_gives_the_step(url, expected):
    ds = tl.open(url)
    with ds.run("accelerate") as run:
        loader = accelerate.Accelerator(cpu=True).prepare(run.torch(**READ))
        step = 0
        for _epoch in range(EPOCHS):
            for batch in loader:
                run.log(step=step, first_row=float(batch["_row"][0]))
                step += 1

    check(ds.runs["accelerate"], expected, "first_row")
