"""Images and videos that cannot be decoded or show nothing, and images of another size.

The first, the middle and the last frame of a video are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tensorlake_query as tql
from tensorlake.dataset.maintenance.lint.rule import Linted, LintRule, Suspect
from tensorlake.dataset.maintenance.lint.samples import facts_of
from tensorlake.types import Image, Video

__all__ = ["ODD_SIZE", "UNREADABLE"]

COMMON_SHARE = 0.9
"""Share of the images that have one size, from which on the others look like mistakes."""


def _unreadable(view: Linted) -> Iterator[Suspect]:
    for name, kind in view.schema.items():
        if not isinstance(kind, Image | Video):
            continue
        damaged: list[int] = []
        plain: list[int] = []
        seen = _is_plain_video if isinstance(kind, Video) else _is_plain
        for at, is_plain in facts_of(view, name, seen):
            if is_plain is None:
                damaged.append(at)
            elif is_plain:
                plain.append(at)
        remedy = "to train without them: on_error='skip'; or give the rows their files again"
        yield Suspect(name, "cannot be decoded", "", remedy, "error", damaged)
        column = tql.print_name(name)
        is_found = isinstance(kind, Image) and not damaged
        condition = f"ARRAY_MIN({column}) = ARRAY_MAX({column})" if is_found else ""
        remedy = "look at them, and delete those that show nothing"
        yield Suspect(name, "has one value in all pixels", condition, remedy, "warning", plain)


def _is_plain(image: Any) -> bool:
    pixels = np.asarray(image)
    return not pixels.size or bool((pixels == pixels.reshape(-1)[0]).all())


def _is_plain_video(video: Any) -> bool:
    last = len(video) - 1
    return all(_is_plain(video[at]) for at in {0, last // 2, last}) if last >= 0 else True


def _odd_size(view: Linted) -> Iterator[Suspect]:
    for name, kind in view.schema.items():
        if not isinstance(kind, Image):
            continue
        image = tql.print_name(name)
        sizes = view.query(
            f"SELECT SHAPE({image})[0] AS height, SHAPE({image})[1] AS width, COUNT(*) AS n"
            f" WHERE {image} IS NOT NULL GROUP BY SHAPE({image})[0], SHAPE({image})[1]"
            " ORDER BY n DESC"
        )
        counts = np.asarray(sizes["n"])
        if len(counts) < 2 or counts[0] < COMMON_SHARE * counts.sum():  # noqa: PLR2004 - most, and others
            continue
        height, width = int(sizes["height"][0]), int(sizes["width"][0])
        what = f"has another size than {width} × {height}, that of most"
        condition = f"SHAPE({image})[0] != {height} OR SHAPE({image})[1] != {width}"
        remedy = "resize them; or leave them, if the loader's decode= does"
        yield Suspect(name, what, condition, remedy, "note")


UNREADABLE = LintRule(
    "unreadable", "images and videos that cannot be decoded, or show nothing", _unreadable
)
ODD_SIZE = LintRule("odd-size", "few images of another size than the others", _odd_size)
