"""Rows of loaded items, staged without the invalid ones, and the words for these.

A call is refused as a whole for its first invalid row. Where invalid rows are left out, the others
are staged in parts, so that each invalid row is named with its own reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset, SkippedItem
from tensorlake.errors import TensorlakeError, UnknownClassError
from tensorlake.ingest.engine.known import class_additions
from tensorlake.ingest.engine.options import OnError
from tensorlake.ingest.engine.readahead import LoadedItems
from tensorlake.ingest.engine.source import Item, Refused, Source
from tensorlake.types import as_type

__all__ = ["Stage", "stage_valid"]

Stage = Callable[[Mapping[str, Any], npt.NDArray[np.int64]], int]

PLACE = re.compile(r"row [\d,]+ of extend\(\)")
PLACE_FIRST = re.compile(rf"^{PLACE.pattern}: ?")


def stage_valid(
    dataset: Dataset,
    source: Source[Item],
    loaded: LoadedItems,
    stage: Stage,
    *,
    on_error: OnError,
) -> tuple[list[Refused], int]:
    """Stage items; invalid rows are named, and left out unless ``on_error`` is "raise".

    Args:
        dataset: The dataset.
        source: The source.
        loaded: Items, with their columns.
        stage: Stages columns of some items, all or none; returns the number of new rows.
        on_error: Whether an invalid row is an error.

    Returns:
        The items left out, and the number of rows staged.
    """
    items = source.items[loaded.items.start : loaded.items.stop]
    if loaded.error is not None:
        return [_refused(source.name(items[0]), loaded.error, {})], 0
    schema, num_staged, first = dataset.schema, 0, loaded.items.start
    columns = {
        tensor: values
        for tensor, values in loaded.columns.items()
        if tensor in schema or tensor not in source.optional
    }
    refused: dict[int, Refused] = {}
    waiting = [(0, _num_rows(columns))]  # runs of rows, the next one last
    while waiting:
        start, stop = waiting.pop()
        if start == stop:
            continue
        try:
            some = {tensor: values[start:stop] for tensor, values in columns.items()}
            num_staged += stage(some, np.arange(first + start, first + stop))
        except TensorlakeError as error:
            at = error.facts.get("row")
            if not isinstance(at, int) or not 0 <= at < stop - start:
                raise
            row = start + at
            name = loaded.row_name(row) if loaded.row_name else source.row_called(items, row)
            if on_error == "raise":
                message = f"{name}: {_described(error, name)}{_advice(dataset, source, error)}"
                raise type(error)(message, **{**error.facts, "item": name}) from error
            values = {tensor: values[row] for tensor, values in columns.items()}
            refused[row] = _refused(name, error, values)
            # In halves, so that many invalid rows do not convert valid rows as many times
            middle = (row + 1 + stop) // 2
            waiting += [(middle, stop), (row + 1, middle), (start, row)]
    return [*loaded.refused, *(refused[row] for row in sorted(refused))], num_staged


def _advice(dataset: Dataset, source: Source[Item], error: TensorlakeError) -> str:
    """Explain types that come from the existing dataset, or that ``schema=`` can set."""
    tensor = error.facts.get("tensor")
    if not isinstance(tensor, str) or tensor not in source.schema or tensor not in dataset.schema:
        return ""
    here, there = as_type(source.schema[tensor]), dataset.schema[tensor]
    additions = class_additions(dataset, source)
    if isinstance(error, UnknownClassError) and additions:
        return f"\nadd the new classes, and repeat the call: {additions}"
    if here != there:
        url = dataset.url
        return (
            f"\ntensor {tensor!r} of the existing dataset is {there.describe()}, and"
            f" {here.describe()} in this call; to start over: tl.delete({url!r}, confirm={url!r})"
        )
    if source.takes_schema and "use Image(" in error.message:
        return f"\nto set the type: schema={{{tensor!r}: tl.Image(…)}}"
    return ""


def _refused(name: str, error: TensorlakeError, values: Mapping[str, Any]) -> Refused:
    tensor = error.facts.get("tensor")
    reason = _described(error, name).splitlines()[0]
    return SkippedItem(name, reason, tensor if isinstance(tensor, str) else None), values


def _described(error: TensorlakeError, name: str) -> str:
    """Describe the error of an item, without naming our internal call of ``extend()``."""
    return PLACE.sub(name.replace("\\", r"\\"), PLACE_FIRST.sub("", error.message))


def _num_rows(columns: Mapping[str, Any]) -> int:
    return len(next(iter(columns.values())))
