"""One run of ``tensorlake bench``: what it streams, and the results."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensorlake as tl
from tensorlake.cli.exits import wrong_usage
from tensorlake.loader import Diagnosis, Epoch, measure_epochs

__all__ = ["BenchRun", "Measured", "diagnose_ours", "digest_of", "measure_ours"]


@dataclass(frozen=True, slots=True)
class BenchRun:
    """Parameters of a run.

    Attributes:
        query: Query that selects the rows; None: all rows.
        columns: Columns to stream; None: all.
        side: Side length that images are resized to.
        batches: Number of batches per epoch; None: the whole epoch.
        workers: Threads of our loader, processes of an opponent; None: one per core.
    """

    url: str
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
    def open(self) -> Generator[tuple[tl.Dataset | tl.View, dict[str, Any]]]:
        """Open the rows to stream, and find loader arguments that work for any dataset."""
        options = self.storage_options
        with tl.open(self.url, self.at, read_only=True, storage_options=options) as ds:
            rows = ds if self.query is None else ds.query(self.query)
            yield rows, self._arguments(rows)

    def _arguments(self, rows: tl.Dataset | tl.View) -> dict[str, Any]:
        known = rows.schema
        names = list(known) if self.columns is None else self.columns
        if unknown := [name for name in names if name not in known]:
            wrong_usage(f"--columns: no tensor {unknown[0]!r}; known: {', '.join(known)}")
        types = {name: known[name] for name in names}
        # of an image with masks: no step resizes both, so neither is resized
        masked = {
            getattr(one, "of", None) for one in types.values() if not isinstance(one, tl.BBox)
        }
        resized = {n for n, one in types.items() if isinstance(one, tl.Image) and n not in masked}
        uneven = [  # samples that cannot be stacked: NULL among them, or shapes that differ
            name
            for name, one in types.items()
            if one.nullable or None in (one.shape[2:] if name in resized else one.shape)
        ]
        return {
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "columns": names,
            "workers": self.workers,
            "cache": self.cache,
            "decode": {name: tl.decode.Resize(self.side, self.side) for name in sorted(resized)},
            "collate": dict.fromkeys(uneven, "list"),
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of a run.

    Attributes:
        plan: The loader's plan, as text.
        epochs: Each epoch with its rate.
        first: Contents and digest of the first batch in stored order, by column.
        facts: Versions and number of workers, as text.
    """

    plan: str
    epochs: list[Epoch]
    first: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    facts: str = ""

    @property
    def report(self) -> str:
        """The plan, and the speed and stages of each epoch."""
        lines = [self.plan]
        for epoch in self.epochs:
            first_ms = epoch.first_batch_s * 1000
            lines.append(
                f"\nepoch {epoch.number}: {epoch.stats.rows:,} rows in {epoch.seconds:.2f} s,"
                f" {epoch.rows_per_s:,.0f} rows/s, first batch after {first_ms:,.0f} ms"
            )
            lines.append(str(epoch.stats))
        return "\n".join(lines)


def measure_ours(run: BenchRun, *, is_compared: bool = True) -> Measured:
    """Stream with our loader; for a comparison as torch tensors, with a digest of the batch."""
    with run.open() as (rows, arguments):
        with (rows.torch if is_compared else rows.loader)(**arguments) as loader:
            epochs = measure_epochs(loader, run.epochs, max_batches=run.batches)
            plan = loader.explain()  # now it has the ceilings
        if not is_compared:
            return Measured(plan, epochs)
        with rows.torch(**dict[str, Any](arguments, shuffle=False)) as loader:
            first = digest_of(next(iter(loader), {}))
    return Measured(plan, epochs, first, f"decode threads {epochs[-1].stats.threads}")


def diagnose_ours(run: BenchRun) -> Diagnosis:
    """Diagnose our loader: what limits its rate, without a training step."""
    with run.open() as (rows, arguments), rows.loader(**arguments) as loader:
        return loader.diagnose()


def digest_of(batch: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Describe each column of a batch of tensors and lists, and digest it."""
    digested: dict[str, tuple[str, str]] = {}
    for name, value in batch.items():
        digest = hashlib.blake2b(digest_size=16)
        digested[name] = _digested(value, digest), digest.hexdigest()
    return digested


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
