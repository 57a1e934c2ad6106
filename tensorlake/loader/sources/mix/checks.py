"""Checks of a mix before it reads: columns that do not match, impossible weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError, SchemaError, TensorNotFoundError, shown
from tensorlake.loader.plan.mix_order import MixStop, Weight
from tensorlake.loader.plan.virtual_columns import VirtualColumn
from tensorlake.loader.sources.mix.reader import MixSource
from tensorlake.types import SampleType

__all__ = ["check_columns", "check_weights", "common_columns", "common_computed"]

# Properties that may differ between sources: decoded samples do not have them.
STORED_ONLY = frozenset({"codec", "nullable", "default"})


def common_columns(sources: Sequence[MixSource]) -> tuple[str, ...]:
    """Return the columns that all sources have."""
    first, *others = [source.selection.columns for source in sources]
    return tuple(name for name in first if all(name in columns for columns in others))


def common_computed(sources: Sequence[MixSource]) -> tuple[str, ...]:
    """Return the columns that are computed in all sources."""
    first, *others = [source.virtual for source in sources]
    return tuple(name for name in first if all(name in columns for columns in others))


def check_columns(sources: Sequence[MixSource], names: Sequence[str]) -> None:
    """Refuse columns that not all sources have with the same type.

    Raises:
        TensorNotFoundError: A source lacks one.
        SchemaError: Two sources have it with different types, or have no column in common.
    """
    common = common_columns(sources) + common_computed(sources)
    if not names and not common:
        own = "; ".join(
            f"{one.name!r}: {', '.join((*one.selection.columns, *one.virtual))}" for one in sources
        )
        raise SchemaError(
            f"the sources of the mix have no tensor in common, so a batch would be empty\n{own}"
            "\nrename a tensor of one: ds.rename_tensor('body', 'text')"
        )
    for name in names:
        first = sources[0]
        for source in sources:
            if name not in source.selection.columns and name not in source.virtual:
                raise TensorNotFoundError(
                    f"source {source.name!r} of the mix has no tensor {name!r}"
                    f"\ngive columns= that all sources have: {', '.join(common)}",
                    tensor=name,
                )
            if name in first.virtual or name in source.virtual:
                _check_computed(name, first, source)
                continue
            one, other = (s.selection.snapshot.spec(name).type for s in (first, source))
            if batch_form(one) != batch_form(other):
                raise SchemaError(
                    f"{name!r} is {one.describe()} in {first.name!r} and {other.describe()} in"
                    f" {source.name!r}: one batch cannot hold both\nleave it out of columns=, or"
                    " give both sources the same type (of class labels: the same names)",
                    tensor=name,
                )


def _check_computed(name: str, first: MixSource, other: MixSource) -> None:
    one, two = (_computed_form(source.virtual.get(name)) for source in (first, other))
    if one != two:
        raise SchemaError(
            f"{name!r} is {one} in {first.name!r} and {two} in {other.name!r}: one batch cannot"
            " hold both\nleave it out of columns=, or give both sources the same:"
            " view.materialize(url) stores what is computed",
            tensor=name,
        )


def _computed_form(column: VirtualColumn | None) -> str:
    if column is None:
        return "stored"
    names: tuple[str, ...] | None = getattr(column, "names", None)
    kind = "objects" if column.dtype is None else f"{column.dtype} of shape {column.shape}"
    return f"computed ({kind if names is None else f'classes {list(names)}'})"


def check_weights(weights: Mapping[str, Weight], counts: Mapping[str, int], stop: MixStop) -> None:
    """Refuse weights that no order could follow, and sources without rows.

    Args:
        weights: By name of a source.
        counts: The rows of each source, and of those of mixes inside.
        stop: The end of an epoch.
    """
    for name, weight in weights.items():
        if callable(weight):
            if stop != "never":
                raise InvalidInputError(
                    f"the weight of {name!r} is a function of the place, so the end of an epoch"
                    " is not known in advance\ngive stop='never', or a number",
                    actual=stop,
                )
        elif not is_weight(weight):
            raise InvalidInputError(
                f"the weight of {name!r} must be a finite number > 0, or a function of the place,"
                f" got {shown(weight)}",
                actual=weight,
            )
    for name, count in counts.items():
        if not count:
            raise InvalidInputError(
                f"source {name!r} of the mix has no rows\nleave it out", actual=name
            )


def is_weight(value: object) -> bool:
    """Return whether a value is a Python or NumPy number that can be a weight."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    return is_number and not isinstance(value, bool) and 0 < float(value) < math.inf


def batch_form(sample_type: SampleType) -> dict[str, Any]:
    """Return the properties of a type's decoded samples."""
    return {k: v for k, v in sample_type.to_json().items() if k not in STORED_ONLY}
