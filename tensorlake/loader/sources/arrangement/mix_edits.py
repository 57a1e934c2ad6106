"""The mix and the rows of its sources that ``loader.advance()`` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from tensorlake.errors import InvalidInputError, did_you_mean, shown
from tensorlake.loader.plan.splice import Edit
from tensorlake.loader.sources.arrangement.items import edits_of
from tensorlake.loader.sources.arrangement.splice import edited
from tensorlake.loader.sources.mix import MixRows, MixSource
from tensorlake.loader.sources.mix.checks import check_columns

__all__ = ["edited_mix", "edits_asked", "given_mix"]


def given_mix(rows: MixRows, mix: Any) -> MixRows:
    """Return the mix that a loader continues with: another one, if it is given."""
    if mix is None:
        return rows
    make = getattr(mix, "__mixed_rows__", None)
    if make is None:
        raise InvalidInputError(
            f"advance(): mix is another mix, tl.mix(…), got {shown(mix)}",
            argument="mix",
            actual=mix,
        )
    made = cast("MixRows", make())
    check_columns(made.sources, [name for name in rows.selection.columns if name[:1] != "_"])
    return replace(made, limit=rows.limit)


def edits_asked(
    given: MixRows, old: Mapping[str, Edit], asked: Mapping[str, Any]
) -> dict[str, Edit]:
    """Return which rows of each source are asked for."""
    versions, where, mix = asked["version"], asked["where"], asked["mix"]
    names = [source.name for source in given.sources]
    if asked["without"] is not None:
        raise InvalidInputError(
            "advance(without=…) is for the rows of one dataset\nleave rows of a mix out by where=",
            argument="without",
        )
    if versions is not None and not isinstance(versions, Mapping):
        raise InvalidInputError(
            f"advance(): a mix has a version of each source, got {shown(versions)}"
            f"\nwrite loader.advance({{{names[0]!r}: 'main@57'}})",
            argument="version",
            actual=versions,
        )
    if versions is None and where is None and mix is None:
        raise InvalidInputError(
            "advance() is given neither versions nor a mix nor a condition"
            f"\nwrite loader.advance({{{names[0]!r}: 'main@57'}}), or loader.advance(mix=tl.mix(…))"
        )
    by_name = cast("Mapping[str, Any]", versions or {})
    for name in by_name:
        if name not in names:
            raise InvalidInputError(
                f"the mix has no source {shown(name)}{did_you_mean(str(name), names)}"
                f"\nits sources: {', '.join(names)}",
                argument="version",
                actual=name,
            )
    new: dict[str, Edit] = {}
    for source in given.sources:
        edit = old.get(source.name, Edit(source.selection.snapshot.version))
        if mix is not None:
            edit = replace(edit, version=source.selection.snapshot.version)
        version = by_name.get(source.name)
        is_changed = version is not None or where is not None
        new[source.name] = edited(edit, version=version, where=where) if is_changed else edit
    return new


def edited_mix(given: MixRows, edits: dict[str, Edit]) -> MixRows:
    """Return a mix of the rows that edits of its sources ask for; versions are written out."""
    sources: list[MixSource] = []
    for source in given.sources:
        found = edits_of(source).rows(edits[source.name])
        version = found.selection.snapshot.version
        if not found.selection.num_rows:
            raise InvalidInputError(
                f"advance(): source {source.name!r} has no rows left at {version}"
                "\ngive a mix without it: loader.advance(mix=tl.mix(…))",
                actual=source.name,
            )
        edits[source.name] = replace(edits[source.name], version=version)
        sources.append(replace(source, selection=found.selection, reader=found.reader))
    return replace(given, sources=tuple(sources))
