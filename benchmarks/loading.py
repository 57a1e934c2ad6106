"""Reading to train: shuffled JPEG epochs, and shuffled rows of tokens, from a local disk.

All contenders yield the same: uint8 ``[64, 224, 224, 3]`` resized with antialiasing, and uint16
``[256, 512]``, as torch tensors, every row once. The epoch that counts is the second: worker
processes have started and every cache is as warm as it gets; the first is among the facts.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness.data import NUM_LABELS, TOKENS_PER_ROW, Workspace, jpeg_paths, tokens
from benchmarks.harness.runs import Benchmark, Contender, Goal, Measurement, stopwatch

if TYPE_CHECKING:
    import torch

__all__ = [
    "BENCHMARKS",
    "IMAGES",
    "IMAGE_BATCH",
    "SIDE",
    "TOKENS",
    "TOKEN_BATCH",
    "count_images",
    "count_tokens",
    "image_dataset",
    "image_loader",
    "token_dataset",
    "token_file",
    "tokens_by_hand",
    "tokens_by_sampler",
    "two_epochs",
]

IMAGES = "jpegs.tl"
TOKENS = "tokens.tl"
SIDE = 224
IMAGE_BATCH = 64
TOKEN_BATCH = 256
WORKERS = 2
SEED = 7


class JpegFiles:
    """A map-style dataset as one writes it: a file read and decoded for each index."""

    def __init__(self, paths: list[Path], decode: Callable[[bytes], torch.Tensor]) -> None:
        self.paths = paths
        self.decode = decode

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": self.decode(self.paths[index].read_bytes()), "label": index % NUM_LABELS}


class TokenRows:
    """A map-style dataset over a memory map: one row for each index."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        import torch

        return torch.from_numpy(np.array(self.rows[index]))


def decode_with_pillow(encoded: bytes) -> torch.Tensor:
    import torch
    from PIL import Image

    picture = Image.open(io.BytesIO(encoded)).convert("RGB")
    return torch.from_numpy(np.array(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR)))


def decode_with_simplejpeg(encoded: bytes) -> torch.Tensor:
    import simplejpeg
    import torch

    pixels = torch.from_numpy(simplejpeg.decode_jpeg(encoded, "RGB"))
    resized = torch.nn.functional.interpolate(
        pixels.permute(2, 0, 1)[None], (SIDE, SIDE), mode="bilinear", antialias=True
    )
    return resized[0].permute(1, 2, 0).contiguous()


def two_epochs(
    batches: Iterable[Any], count: Callable[[Any], int], wanted: int, *, counted: int = 1
) -> Measurement:
    """Pass over the batches once, then as often as is counted: more than once if that is short."""
    started = time.perf_counter()
    rows = [sum(count(batch) for batch in batches)]
    first_s = time.perf_counter() - started
    with stopwatch() as watch:
        rows += [sum(count(batch) for batch in batches) for _ in range(counted)]
    if {*rows} != {wanted}:
        message = f"an epoch has {wanted} rows; the epochs had {rows}"
        raise SystemExit(message)
    return Measurement(watch.seconds, sum(rows[1:]), watch.cpu_seconds, {"first epoch s": first_s})


def count_images(batch: dict[str, Any]) -> int:
    """Count a batch's images, and see that they are what was asked for."""
    shape = tuple(batch["image"].shape)
    assert shape[1:] == (SIDE, SIDE, 3), shape
    return shape[0]


def count_tokens(batch: Any) -> int:
    rows = batch["tokens"] if isinstance(batch, dict) else batch
    assert rows.shape[1] == TOKENS_PER_ROW, rows.shape
    return rows.shape[0]


def _jpegs_by_torch(workspace: Workspace, decode: Callable[[bytes], torch.Tensor]) -> Measurement:
    import torch
    from torch.utils.data import DataLoader

    torch.manual_seed(SEED)
    paths = jpeg_paths(workspace)
    loader = DataLoader(
        JpegFiles(paths, decode),
        batch_size=IMAGE_BATCH,
        shuffle=True,
        num_workers=WORKERS,
        persistent_workers=True,
    )
    return two_epochs(loader, count_images, len(paths))


def jpegs_by_torch_and_pillow(workspace: Workspace) -> Measurement:
    return _jpegs_by_torch(workspace, decode_with_pillow)


def jpegs_by_torch_and_simplejpeg(workspace: Workspace) -> Measurement:
    return _jpegs_by_torch(workspace, decode_with_simplejpeg)


def jpegs_by_tensorlake(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    with tl.open(str(image_dataset(workspace)), read_only=True) as ds:
        return two_epochs(image_loader(ds), count_images, len(ds))


def image_loader(ds: Any, *, antialias: bool = True) -> Any:
    """Return the loader of images that every benchmark uses."""
    import tensorlake as tl

    return ds.torch(
        batch_size=IMAGE_BATCH,
        shuffle=True,
        seed=SEED,
        columns=["image", "label"],
        decode={"image": tl.decode.Resize(SIDE, SIDE, antialias=antialias)},
    )


def image_dataset(workspace: Workspace) -> Path:
    """Return the dataset of the workspace's images, writing it on the first call."""
    import tensorlake as tl

    target = workspace.lake / IMAGES
    if not target.exists():
        paths = jpeg_paths(workspace)
        names = [str(name) for name in range(NUM_LABELS)]
        schema = {"image": tl.Image(codec="jpeg"), "label": tl.ClassLabel(names)}
        with tl.create(str(target), schema) as ds:
            ds.extend(
                {
                    "image": [str(path) for path in paths],
                    "label": [number % NUM_LABELS for number in range(len(paths))],
                }
            )
            ds.commit("all")
    return target


def token_file(workspace: Workspace) -> Path:
    target = workspace.folder / "tokens.npy"
    if not target.exists():
        np.save(target, tokens(workspace))
    np.load(target)  # every contender finds it in the page cache
    return target


def token_dataset(workspace: Workspace) -> Path:
    import tensorlake as tl

    target = workspace.lake / TOKENS
    if not target.exists():
        schema = {"tokens": tl.Array("uint16", shape=(TOKENS_PER_ROW,))}
        with tl.create(str(target), schema) as ds:
            ds.extend({"tokens": tokens(workspace)})
            ds.commit("all")
    return target


def _tokens_by_torch(workspace: Workspace, *, workers: int) -> Measurement:
    import torch
    from torch.utils.data import DataLoader

    torch.manual_seed(SEED)
    dataset = TokenRows(token_file(workspace))
    loader = DataLoader(
        dataset,
        batch_size=TOKEN_BATCH,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    return two_epochs(loader, count_tokens, len(dataset))


def tokens_by_torch_with_workers(workspace: Workspace) -> Measurement:
    return _tokens_by_torch(workspace, workers=WORKERS)


def tokens_by_torch(workspace: Workspace) -> Measurement:
    return _tokens_by_torch(workspace, workers=0)


class BatchedRows:
    """The least that an epoch does: a permutation in memory, and one gather for each batch."""

    def __init__(self, path: Path) -> None:
        self.rows = np.load(path, mmap_mode="r")
        self.random = np.random.default_rng(SEED)

    def __iter__(self) -> Any:
        import torch

        order = self.random.permutation(len(self.rows))
        for start in range(0, len(order), TOKEN_BATCH):
            yield torch.from_numpy(self.rows[order[start : start + TOKEN_BATCH]])


def tokens_by_hand(workspace: Workspace) -> Measurement:
    return two_epochs(BatchedRows(token_file(workspace)), count_tokens, workspace.num_token_rows)


class SampledRows:
    """A map-style dataset that is asked for a whole batch, by torch's own sampler of batches."""

    def __init__(self, path: Path) -> None:
        self.rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, indices: list[int]) -> torch.Tensor:
        import torch

        return torch.from_numpy(self.rows[indices])


def tokens_by_sampler(workspace: Workspace) -> Measurement:
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    torch.manual_seed(SEED)
    dataset = SampledRows(token_file(workspace))
    sampler = BatchSampler(RandomSampler(dataset), TOKEN_BATCH, drop_last=False)
    loader = DataLoader(dataset, batch_size=None, sampler=sampler)
    return two_epochs(loader, count_tokens, len(dataset))


def tokens_by_tensorlake(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    with tl.open(str(token_dataset(workspace)), read_only=True) as ds:
        loader = ds.torch(batch_size=TOKEN_BATCH, shuffle=True, seed=SEED)
        return two_epochs(loader, count_tokens, len(ds))


def _prepare_tokens(workspace: Workspace) -> None:
    token_file(workspace)
    token_dataset(workspace)


BENCHMARKS = (
    Benchmark(
        name="epoch-jpeg",
        question=f"a shuffled epoch of JPEGs, resized to {SIDE}² with antialiasing",
        unit="img/s",
        contenders=(
            Contender("torch, 2 workers, Pillow", jpegs_by_torch_and_pillow),
            Contender("torch, 2 workers, simplejpeg", jpegs_by_torch_and_simplejpeg),
            Contender("tensorlake", jpegs_by_tensorlake),
        ),
        goals=(
            Goal("tensorlake", "torch, 2 workers, Pillow", at_least=1.5),
            Goal("tensorlake", "torch, 2 workers, simplejpeg", at_least=1.0),
        ),
        prepare=image_dataset,
    ),
    Benchmark(
        name="epoch-tokens",
        question=f"a shuffled epoch of rows of {TOKENS_PER_ROW} uint16 tokens",
        unit="rows/s",
        contenders=(
            Contender("torch, per sample", tokens_by_torch),
            Contender("torch, per sample, 2 workers", tokens_by_torch_with_workers),
            Contender("gather alone", tokens_by_hand),
            Contender("memory map, batched sampler", tokens_by_sampler),
            Contender("tensorlake", tokens_by_tensorlake),
        ),
        goals=(
            Goal("tensorlake", "memory map, batched sampler", at_least=1.2),
            Goal("tensorlake", "memory map, batched sampler", at_least=1.2, per="CPU second"),
            Goal("tensorlake", "torch, per sample", at_least=10.0),
            Goal("tensorlake", "torch, per sample, 2 workers", at_least=10.0),
        ),
        prepare=_prepare_tokens,
    ),
)
