"""Train by Lightning, a Hugging Face Trainer or Accelerate; continue from the last checkpoint."""

import sys
from pathlib import Path

import torch

import tensorlake as tl
from tests.extras.killed import EPOCHS, EVERY, READ, Steps


def loader_of(url):
    return tl.open(url).torch(**READ)


def by_lightning(url, folder):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.steps = torch.nn.Linear(3, 1), Steps(folder)

        def training_step(self, batch, _):
            self.rows = batch["_row"].tolist()
            return self.layer(batch["x"]).square().mean()

        def on_train_batch_end(self, *_):
            self.steps.note(self.rows)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    keep = lightning.pytorch.callbacks.ModelCheckpoint(
        dirpath=f"{folder}/checkpoints", every_n_train_steps=EVERY, save_last=True
    )
    trainer = lightning.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=1, logger=False, callbacks=[keep]
    )
    last = Path(folder, "checkpoints", "last.ckpt")
    trainer.fit(Module(), loader_of(url), ckpt_path=last if last.exists() else None)


def by_trainer(url, folder):
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, x, _row):
            self.rows = _row.tolist()
            return {"loss": self.layer(x).square().mean()}

    class Noting(transformers.TrainerCallback):
        steps = Steps(folder)

        def on_step_end(self, *_, model, **given):
            self.steps.note(model.rows)

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return self.train_dataset

    arguments = transformers.TrainingArguments(
        output_dir=f"{folder}/checkpoints",
        num_train_epochs=EPOCHS,
        save_strategy="steps",
        save_steps=EVERY,
        report_to="none",
        remove_unused_columns=False,
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(Model(), arguments, train_dataset=loader_of(url), callbacks=[Noting()])
    has_one = any(Path(folder).glob("checkpoints/checkpoint-*"))
    trainer.train(resume_from_checkpoint=has_one)


def by_accelerate(url, folder):
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = loader_of(url)
    model, optimizer, prepared = accelerator.prepare(model, optimizer, loader)
    accelerator.register_for_checkpointing(loader)
    saved = sorted(Path(folder).glob("step-*"))
    if saved:
        accelerator.load_state(str(saved[-1]))
    steps, step = Steps(folder), int(saved[-1].name[5:]) if saved else 0
    for _ in range(loader.epoch, EPOCHS):
        for batch in prepared:
            optimizer.zero_grad()
            accelerator.backward(model(batch["x"]).square().mean())
            optimizer.step()
            step += 1
            if step % EVERY == 0:
                accelerator.save_state(f"{folder}/step-{step:04}")
            steps.note(batch["_row"].tolist())


if __name__ == "__main__":
    url, folder, library = sys.argv[1:]
    {"lightning": by_lightning, "trainer": by_trainer, "accelerate": by_accelerate}[library](
        url, folder
    )
