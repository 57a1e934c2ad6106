"""Epochs at 224 × 224 over train-ready copies, beside the full images and FFCV's recipe.

full      the JPEG files as they came, decoded and cut by ``RandomResizedCrop``, mirrored
copies    made by ``view.materialize(url, encode=)``: JPEG of a short side of 256 and quality 90;
          arrays of 256 × 256, cut and mirrored likewise; arrays of 224 × 224, mirrored alone
FFCV      its usual recipe as a memory map and NumPy, since it does not install here: half of the
          images raw, half JPEG, by chance, of a short side of 256 (``write_mode="proportion"``);
          crops, resampling and mirrors are those of the others, in as many threads
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Measurement
from benchmarks.loading import IMAGE_BATCH, SIDE, count_images, image_dataset, two_epochs

if TYPE_CHECKING:
    import torch

__all__ = ["BENCHMARKS"]

SHORT = 256
QUALITY = 90
SEED = 7
RAW_SHARE = 0.5
MIRRORED = 0.5
THREADS = 2
EPOCHS = 3
FULL, SMALL, RAW, READY = "full images", "copy, JPEG", "copy, raw 256²", "copy, raw 224²"
FFCV = "FFCV's recipe, memory map"
COPIES = {SMALL: "small.tl", RAW: "raw.tl", READY: "ready.tl"}


def prepare(workspace: Workspace) -> None:
    """Make the copies, and the file of FFCV's recipe."""
    import tensorlake as tl

    source = image_dataset(workspace)
    resize, cut = tl.decode.Resize(SHORT), tl.decode.CenterCrop(SHORT)
    encodings: dict[str, Any] = {
        SMALL: ([resize], tl.Image("jpeg", quality=QUALITY)),
        RAW: [resize, cut],
        READY: [resize, tl.decode.CenterCrop(SIDE)],
    }
    with tl.open(str(source), read_only=True) as ds:
        for name, encoding in encodings.items():
            target = workspace.lake / COPIES[name]
            if not target.exists():
                ds[["image"]].materialize(str(target), encode={"image": encoding}).close()
    _write_mixed(workspace)


def _write_mixed(workspace: Workspace) -> None:
    """Write images end to end, raw or JPEG by chance, and where each is."""
    import tensorlake as tl

    content, table = workspace.folder / "mixed.bin", workspace.folder / "mixed.npy"
    if table.exists():
        return
    random = np.random.default_rng(SEED)
    rows: list[tuple[int, int, int, int, bool]] = []
    with (
        tl.open(str(workspace.lake / COPIES[SMALL]), read_only=True) as ds,
        content.open("wb") as out,
    ):
        for at in range(len(ds)):
            pixels, is_raw = ds[at]["image"], bool(random.random() < RAW_SHARE)
            data = pixels.tobytes() if is_raw else ds["image"].bytes(at)
            rows.append((out.tell(), len(data), pixels.shape[0], pixels.shape[1], is_raw))
            out.write(data)
    np.save(table, np.array(rows, np.int64))


def full(workspace: Workspace) -> Measurement:
    return _epochs(str(image_dataset(workspace)), _augmentation())


def copy(name: str, workspace: Workspace) -> Measurement:
    steps = None if name == READY else _augmentation()
    return _epochs(str(workspace.lake / COPIES[name]), steps)


def _augmentation() -> list[Any]:
    import tensorlake as tl

    return [tl.decode.RandomResizedCrop(SIDE), tl.decode.Flip()]


def _epochs(url: str, steps: list[Any] | None) -> Measurement:
    import tensorlake as tl

    with tl.open(url, read_only=True) as ds:
        is_array = ds.schema["image"].kind == "array"
        options: dict[str, Any] = {}
        if steps is not None and not is_array:
            options["decode"] = {"image": steps}
        elif steps is not None:
            options["transform"] = Augment()
        loader = ds.torch(
            batch_size=IMAGE_BATCH, shuffle=True, seed=SEED, columns=["image"], **options
        )
        stored = ds.nbytes / len(ds)
        measured = two_epochs(loader, count_images, len(ds), counted=EPOCHS)
        facts = {**measured.facts, "kB an image": stored / 1000}
        return Measurement(measured.seconds, measured.amount, measured.cpu_seconds, facts)


class Augment:
    """``RandomResizedCrop`` and ``Flip`` of a row of raw pixels, as a transform."""

    def __call__(self, row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"image": augmented(row["image"], rng)}


def augmented(pixels: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    """Cut a random part, resize it with antialiasing, and mirror it in half of the cases."""
    import torch

    top, left, height, width = area(pixels.shape[0], pixels.shape[1], rng)
    part = torch.from_numpy(np.ascontiguousarray(pixels[top : top + height, left : left + width]))
    planes = part[None].permute(0, 3, 1, 2)
    resized = torch.nn.functional.interpolate(
        planes, (SIDE, SIDE), mode="bilinear", antialias=True, align_corners=False
    )
    image = resized.permute(0, 2, 3, 1)[0]
    return image.flip(1) if rng.random() < MIRRORED else image


def area(height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Draw top, left, height, width as torchvision's ``RandomResizedCrop`` does."""
    for _ in range(10):
        pixels = height * width * rng.uniform(0.08, 1.0)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        own_height, own_width = round((pixels / ratio) ** 0.5), round((pixels * ratio) ** 0.5)
        if 0 < own_height <= height and 0 < own_width <= width:
            top = int(rng.integers(0, height - own_height + 1))
            return top, int(rng.integers(0, width - own_width + 1)), own_height, own_width
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


class Mixed:
    """Epochs over raw images and JPEG in one memory map: no store, checksum, plan or state."""

    def __init__(self, workspace: Workspace) -> None:
        self.content = np.memmap(workspace.folder / "mixed.bin", np.uint8, mode="r")
        self.table = np.load(workspace.folder / "mixed.npy")
        self.random = np.random.default_rng(SEED)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        order = self.random.permutation(len(self.table))
        with ThreadPoolExecutor(THREADS) as pool:
            starts = range(0, len(order), IMAGE_BATCH)
            ahead: deque[list[Future[torch.Tensor]]] = deque()
            for start in starts:
                rows = order[start : start + IMAGE_BATCH].tolist()
                seeds = self.random.integers(0, 1 << 60, len(rows)).tolist()
                ahead.append(
                    [pool.submit(self._row, *one) for one in zip(rows, seeds, strict=True)]
                )
                if len(ahead) > 2:  # batches made while one is used
                    yield self._batch(ahead.popleft())
            while ahead:
                yield self._batch(ahead.popleft())

    @staticmethod
    def _batch(rows: list[Future[torch.Tensor]]) -> dict[str, Any]:
        import torch

        return {"image": torch.stack([one.result() for one in rows])}

    def _row(self, at: int, seed: int) -> torch.Tensor:
        import simplejpeg

        offset, nbytes, height, width, is_raw = self.table[at].tolist()
        data = self.content[offset : offset + nbytes]
        raw = data.reshape(height, width, 3) if is_raw else simplejpeg.decode_jpeg(data, "RGB")
        return augmented(raw, np.random.default_rng(seed))


def mixed(workspace: Workspace) -> Measurement:
    batches = Mixed(workspace)
    count = len(batches.table)
    measured = two_epochs(batches, count_images, count, counted=EPOCHS)
    facts = {**measured.facts, "kB an image": len(batches.content) / count / 1000}
    return Measurement(measured.seconds, measured.amount, measured.cpu_seconds, facts)


BENCHMARKS = (
    Benchmark(
        "copy-epoch",
        f"Shuffled epochs at {SIDE} × {SIDE} over copies to train from, beside the full images.",
        "img/s",
        (
            Contender(FULL, full),
            *(Contender(name, partial(copy, name)) for name in COPIES),
            Contender(FFCV, mixed),
        ),
        (
            Goal(RAW, FULL, at_least=3),
            Goal(READY, FULL, at_least=3),
            Goal(SMALL, FULL, at_least=1.5),
            Goal(RAW, FFCV, at_least=1),
        ),
        prepare=prepare,
    ),
)
