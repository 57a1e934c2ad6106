"""Images to a trained classifier, with augmentation, validation and an exact resume.

The run stops in the middle of its second epoch and resumes from what ``torch.save`` would store.
"""

from collections import Counter
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import tensorlake as tl
from tensorlake.loader import Loader

MNIST = Path(__file__).resolve().parents[1] / "data" / "mnist"

# 1. Ingest files. For folders of JPEGs use tl.ingest.images("photos/", url).
ds = tl.ingest.idx(
    MNIST / "t10k-images-idx3-ubyte.gz", MNIST / "t10k-labels-idx1-ubyte.gz", "memory://job1/digits"
)

# 2. Training and validation rows are views: nothing is copied, and new rows do not change them.
parts = ds.split({"train": 0.9, "val": 0.1}, stratify="label")


def train_stream() -> Loader:
    return parts["train"].torch(
        batch_size=250, columns=["image", "label", "_row"], shuffle=True, seed=1
    )


def new_model() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 64), nn.ReLU(), nn.Linear(64, 10))
    return model, torch.optim.Adam(model.parameters(), lr=0.005)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: dict) -> None:
    optimizer.zero_grad()
    functional.cross_entropy(model(batch["image"].float() / 255), batch["label"]).backward()
    optimizer.step()
    seen_rows.update(batch["_row"].tolist())


# 3. Train; stop in the middle of the second epoch, 16 of its 36 batches in.
seen_rows: Counter[int] = Counter()
(model, optimizer), train = new_model(), train_stream()
for _ in range(2):
    for number, batch in enumerate(train):
        step(model, optimizer, batch)
        if train.epoch == 1 and number == 15:
            break
kept = [part.state_dict() for part in (model, optimizer, train)]

# 4. Later, on another machine: the stream is one more part to restore.
(model, optimizer), train = new_model(), train_stream()
for part, state in zip((model, optimizer, train), kept, strict=True):
    part.load_state_dict(state)
for batch in train:  # the rest of the second epoch
    step(model, optimizer, batch)
assert set(seen_rows.values()) == {2}, "each row once per epoch, across the stop"

right = 0
with torch.inference_mode():
    for batch in parts["val"].torch(batch_size=500):
        right += int((model(batch["image"].float() / 255).argmax(1) == batch["label"]).sum())
print(f"{right / len(parts['val']):.1%} of {len(parts['val']):,} digits that it never saw")
