"""One run of ``tensorlake bench``: its parameters, and how it streams the dataset.

    BenchRun (JSON, by stdin) ─► python -m tensorlake.cli.bench ─► Measured (JSON, to stdout)

Without an opponent the command measures in its own process. In a comparison each contender gets a
new process, so that neither profits from imports, caches or threads of the other. Credentials are
passed by stdin: every user of the machine can read a command line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import tensorlake as tl
from tensorlake.loader import Epoch, measure_epochs

if TYPE_CHECKING:
    from tensorlake.types import SampleType

__all__ = ["OURS", "BenchRun", "Measured", "columns_of", "digest_of", "measure_ours"]

OURS = "tensorlake"


@dataclass(frozen=True, slots=True)
class BenchRun:
    """Parameters of a run.

    Attributes:
        contender: The loader: ``OURS``, or an opponent.
        query: Query that selects the rows; None: all rows.
        side: Side length that images are resized to.
        batches: Number of batches per epoch; None: the whole epoch.
        workers: Threads of our loader, processes of an opponent; None: one per core.
    """

    url: str
    contender: str = OURS
    at: str | None = None
    query: str | None = None
    storage_options: dict[str, str] | None = None
    columns: list[str] | None = None
    batch_size: int = 64
    side: int = 224
    epochs: int = 2
    batches: int | None = None
    shuffle: bool = True
    workers: int | None = None
    cache: str = "auto"

    @contextmanager
    def open(self) -> Generator[tl.Dataset | tl.View]:
        """Open the rows to stream."""
        options = self.storage_options
        with tl.open(self.url, self.at, read_only=True, storage_options=options) as ds:
            yield ds if self.query is None else ds.query(self.query)

    def loader_arguments(self, rows: tl.Dataset | tl.View) -> dict[str, Any]:
        """Return loader arguments that work for any dataset."""
        types = {name: rows.schema[name] for name in columns_of(rows, self.columns)}
        masked = {_image_of(one) for one in types.values() if not isinstance(one, tl.BBox)}
        resized = {n for n, one in types.items() if isinstance(one, tl.Image) and n not in masked}
        listed = [name for name, one in types.items() if _differs(one, is_sized=name in resized)]
        return {
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "columns": list(types),
            "workers": self.workers,
            "cache": self.cache,
            "decode": {name: tl.decode.Resize(self.side, self.side) for name in sorted(resized)},
            "collate": dict.fromkeys(listed, "list"),
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of a run.

    Attributes:
        plan: The loader's plan, as text.
        epochs: Each epoch with its rate.
        output: Contents of a batch, by column.
        digests: Digest of the first batch in stored order, by column: equal for equal output.
        facts: Facts about the contender: its versions and number of workers.
    """

    plan: str
    epochs: list[Epoch]
    output: dict[str, str] = field(default_factory=dict[str, str])
    digests: dict[str, str] = field(default_factory=dict[str, str])
    facts: dict[str, str] = field(default_factory=dict[str, str])


def columns_of(rows: tl.Dataset | tl.View, chosen: list[str] | None) -> list[str]:
    """List the columns to stream: those chosen, or all."""
    return list(rows.schema) if chosen is None else chosen


def measure_ours(run: BenchRun) -> Measured:
    """Stream with our loader, as torch tensors."""
    with run.open() as rows:
        return _measured(run, rows)


def _measured(run: BenchRun, rows: tl.Dataset | tl.View) -> Measured:
    arguments = run.loader_arguments(rows)
    with rows.torch(**arguments) as loader:
        plan = loader.explain()
        measured = measure_epochs(loader, run.epochs, max_batches=run.batches)
    with rows.torch(**dict[str, Any](arguments, shuffle=False)) as loader:
        first = next(iter(loader), {})
    threads = measured[-1].stats.threads if measured else 0
    digests, output = digest_of(first)
    return Measured(plan, measured, output, digests, {"decode threads": str(threads)})


def digest_of(batch: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Digest each column of a batch of tensors and lists, and describe it."""
    digests, output = dict[str, str](), dict[str, str]()
    for name, value in batch.items():
        digest = hashlib.blake2b(digest_size=16)
        output[name] = _digested(value, digest)
        digests[name] = digest.hexdigest()
    return digests, output


def _digested(value: Any, digest: Any) -> str:  # Any: hashlib exports no type for it
    if isinstance(value, list | tuple):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType] - of anything
        kinds = {_digested(item, digest).partition(" ")[0] for item in items}
        return f"list of {len(items)} {'|'.join(sorted(kinds))}"
    if value is None or isinstance(value, str | bytes | Mapping):
        digest.update(repr(value).encode())  # pyright: ignore[reportUnknownArgumentType] - as above
        return type(value).__name__  # pyright: ignore[reportUnknownArgumentType] - as above
    array = np.asarray(value)
    digest.update(f"{array.dtype}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    return f"{array.dtype} {array.shape}"


def _image_of(sample_type: SampleType) -> str | None:
    """Return the image that a mask belongs to; no step resizes both, so neither is resized."""
    return getattr(sample_type, "of", None)


def _differs(sample_type: SampleType, *, is_sized: bool) -> bool:
    """Whether samples cannot be stacked: NULL among them, or shapes that differ."""
    shape = sample_type.shape
    return sample_type.nullable or None in (shape[2:] if is_sized else shape)
