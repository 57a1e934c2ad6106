"""The mix and the rows of its sources that ``loader.advance()`` asks for.

A place of a mix is a row, or a unit made of rows of one source (``UnitMix``): then *documents* are
the mix of the rows, and *places* the mix in which each source has its units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, Self, TypeAlias, TypeGuard, cast

from tensorlake.errors import InvalidInputError, did_you_mean, shown
from tensorlake.loader.plan.plan import Plan
from tensorlake.loader.plan.splice import Edit
from tensorlake.loader.sources.arrangement.items import edits_of
from tensorlake.loader.sources.arrangement.splice import UnitRows, edited
from tensorlake.loader.sources.mix import MixRows, MixSource
from tensorlake.loader.sources.mix.checks import check_columns
from tensorlake.loader.sources.mix.plan import SplicedMixPlan
from tensorlake.loader.sources.rows import OrderedRows, SelectedRows

__all__ = [
    "AnyMix",
    "UnitMix",
    "documents_of",
    "edited_mix",
    "edits_asked",
    "given_mix",
    "has_mixed_units",
    "is_mix",
    "places_of",
]


class UnitMix(OrderedRows, Protocol):
    """A mix whose places are units of its sources: packed sequences."""

    @property
    def documents(self) -> MixRows:
        """The mix of rows."""
        ...

    @property
    def sequences(self) -> MixRows:
        """The mix of units."""
        ...

    @property
    def form(self) -> Any:
        """How rows become units."""
        ...

    def of(self, documents: MixRows) -> Self:
        """Return the same units of other rows."""
        ...

    def units_of(self, rows: SelectedRows) -> UnitRows:
        """Return the units of the rows of a source."""
        ...

    def weighed(self, weights: tuple[float, ...]) -> Self:
        """Return the same units by the weights that a state recorded, if an older version did."""
        ...

    def spliced(self, plan: SplicedMixPlan) -> Plan:
        """Return the plan of units, whose sources are those of a plan of places."""
        ...


AnyMix: TypeAlias = MixRows | UnitMix


def has_mixed_units(rows: Any) -> TypeGuard[UnitMix]:
    """Whether places are units of a mix; not by a check of the protocol, which would find them."""
    return hasattr(type(rows), "sequences") and hasattr(type(rows), "units_of")


def is_mix(rows: Any) -> TypeGuard[AnyMix]:
    """Whether rows are of a mix."""
    return isinstance(rows, MixRows) or has_mixed_units(rows)


def documents_of(mix: AnyMix) -> MixRows:
    """Return the mix of rows, of which places are made."""
    return mix if isinstance(mix, MixRows) else mix.documents


def places_of(mix: AnyMix) -> MixRows:
    """Return the mix of places."""
    return mix if isinstance(mix, MixRows) else mix.sequences


def given_mix(rows: AnyMix, mix: Any) -> AnyMix:
    """Return the mix that a loader continues with: another one, if it is given.

    Raises:
        InvalidInputError: It is not a mix, or is not packed as the loader's.
    """
    if mix is None:
        return rows
    make = getattr(mix, "__mixed_rows__", None)
    made = None if make is None else cast("AnyMix | None", make())
    if made is None:
        raise InvalidInputError(
            f"advance(): mix is another mix, tl.mix(…), got {shown(mix)}",
            argument="mix",
            actual=mix,
        )
    own, names = documents_of(made), [*rows.selection.columns, *rows.virtual]
    if isinstance(rows, MixRows) != isinstance(made, MixRows) or _form(rows) != _form(made):
        raise InvalidInputError(
            f"advance(): the loader reads {_form(rows)}, and mix is of {_form(made)}"
            "\ngive another mix in the same form: tl.mix(…), or tl.mix(…).pack(…) with the same"
            " arguments",
            argument="mix",
            expected=_form(rows),
            actual=_form(made),
        )
    if not isinstance(rows, MixRows):
        names = sorted(rows.form.joins)
    check_columns(own.sources, [name for name in names if name[:1] != "_"])
    own = replace(own, limit=documents_of(rows).limit)
    return own if isinstance(rows, MixRows) else rows.of(own)


def _form(mix: AnyMix) -> str:
    """Describe what decides the content of a place."""
    if isinstance(mix, MixRows):
        return "rows"
    mask = sorted(mix.form.joins - {mix.form.tokens})
    return mix.form.suffix[1:] + "".join(f" mask={name}" for name in mask)


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
    in_force = next(iter(old.values())).where  # one condition for all sources
    for source in given.sources:
        edit = old.get(source.name, Edit(source.selection.snapshot.version, in_force))
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
        changed: dict[str, Any] = {"selection": found.selection, "reader": found.reader}
        changed |= {"server": found.server, "virtual": found.virtual}
        sources.append(replace(source, **changed))
    return replace(given, sources=tuple(sources))
