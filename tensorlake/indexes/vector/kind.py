"""The kind ``vector``: what it suits, its options, and how new rows join an index.

New rows are coded by the lists that there are. Once an index has half as many vectors again as its
lists were made of, both are made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.format import TensorSpec
from tensorlake.indexes.kind import IndexKind, RowRanges, Rows, known_options
from tensorlake.indexes.parts import Built, PartsReader
from tensorlake.indexes.vector.build import build, extended
from tensorlake.indexes.vector.space import Metric
from tensorlake.indexes.vector.tokens import has_several_vectors, vector_type
from tensorlake.quantities import checked_integer
from tensorlake.types import Array, Embedding, SampleType, holds_floats

__all__ = ["VECTOR", "metric_of"]

METRICS = ("cosine", "l2", "dot")
DIM_MAX = 4096  # a rotation of 64 MiB
LISTS_MAX = 1 << 20
GROWTH = 1.5  # times the vectors that the lists were made of


def metric_of(sample_type: SampleType) -> Metric:
    """Return the metric of a column of vectors: that of its type, else cosine."""
    own = vector_type(sample_type)
    return own.metric if isinstance(own, Embedding) else "cosine"


def _suits(sample_type: SampleType) -> bool:
    if has_several_vectors(sample_type):
        return 1 <= (vector_type(sample_type).shape[-1] or 0) <= DIM_MAX
    if not isinstance(sample_type, Array | Embedding) or len(sample_type.shape) != 1:
        return False
    (dim,) = sample_type.shape
    return dim is not None and 1 <= dim <= DIM_MAX and holds_floats(sample_type.dtype)


def _options(spec: TensorSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {"metric": metric_of(spec.type), "lists": None, "int8": True, "seed": 0}
    options = known_options("vector", given, defaults)
    if options["metric"] not in METRICS:
        raise InvalidInputError(
            f"{shown(options['metric'])} is not a metric"
            f"\nuse one of {', '.join(map(repr, METRICS))}",
            argument="metric",
            actual=options["metric"],
        )
    if options["lists"] is not None:
        lists = checked_integer(options["lists"], name="lists", least=1, most=LISTS_MAX)
        options["lists"] = lists
    if not isinstance(options["int8"], bool):
        raise InvalidInputError(
            f"int8 must be True or False, got {shown(options['int8'])}", argument="int8"
        )
    options["seed"] = checked_integer(options["seed"], name="seed", most=(1 << 63) - 1)
    return options


def _merge(parts: PartsReader, rows: Rows, keep: RowRanges) -> Built:
    made = parts.parameters
    kept = int((keep[:, 1] - keep[:, 0]).sum())
    if kept + rows.count > max(GROWTH * int(made["trained"]), 1):
        both = np.concatenate((keep, rows.ranges))
        both = both[np.argsort(both[:, 0])]
        options = {name: made[name] for name in ("metric", "int8", "seed")}
        return build(Rows(rows.spec, both, rows.reader), {**options, "lists": made["asked"]})
    return extended(parts, rows, keep)


VECTOR = IndexKind(
    name="vector",
    suits=_suits,
    options=_options,
    build=build,
    merge=_merge,
    wants=f"vectors of floats of one length, up to {DIM_MAX:,}, one or several a row",
)
