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

from tensorlake.dataset import Dataset, SkippedItem, session_of
from tensorlake.errors import TensorlakeError, UnknownClassError
from tensorlake.ingest.engine.known import class_additions
from tensorlake.ingest.engine.options import OnError
from tensorlake.ingest.engine.readahead import LoadedItems
from tensorlake.ingest.engine.source import Item, Refused, Source
from tensorlake.types import ClassLabel, Image, SampleType, Scalar, as_type, is_widening

__all__ = ["Stage", "stage_valid"]

Stage = Callable[[Mapping[str, Any], npt.NDArray[np.int64]], int]

LEAVE_OUT = "to leave such items out: on_error='skip'"
PLACE = re.compile(r"row [\d,]+ of extend\(\)")
STAGED = re.compile(r"(?:\n|  \()nothing was staged[^\n()]*\)?$")
ANY_IMAGE = re.compile(r"Image\(codec=\"any\"[^)]*\)")
FRAMES = re.compile(r"tl\.Sequence\(tl\.Image\(\"\w+\"\)\)")
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
    session = session_of(dataset)
    # Not that of a snapshot, which would make a chunk of the rows that wait for more
    schema = (session.transaction or session.committed).schema
    num_staged, first = 0, loaded.items.start
    columns = {
        tensor: values
        for tensor, values in loaded.columns.items()
        if tensor in schema.by_name or tensor not in source.optional
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
                message = f"{name}: {_with_advice(dataset, source, error, name)}"
                raise type(error)(message, **{**error.facts, "item": name}) from error
            values = {tensor: values[row] for tensor, values in columns.items()}
            refused[row] = _refused(name, error, values)
            # In halves, so that many invalid rows do not convert valid rows as many times
            middle = (row + 1 + stop) // 2
            waiting += [(middle, stop), (row + 1, middle), (start, row)]
    return [*loaded.refused, *(refused[row] for row in sorted(refused))], num_staged


def _with_advice(dataset: Dataset, source: Source[Item], error: TensorlakeError, name: str) -> str:
    """Describe the error of an item, with a remedy where the call or the dataset has one."""
    told = STAGED.sub("", _described(error, name))
    tensor = error.facts.get("tensor")
    if not isinstance(tensor, str) or tensor not in source.schema or tensor not in dataset.schema:
        return f"{told}\n{LEAVE_OUT}"
    here, there = as_type(source.schema[tensor]), dataset.schema[tensor]
    additions = class_additions(dataset, source)
    if isinstance(error, UnknownClassError) and additions:
        return f"{told}\nadd the new classes, and repeat the call: {additions}"
    reason, _, hint = told.partition("\n")
    if not session_of(dataset).committed.num_rows:  # the first call
        wanted = ANY_IMAGE.search(hint)
        if source.takes_schema and wanted is not None:
            hint = f"to store images of all kinds: schema={{{tensor!r}: tl.{wanted.group()}}}"
        new = error.facts.get("actual")
        if (
            isinstance(error, UnknownClassError)
            and isinstance(there, ClassLabel)
            and isinstance(new, str)
        ):
            names = [*there.known_names, new]
            hint = f"to take it: schema={{{tensor!r}: tl.ClassLabel({names!r})}}"
        if source.takes_schema and (frames := FRAMES.search(told)) is not None:
            hint = f"to store the frames of each file: schema={{{tensor!r}: {frames.group()}}}"
        return f"{reason}\n{hint}{'; ' if hint else ''}{LEAVE_OUT}"
    change = _change(hint, here, there)
    if change is not None:
        return (
            f"{reason}\nto change the tensor, and repeat the call: ds = tl.open({dataset.url!r});"
            f" ds.alter_tensor({tensor!r}, {change}); ds.commit(); {LEAVE_OUT}"
        )
    if here != there:
        return (
            f"{reason}\ntensor {tensor!r} is {there.describe()} in the dataset, and"
            f" {here.describe()} in this call; {LEAVE_OUT}; to start over:"
            f" tl.delete({dataset.url!r}, confirm={dataset.url!r})"
        )
    return f"{told}\n{LEAVE_OUT}"


def _change(hint: str, here: SampleType, there: SampleType) -> str | None:
    """Return the argument of ``alter_tensor`` that makes a tensor take a value, if there is one.

    Args:
        hint: The advice of the error.
        here: The type of the source.
        there: The tensor's type.
    """
    if "nullable=True" in hint and not there.nullable:
        return "nullable=True"
    wanted = ANY_IMAGE.search(hint)  # with a mode, which no tensor can be altered to
    if isinstance(there, Image) and there.codec != "any" and wanted and "mode" not in wanted[0]:
        return 'codec="any"'
    if isinstance(here, Scalar) and isinstance(there, Scalar) and here.dtype != there.dtype:
        return f'dtype="{here.dtype}"' if is_widening(there.dtype, here.dtype) else None
    return None


def _refused(name: str, error: TensorlakeError, values: Mapping[str, Any]) -> Refused:
    tensor = error.facts.get("tensor")
    reason = _described(error, name).splitlines()[0]
    return SkippedItem(name, reason, tensor if isinstance(tensor, str) else None), values


def _described(error: TensorlakeError, name: str) -> str:
    """Describe the error of an item, without naming our internal call of ``extend()``."""
    return PLACE.sub(name.replace("\\", r"\\"), PLACE_FIRST.sub("", error.message))


def _num_rows(columns: Mapping[str, Any]) -> int:
    return len(next(iter(columns.values())))
