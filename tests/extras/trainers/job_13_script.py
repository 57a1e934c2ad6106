"""Job 13 as written: a Trainer over a view, and Lightning over a loader, in two processes."""

import json
import sys
from pathlib import Path

import lightning as L  # noqa: N812 - as its users do
import torch
import transformers
from transformers import Trainer

import tensorlake as tl

URL, FOLDER, JOB = sys.argv[1:]
seen = []


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 5)

    def forward(self, pixel_values, labels):
        seen.append(labels.tolist())
        logits = self.layer(pixel_values.float().mean((1, 2)))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Tiny()

    def training_step(self, batch, _):
        return self.model(batch["image"], batch["label"])["loss"]

    def validation_step(self, batch, _):
        assert len(batch["label"]) > 0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def trainer():
    ds, model = tl.open(URL), Tiny()
    coll = transformers.DefaultDataCollator()
    args = transformers.TrainingArguments(
        f"{FOLDER}/out",
        per_device_train_batch_size=4,
        num_train_epochs=2,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
    )
    Trainer(
        model,
        args,
        train_dataset=ds.select(pixel_values="image", labels="label"),
        data_collator=coll,
    ).train()
    return int(transformers.TrainingArguments(f"{FOLDER}/out", use_cpu=True).process_index)


def lightning():
    class M(L.LightningDataModule):
        def train_dataloader(self):
            return tl.open(URL).torch(batch_size=4, shuffle=True)

        def val_dataloader(self):
            return tl.open(URL).torch(batch_size=4)

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    fit = L.Trainer(devices=2, accelerator="cpu", strategy="ddp", max_epochs=2, **quiet)
    fit.fit(Module(), M())
    return fit.global_rank


if __name__ == "__main__":
    rank = {"trainer": trainer, "lightning": lightning}[JOB]()
    Path(FOLDER, f"rank-{rank}.json").write_text(json.dumps(seen))
