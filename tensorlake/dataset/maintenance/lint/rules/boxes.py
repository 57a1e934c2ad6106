"""Boxes of no area, and boxes outside of their image."""

from __future__ import annotations

from collections.abc import Iterator

import tensorlake_query as tql
from tensorlake.dataset.maintenance.lint.rule import Linted, LintRule, Suspect
from tensorlake.types import BBox, BBox3D, Image

__all__ = ["NO_AREA", "OUTSIDE"]

SLACK = 1
"""Pixels that a box may reach beyond its image: annotators round."""


def _no_area(view: Linted) -> Iterator[Suspect]:
    for name, kind in view.schema.items():
        box = tql.print_name(name)
        if isinstance(kind, BBox):
            pairs = [(2, 0), (3, 1)]
            sizes = [
                f"{box}[:, {end}] <= {f'{box}[:, {start}]' if kind.format == 'xyxy' else 0}"
                for end, start in pairs
            ]
        elif isinstance(kind, BBox3D) and kind.format != "corners":
            sizes = [f"{box}[:, {axis}] <= 0" for axis in (3, 4, 5)]
        else:
            continue
        condition = " OR ".join(f"ANY({size})" for size in sizes)
        yield Suspect(
            name,
            "has boxes of no area",
            condition,
            "remove these boxes, or correct them; a wrong format= turns all boxes around",
            "error",
        )


def _outside(view: Linted) -> Iterator[Suspect]:
    schema = view.schema
    for name, kind in schema.items():
        if not isinstance(kind, BBox) or not isinstance(schema.get(kind.of or ""), Image):
            continue
        box, image = tql.print_name(name), tql.print_name(str(kind.of))
        sides: list[str] = []
        for axis, size in ((0, f"SHAPE({image})[1]"), (1, f"SHAPE({image})[0]")):
            first, second = f"{box}[:, {axis}]", f"{box}[:, {axis + 2}]"
            low, high = {
                "xyxy": (first, second),
                "xywh": (first, f"{first} + {second}"),
                "cxcywh": (f"{first} - {second} / 2", f"{first} + {second} / 2"),
            }[kind.format]
            sides += [f"ANY({low} < -{SLACK})", f"ANY({high} > {size} + {SLACK})"]
        yield Suspect(
            name,
            f"has boxes outside of {kind.of!r}",
            " OR ".join(sides),
            "clip the boxes to the image; many of them mean another format=, or a resized image",
            "error",
        )


NO_AREA = LintRule("box-without-area", "boxes of no area", _no_area)
OUTSIDE = LintRule("box-outside", "boxes that reach outside of their image", _outside)
