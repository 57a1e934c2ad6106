"""Tensors that follow from the paths of files, from their names, or from a table beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorlake.dataset import SkippedItem
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.tables.sidecar import Sidecar
from tensorlake.ingest.vision.folder_scan import (
    FileKind,
    NamePattern,
    check_classes,
    field_value,
    is_split,
)
from tensorlake.quantities import plural
from tensorlake.types import ClassLabel, SampleType, as_type

__all__ = [
    "Facts",
    "FoundFile",
    "facts_of_folders",
    "facts_of_names",
    "facts_of_table",
    "name_of",
]

_OUTSIDE = "is outside the folders of the other"


class FoundFile(NamedTuple):  # made in a third of a frozen dataclass's time, once a file
    """A file of a folder or an archive."""

    path: str  # plain text: making a Path costs as much as reading the file
    nbytes: int
    parts: tuple[str, ...]  # folders below the source, outermost first
    stamp: object  # what changes where the content does: a time, or a checksum


class Facts(NamedTuple):
    """Tensors beside that of the files, and the files that have values."""

    images: list[FoundFile]
    outside: list[FoundFile]
    why: str  # the others have none
    types: Mapping[str, SampleType]
    value: Callable[[FoundFile, str], Any]
    stamp: Callable[[FoundFile], str] | None = None  # of the values, where they may change


def facts_of_folders(
    images: Sequence[FoundFile], shown: str, kind: FileKind, *, labels: bool, is_strict: bool
) -> Facts:
    """Find splits and classes in the names of folders."""
    inside = [p for p in images if p.parts]
    has_split = bool(inside) and all(is_split(p.parts[0]) for p in inside)
    depth = 1 if has_split else 0
    has_label = labels and any(len(p.parts) > depth for p in images)
    why = f"{_OUTSIDE} {kind.name}"
    inside, outside = _by_depth(images, depth + has_label)
    if outside and is_strict:
        raise _is_outside(inside, outside, depth, shown, kind)
    types: dict[str, SampleType] = {}
    if has_label:
        classes = sorted({p.parts[depth] for p in inside})
        check_classes(classes, shown)
        types["label"] = ClassLabel(classes)
    if has_split:
        types["split"] = ClassLabel(sorted({p.parts[0] for p in inside}))
    place = {"label": depth, "split": 0}

    def value(p: FoundFile, name: str) -> str:
        return p.parts[place[name]]

    return Facts(inside, outside, why, types, value)


def facts_of_names(
    images: Sequence[FoundFile],
    shown: str,
    names: NamePattern,
    schema: Mapping[str, Any],
    *,
    is_strict: bool,
) -> Facts:
    """Find the fields of a pattern in the names of files."""
    values = {p: names.values(name_of(p)) for p in images}
    inside = [p for p in images if values[p] is not None]
    outside = [p for p in images if values[p] is None]
    why = f"does not match the pattern {names.text!r}"
    if outside and (is_strict or not inside):
        few = f"{plural(len(outside), 'file')} of {len(images):,}"
        advice = "match all names, with wildcards such as {label}_*.*"
        if inside:
            advice += ", or leave these out: on_error='skip'"
        raise InvalidInputError(
            f"{name_of(outside[0])!r} of {shown!r} {why} ({few})\n{advice}",
            src=shown,
            item=name_of(outside[0]),
        )
    found = [values[p] or {} for p in inside]
    declared = {name: as_type(one) for name, one in schema.items()}
    types = names.types(found, declared)

    def value(p: FoundFile, name: str) -> Any:
        return field_value((values[p] or {})[name], types[name], name_of(p))

    return Facts(inside, outside, why, types, value)


def facts_of_table(
    images: Sequence[FoundFile],
    shown: str,
    sidecar: Sidecar,
    left_out: list[SkippedItem],
    *,
    is_strict: bool,
) -> Facts:
    """Find the values of each file in its row of a table."""
    inside = [p for p in images if sidecar.has(name_of(p))]
    outside = [p for p in images if not sidecar.has(name_of(p))]
    missing = sidecar.missing([name_of(p) for p in images])
    why = f"has no row in {sidecar.shown}"
    gone = f"is in {sidecar.shown}, and not in {shown!r}"
    problem = (name_of(outside[0]), why) if outside else (missing[0], gone) if missing else None
    if problem is not None and (is_strict or not inside):
        raise InvalidInputError(
            f"{problem[0]!r} {problem[1]} ({plural(len(outside), 'file')} without a row,"
            f" {plural(len(missing), 'row')} without a file)"
            "\nnames of files are paths below the folder, such as 'clips/1.mp4'; to leave these"
            " out: on_error='skip'",
            src=shown,
            item=problem[0],
        )
    left_out.extend(SkippedItem(name, gone) for name in missing)

    def value(p: FoundFile, name: str) -> Any:
        return sidecar.value(name_of(p), name)

    def stamp(p: FoundFile) -> str:
        return f":{sidecar.stamp(name_of(p))}"

    return Facts(inside, outside, why, sidecar.types, value, stamp)


def name_of(image: FoundFile) -> str:
    """Return the path of a file below the source."""
    return "/".join((*image.parts, image.path.rpartition(os.sep)[2].rpartition("/")[2]))


def _by_depth(images: Sequence[FoundFile], depth: int) -> tuple[list[FoundFile], list[FoundFile]]:
    """Split images into those at least ``depth`` folders deep, and the others."""
    inside = [p for p in images if len(p.parts) >= depth]
    return inside, [p for p in images if len(p.parts) < depth]


def _is_outside(
    images: Sequence[FoundFile],
    outside: Sequence[FoundFile],
    depth: int,
    shown: str,
    kind: FileKind,
) -> InvalidInputError:
    at = min(depth, len(images[0].parts) - 1)
    folders = ", ".join(repr(name) for name in sorted({p.parts[at] for p in images})[:3])
    few = f"{len(outside):,} of {plural(len(outside) + len(images), kind.tensor)}"
    return InvalidInputError(
        f"{name_of(outside[0])!r} of {shown!r} {_OUTSIDE} {kind.name} (such as {folders}): {few}"
        "\nput each into its folder, or leave them out: on_error='skip'; if folders are not"
        " classes: labels=False",
        src=shown,
        item=name_of(outside[0]),
    )
