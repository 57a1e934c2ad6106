"""The plan of batch steps: which labels and annotations are mixed with images.

``MixUp`` and ``CutMix`` turn a column of labels into vectors, float32 of one number per class.
``Mosaic`` joins the tensors declared ``of=`` the images, and those ``per=`` items of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, did_you_mean
from tensorlake.loader.decode import BatchMix, DecodeSpec
from tensorlake.loader.decode.mixing.blend import Blend
from tensorlake.types import ClassLabel

if TYPE_CHECKING:
    from tensorlake.loader.config.column_plan import ColumnPlan

__all__ = ["with_mixes"]


def with_mixes(
    planned: Mapping[str, ColumnPlan],
    specs: Mapping[str, DecodeSpec],
    *,
    seed: int,
    transforms: bool,
) -> dict[str, ColumnPlan]:
    """Return the columns of a batch with the batch steps of their specs.

    Raises:
        InvalidInputError: A step does not fit its column, or names labels that are not read.
        UnsupportedFeatureError: Annotations would not fit mixed images.
    """
    columns = dict(planned)
    mixed: dict[str, str] = {}
    for name, spec in specs.items():
        if not spec.batch:
            continue
        _check(columns[name], spec, columns, transforms=transforms)
        classes: dict[str, int] = {}
        for step in spec.batch:
            if not isinstance(step, Blend):
                continue
            labels = step.labels
            count = _classes(columns, step, spec)
            if mixed.setdefault(labels, name) != name or classes.setdefault(labels, count) != count:
                raise InvalidInputError(
                    f"decode of {name!r}: {labels!r} is mixed by two steps that do not agree\ngive"
                    " both the same classes=, and one column of labels to each column of images",
                    tensor=labels,
                )
        if any(isinstance(step, Blend) for step in spec.batch) and len(classes) > 1:
            raise InvalidInputError(
                f"decode of {name!r}: its batch steps name {len(classes)} columns of labels, and a"
                " row is mixed by one step\nname the same column in each",
                tensor=name,
            )
        for labels, count in classes.items():
            shape = (count,) if count else columns[labels].shape
            columns[labels] = replace(columns[labels], shape=shape, dtype=np.dtype(np.float32))
        columns[name] = replace(columns[name], mix=_mix(columns, name, spec, classes, seed))
    return columns


def _mix(
    columns: Mapping[str, ColumnPlan],
    name: str,
    spec: DecodeSpec,
    classes: Mapping[str, int],
    seed: int,
) -> BatchMix:
    joined = columns.values() if spec.joins else ()
    movers = {
        column.name: column.mover
        for column in joined
        if column.mover is not None and column.moves_with == name
    }
    items = {
        column.name: column.drops_with
        for column in joined
        if column.drops_with is not None and columns[column.drops_with].moves_with == name
    }
    return BatchMix(name, spec.batch, seed, spec.first_batch_step, classes, movers, items)


def _check(
    column: ColumnPlan, spec: DecodeSpec, columns: Mapping[str, ColumnPlan], *, transforms: bool
) -> None:
    step, name = spec.batch[0], column.name
    if transforms:
        raise InvalidInputError(
            f"decode of {name!r}: {step!r} mixes rows of a batch, and transform= changes them"
            " afterwards, one by one\nmix in batch_transform=, or leave transform= out",
            tensor=name,
            argument="transform",
        )
    has_images = column.kind == "image" or (column.kind == "decoded" and column.spec is not None)
    needs_pixels = spec.joins or any(
        isinstance(one, Blend) and one.needs_pixels for one in spec.batch
    )
    fits = column.is_placed if spec.joins else has_images or not needs_pixels
    if not fits or not column.is_stacked or column.dtype is None or column.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"decode of {name!r}: {step!r} takes {'images' if needs_pixels else 'arrays'} of one"
            f" shape, and {name!r} is not one array of them in a batch\nadd a step that gives them"
            " one size, such as tl.decode.Resize(224, 224), or leave the step out",
            tensor=name,
            actual=column.shape,
        )
    annotations = [one.name for one in columns.values() if getattr(one.type, "of", None) == name]
    blends = [one for one in spec.batch if isinstance(one, Blend)]
    if annotations and blends:
        raise UnsupportedFeatureError(
            f"decode of {name!r}: {blends[0]!r} mixes images, and {annotations[0]!r}, which belongs"
            f" to them, would fit neither\nleave {annotations[0]!r} out of columns=, or use"
            " tl.decode.Mosaic",
            tensor=annotations[0],
        )
    others = [
        one.name
        for one in columns.values()
        if spec.joins and one.collate is not None and one.is_dense and one.moves_with == name
    ]
    if others:
        raise UnsupportedFeatureError(
            f"decode of {name!r}: {step!r} joins images, and {others[0]!r} is a list"
            f"\nleave {others[0]!r} out of collate=, so that masks are stacked",
            tensor=others[0],
        )


def _classes(columns: Mapping[str, ColumnPlan], step: Blend, spec: DecodeSpec) -> int:
    """Return the number of classes of labels; 0 where they are vectors."""
    labels = step.labels
    if labels not in columns:
        raise InvalidInputError(
            f"decode of {spec.tensor!r}: {step!r} mixes {labels!r}, which is not among the columns:"
            f" {', '.join(columns)}{did_you_mean(labels, list(columns))}\nadd it to columns=",
            tensor=labels,
        )
    column = columns[labels]
    kind = "" if column.dtype is None else column.dtype.kind
    if column.is_stacked and column.kind == "uniform" and column.collate is None:
        if kind == "f" and len(column.shape) == 1 and column.mix is None:
            return 0
        if isinstance(column.type, ClassLabel) and column.shape == () and column.type.names:
            return len(column.type.names)
        if kind in "iu" and column.shape == () and step.classes is not None:
            return step.classes
    raise InvalidInputError(
        f"decode of {spec.tensor!r}: {step!r} mixes {labels!r}, which is neither a class per row"
        " nor a vector of floats\nname a ClassLabel, give classes= for integers, or mix in"
        " batch_transform=",
        tensor=labels,
        actual=step.classes,
    )
