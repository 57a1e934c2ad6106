"""One measured run of ``tensorlake bench``: what is asked, and how a dataset is streamed for it.

    BenchRun (JSON, by stdin) ─► python -m tensorlake.cli.bench ─► Measured (JSON, to stdout)

Without an opponent the command measures in its own process. Beside another each contender gets a
fresh one, so that neither finds what the other has imported, cached or started. Credentials go by
stdin: what is in a command line, every user of the machine can read.
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
    """What is measured.

    Attributes:
        contender: Who streams: ``OURS``, or an opponent.
        query: Rows that a query selects; None: all.
        side: What pictures are resized to.
        batches: Leave each epoch after so many; None: stream it whole.
        workers: Threads of ours, processes of an opponent's; None: one a core.
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
        """Open what is streamed."""
        options = self.storage_options
        with tl.open(self.url, self.at, read_only=True, storage_options=options) as ds:
            yield ds if self.query is None else ds.query(self.query)

    def loader_arguments(self, rows: tl.Dataset | tl.View) -> dict[str, Any]:
        """Say how a loader streams it: whatever the dataset holds, it streams."""
        types = {name: rows.schema[name] for name in columns_of(rows, self.columns)}
        kept = {_lies_on(one) for one in types.values() if not isinstance(one, tl.BBox)}
        resized = {n for n, one in types.items() if isinstance(one, tl.Image) and n not in kept}
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
    """What a run came to.

    Attributes:
        plan: The loader's, in words.
        epochs: Each with its rate.
        output: What a batch holds, by column.
        digests: Of the first batch in stored order, by column: equal where both make the same.
        facts: Of the contender: its versions, and how many workers it had.
    """

    plan: str
    epochs: list[Epoch]
    output: dict[str, str] = field(default_factory=dict[str, str])
    digests: dict[str, str] = field(default_factory=dict[str, str])
    facts: dict[str, str] = field(default_factory=dict[str, str])


def columns_of(rows: tl.Dataset | tl.View, asked: list[str] | None) -> list[str]:
    """List the columns that are streamed: those asked for, or all."""
    return list(rows.schema) if asked is None else asked


def measure_ours(run: BenchRun) -> Measured:
    """Stream by the loader, as torch tensors, and compare nothing."""
    with run.open() as rows:
        return _measured(run, rows)


def _measured(run: BenchRun, rows: tl.Dataset | tl.View) -> Measured:
    arguments = run.loader_arguments(rows)
    with rows.torch(**arguments) as loader:
        plan = loader.explain()
        measured = measure_epochs(loader, run.epochs, max_batches=run.batches)
    with rows.torch(**arguments | {"shuffle": False}) as loader:
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


def _digested(value: Any, digest: Any) -> str:  # Any: hashlib names no type of its own
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


def _lies_on(sample_type: SampleType) -> str | None:
    """Name the picture that a mask lies on: no step moves both, so it stays as it is."""
    return getattr(sample_type, "of", None)


def _differs(sample_type: SampleType, *, is_sized: bool) -> bool:
    """Whether samples cannot be stacked: NULL among them, or shapes that differ."""
    shape = sample_type.shape
    return sample_type.nullable or None in (shape[2:] if is_sized else shape)
