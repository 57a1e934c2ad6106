"""From files to a trained model: the program of ``tensorlake demo``, on `tensorlake.datasets`.

    1  ingest digits and street scenes                 create, extend, commit
    2  correct wrong labels                            branch, assignment, transaction, diff
    3  query the lake                                  TQL
    4  train a small network from the stream           views, torch loader
    5  stop a stream in the middle and resume it       state_dict, load_state_dict

It needs no network, account or service.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import tensorlake as tl
from tensorlake.datasets import files

DIGITS = [str(digit) for digit in range(10)]
DISPUTED = {947: "9", 5937: "3", 6783: "6", 9729: "6"}
"""Row → what a reader sees; the labels of MNIST's test set say 8, 5, 1 and 5."""
ACCURACY_GOAL = 0.95
EPOCHS = 4
HELD_OUT = 10  # one row of so many
BATCH = 100
SEED = 7
INK = 96  # of 255: what is brighter is drawn
SAME_SIZE = tl.decode.Resize(28, 28)
"""Digits have one size, but their type allows any; this step makes a batch stackable."""


def main(lake: Path) -> None:
    """Run all steps; their datasets are new ones in this folder.

    Raises:
        SystemExit: The network learned too little, or a resumed stream differs.
    """
    started = time.perf_counter()
    print(f"tensorlake, from files to a trained model · lake: {lake}/ · data: tensorlake.datasets")

    heading(1, "Ingest files")
    digits = ingest_digits(lake)
    scenes = ingest_scenes(lake)

    heading(2, "Correct labels; every version is kept")
    fixed = correct_labels(digits)

    heading(3, "Query with TQL (the first query also loads the language)")
    ask(fixed, scenes)

    heading(4, "Train a network from the stream")
    train(seen(fixed), unseen(fixed))

    heading(5, "Stop a stream in the middle, and resume it")
    stop_and_resume(seen(fixed), f"{lake}/digits")

    seconds = time.perf_counter() - started
    print(f"\nAll of this took {seconds:.0f} s. Now browse it:  tensorlake serve {lake}")


def ingest_digits(lake: Path) -> tl.Dataset:
    """Ingest MNIST's test set: arrays, encoded as PNG."""
    images = read_idx(files("digits") / "t10k-images-idx3-ubyte.gz")[..., np.newaxis]
    labels = read_idx(files("digits") / "t10k-labels-idx1-ubyte.gz")
    with timed() as clock:
        digits = tl.create(
            f"{lake}/digits",
            {"image": tl.Image(codec="png", mode="L"), "label": tl.ClassLabel(DIGITS)},
        )
        digits.extend({"image": images, "label": labels})
        commit = digits.commit("MNIST's test set")
    line("digits", f"{len(digits):,} images and labels → {commit.version}", clock)
    return digits


def ingest_scenes(lake: Path) -> tl.Dataset:
    """Ingest the COCO images: JPEG files as they are, with their boxes."""
    with timed() as clock:
        scenes = tl.ingest.coco(
            files("scenes") / "instances.json", files("scenes") / "images", f"{lake}/scenes"
        )
    boxes = sum(len(boxes) for boxes in scenes["boxes"][:])
    line("scenes", f"{len(scenes)} photographs with {boxes} boxes → {scenes.version}", clock)
    return scenes


def correct_labels(digits: tl.Dataset) -> tl.Dataset:
    """Relabel four digits on a branch, and show the differences from main."""
    rows = list(DISPUTED)
    print("  four digits with disputed labels, and their labels in the test set:\n")
    draw([digits[row]["image"][..., 0] for row in rows])
    names = digits["label"].names
    print("".join(f"      {names[int(code)]:<17}" for code in digits["label"][rows]), "\n")
    fixed = digits.branch("fixed")
    with fixed.transaction("four labels that people read differently"):
        for row, name in DISPUTED.items():
            fixed["label"][row] = name
    show("changes of 'fixed'", fixed.diff("main"))
    for commit in fixed.log():
        print(f"    {commit.version:10} {commit.message}")
    return fixed


def ask(digits: tl.Dataset, scenes: tl.Dataset) -> None:
    """Run a few queries; none of them decodes an image."""
    for dataset, text in (
        (digits, "WHERE label IN ('3', '8')"),
        (scenes, "WHERE CONTAINS(label, 'dog') OR CONTAINS(label, 'horse')"),
        (scenes, "WHERE SHAPE(image)[0] > SHAPE(image)[1] ORDER BY SHAPE(boxes)[0] DESC LIMIT 5"),
        (scenes, "WHERE ANY((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) > 150000)"),
    ):
        with timed() as clock:
            count = len(dataset.query(text))
        line(f"{count:,} rows", text, clock)


def seen(digits: tl.Dataset) -> tl.View:
    """Return the training rows: nine of ten."""
    return digits[np.arange(len(digits)) % HELD_OUT != HELD_OUT - 1]


def unseen(digits: tl.Dataset) -> tl.View:
    """Return the held-out rows: every tenth."""
    return digits[HELD_OUT - 1 :: HELD_OUT]


def train(training: tl.View, held_out: tl.View) -> None:
    """Train a small convolutional network, and test it on digits that it never saw."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # the loader's threads decode on the other cores
    model = nn.Sequential(
        *(nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU()),
        *(nn.Conv2d(12, 24, 5, stride=2, padding=2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(24 * 7 * 7, 10)),
    )
    loader = training.torch(
        batch_size=BATCH,
        columns=["image", "label"],
        shuffle=True,
        seed=SEED,
        decode={"image": SAME_SIZE},
        layout="NCHW",
    )
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.005, total_steps=EPOCHS * len(loader)
    )
    line(f"{len(training):,} rows", f"for training, {len(held_out):,} held out")
    for epoch in range(loader.epoch, EPOCHS):
        total = 0.0
        with timed() as clock:
            for batch in loader:
                loss = functional.cross_entropy(model(scaled(batch["image"])), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.item()
        line(f"epoch {epoch + 1}", f"loss {total / len(loader):.3f}", clock, rows=len(training))
    accuracy = test(model, held_out)
    line("unseen", f"{accuracy:.1%} of the held-out digits classified correctly")
    if accuracy < ACCURACY_GOAL:
        raise SystemExit(f"demo: expected ≥ {ACCURACY_GOAL:.0%}, got {accuracy:.1%}")


def test(model: nn.Module, held_out: tl.View) -> float:
    """Return the share of digits that the model classifies correctly."""
    model.eval()
    right = 0
    with torch.inference_mode():
        loader = held_out.torch(batch_size=500, decode={"image": SAME_SIZE}, layout="NCHW")
        for batch in loader:
            right += int((model(scaled(batch["image"])).argmax(1) == batch["label"]).sum())
    return right / len(held_out)


def scaled(images: torch.Tensor) -> torch.Tensor:
    """Scale uint8 images to floats around zero."""
    return images.float().div(255).sub(0.13).div(0.31)


def stop_and_resume(training: tl.View, url: str) -> None:
    """Stop an epoch after a third, resume from the state alone, and compare every batch."""

    def new_loader(view: tl.View) -> tl.Loader:
        return view.torch(
            batch_size=BATCH,
            columns=["image", "label", "_row"],
            shuffle=True,
            seed=SEED,
            decode={"image": SAME_SIZE},
        )

    whole = list(new_loader(training))
    stopped_after = len(whole) // 3
    loader = new_loader(training)
    for number, _ in enumerate(loader, start=1):
        if number == stopped_after:
            break
    state = json.dumps(loader.state_dict())
    line("stopped", f"after batch {stopped_after} of {len(whole)}; its state is {len(state)} bytes")
    del loader

    with tl.open(url, version="fixed", read_only=True) as reopened, timed() as clock:
        fresh = new_loader(seen(reopened))
        fresh.load_state_dict(json.loads(state))
        rest = list(fresh)
    same = len(rest) == len(whole) - stopped_after and all(
        torch.equal(one[name], other[name])
        for one, other in zip(rest, whole[stopped_after:], strict=True)
        for name in ("_row", "image", "label")
    )
    if not same:
        raise SystemExit("demo: the resumed stream differs from the uninterrupted one")
    line("resumed", f"{len(rest)} batches in a fresh loader, identical to the last byte", clock)


def read_idx(path: Path) -> np.ndarray:
    """Read the IDX format of MNIST: a magic number that ends in ndim, the shape, the bytes."""
    content = gzip.decompress(path.read_bytes())
    ndim = content[3]
    shape = np.frombuffer(content, ">i4", count=ndim, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * ndim).reshape(shape)


class Clock:
    """Seconds between entering and leaving `timed`."""

    seconds = 0.0


@contextmanager
def timed() -> Generator[Clock]:
    """Measure the seconds that the block takes."""
    clock = Clock()
    started = time.perf_counter()
    yield clock
    clock.seconds = time.perf_counter() - started


def heading(number: int, text: str) -> None:
    """Print the title of a step."""
    print(f"\n{number}  {text}")


def line(label: str, text: str, clock: Clock | None = None, *, rows: int = 0) -> None:
    """Print a result, the time it took, and the rate where rows are given."""
    took = ""
    if clock is not None:
        unit = f"{clock.seconds:.2f} s" if clock.seconds >= 1 else f"{clock.seconds * 1000:.0f} ms"
        took = f"   {rows / clock.seconds:,.0f} rows/s, {unit}" if rows else f"   {unit}"
    print(f"  {label:>12}  {text}{took}")


def show(label: str, value: object) -> None:
    """Print a value, indented."""
    print(f"  {label}:")
    for text in str(value).splitlines():
        print(f"    {text}")


def draw(pictures: list[np.ndarray]) -> None:
    """Draw grey images side by side, two pixels above each other in one letter."""
    shades = " ▄▀█"
    small = [(p.reshape(14, 2, 14, 2).mean(axis=(1, 3)) > INK).astype(int) for p in pictures]
    for top in range(0, 14, 2):
        for picture in small:
            cells = 2 * picture[top] + picture[top + 1]
            print("    " + "".join(shades[cell] for cell in cells), end="     ")
        print()
