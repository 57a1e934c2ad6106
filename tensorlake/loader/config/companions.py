"""Companions of an image: tensors declared ``of=`` it, and those with a value ``per=`` item.

    image ◄── of ── boxes ◄── per ── label, score, masks, keypoints
      ▲
      └────── of ── masks, outlines

A loader's geometric steps move an image together with its annotations. Items that leave the
image are dropped, together with everything that is ``per=`` them; a tensor that is ``of=`` the
image and ``per=`` other items is dropped with those, not by what is left of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.loader.decode import CenterCrop, RandomResizedCrop, mover_of

if TYPE_CHECKING:
    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.plan.selection import Schema

__all__ = ["moved_images", "refuse_left_behind", "with_companions"]


def moved_images(planned: Mapping[str, ColumnPlan]) -> set[str]:
    """Name the images, and arrays, of which a loader's steps move, leave out or join pixels."""
    return {
        column.name
        for column in planned.values()
        if (column.spec is not None and (column.spec.geometric or column.spec.joins))
        or (column.parts is not None and column.parts.step and column.parts.step.moves)
    }


def refuse_left_behind(
    column: ColumnPlan, planned: Mapping[str, ColumnPlan], moved: set[str], schema: Schema
) -> None:
    """Refuse columns that geometric steps would leave unchanged while items move or are dropped.

    Raises:
        UnsupportedFeatureError: With what to do instead.
    """
    is_annotated = any(getattr(spec.type, "of", None) in moved for spec in schema.tensors)
    if is_annotated and column.kind == "virtual" and None in (column.shape or ()):
        raise UnsupportedFeatureError(
            f"decode moves pixels of {', '.join(sorted(map(repr, moved)))}, and {column.name!r} is"
            " computed by the query: it cannot be moved with them"
            "\nselect tensors by their own names and compute in transform=, or leave"
            f" {column.name!r} out of columns=",
            tensor=column.name,
        )
    items = _per(column)
    if items is None or items in planned or items not in schema:
        return
    image = getattr(schema[items].type, "of", None)
    if image in moved and _crops(planned[image]):
        raise UnsupportedFeatureError(
            f"decode crops {image!r}, by which items of {items!r} leave it, and {column.name!r} is"
            f" one for each of them, which are not read\nadd {items!r} to columns=, or leave"
            f" {column.name!r} out",
            tensor=column.name,
        )


def _crops(image: ColumnPlan) -> bool:
    """Whether items may leave an image."""
    if image.parts is not None and image.parts.step is not None:
        return image.parts.step.moves
    steps = () if image.spec is None else image.spec.geometric
    return any(isinstance(step, CenterCrop | RandomResizedCrop) for step in steps)


def with_companions(
    column: ColumnPlan, planned: Mapping[str, ColumnPlan], moved: set[str]
) -> ColumnPlan:
    """Return a column with what it moves, counts and is dropped with.

    Raises:
        UnsupportedFeatureError: It belongs to a moved image and cannot be moved with it.
    """
    image = cast("str | None", getattr(column.type, "of", None))
    if image in moved and (column.parts is None or column.parts.step is None):
        column = _moving(column, planned[image])
    items = _per(column)
    if items is None or items not in planned:
        return column
    of = planned[items]
    if column.kind == of.kind == "ragged":
        column = replace(column, counts_with=items)
    root = _root(items, planned)
    if getattr(planned[root].type, "of", None) not in moved:
        return column
    if column.kind == "encoded" and column.mover is None:
        raise UnsupportedFeatureError(
            f"decode moves the image of {root!r}, and {column.name!r}, with one item for each of"
            f" them, is not declared of= an image\ndeclare it, or leave {column.name!r} out of"
            " columns=",
            tensor=column.name,
        )
    return replace(column, drops_with=root)


def _moving(column: ColumnPlan, image: ColumnPlan) -> ColumnPlan:
    assert column.type is not None
    mover = mover_of(column.name, column.type)
    if mover is None or not image.is_placed:
        raise UnsupportedFeatureError(
            f"decode of {image.name!r} moves its pixels, and {column.name!r}"
            f" ({column.type.describe()}), which belongs to it, cannot be moved with it\n"
            f"leave {column.name!r} out of columns=, or the geometric steps out of decode=",
            tensor=column.name,
        )
    return replace(column, moves_with=image.name, mover=mover)


def _root(items: str, planned: Mapping[str, ColumnPlan]) -> str:
    """Return the items that decide which are dropped: of a mask per box, the boxes."""
    seen = {items}
    further = _per(planned[items])
    while further is not None and further in planned and further not in seen:
        items, further = further, _per(planned[further])
        seen.add(items)
    return items


def _per(column: ColumnPlan) -> str | None:
    return cast("str | None", getattr(column.type, "per", None))
